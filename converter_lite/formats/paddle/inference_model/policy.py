"""Which nodes Paddle itself can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_inference.md. Everything that makes a plan for a Paddle inference model uses this.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.targets.policy import Capability

NAME = "paddle"
"""The target of plans."""

WIDTHS = (8,)
"""Widths of integer weights."""


@dataclass(frozen=True, slots=True)
class InferencePolicy(PaddlePolicy):
    """What Paddle can do; a :class:`~converter_lite.targets.policy.Policy`."""

    name: str = NAME

    def capability(self, node: ir.Node) -> Capability:
        """What Paddle can do with a node: what Paddle-Lite's kernels for ARM can."""
        return PaddlePolicy("arm").capability(node)
