"""Which nodes Paddle itself can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_inference.md. Everything that makes a plan for a Paddle inference model uses this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.targets.operands import stored_weight
from converter_lite.targets.policy import Capability

NAME = "paddle"
"""The target of plans."""

WIDTHS = (8,)
"""Widths of integer weights."""


UNPREPARED = ("ConvTranspose", "Gather")
"""ONNX operators whose integer weights Paddle's passes for oneDNN read as floats: they prepare convolutions and products."""


@dataclass(frozen=True, slots=True)
class InferencePolicy(PaddlePolicy):
    """What Paddle can do; a :class:`~converter_lite.targets.policy.Policy`.

    Attributes:
        weights_only: No node computes with integers: such a model needs no passes, and tables may be stored as integers.
    """

    name: str = NAME
    weights_only: bool = False

    def capability(self, node: ir.Node) -> Capability:
        """What Paddle can do with a node: what Paddle-Lite's kernels for ARM can, where the passes prepare the weight."""
        found = PaddlePolicy("arm").capability(node)
        integer, stored = (reason.replace("Paddle-Lite", "Paddle") for reason in (found.integer, found.stored))
        if node.op_type in UNPREPARED and stored_weight(node) is not None:
            unprepared = "Paddle's passes for integers do not prepare the weight of such an operator"
            integer = integer or unprepared
            if not self.weights_only:
                stored = stored or unprepared
        return replace(found, integer=integer, stored=stored)
