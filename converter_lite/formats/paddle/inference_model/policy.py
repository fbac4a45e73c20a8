"""Which nodes Paddle itself can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_inference.md. Everything that makes a plan for a Paddle inference model uses this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.targets.policy import Capability

NAME = "paddle"
"""The target of plans."""

WIDTHS = (8,)
"""Widths of integer weights."""


@dataclass(frozen=True, slots=True)
class InferencePolicy(PaddlePolicy):
    """What Paddle can do; a :class:`~converter_lite.targets.policy.Policy`.

    Attributes:
        tables: Tables of rows are stored as integers: not beside nodes that compute with integers, where the passes that
            prepare these read the integers of a table as floats.
    """

    name: str = NAME
    tables: bool = False

    def capability(self, node: ir.Node) -> Capability:
        """What Paddle can do with a node: what Paddle-Lite's kernels for ARM can, tables excepted."""
        found = PaddlePolicy("arm").capability(node)
        integer, stored = (reason.replace("Paddle-Lite", "Paddle") for reason in (found.integer, found.stored))
        if node.op_type == "Gather" and not self.tables:
            stored = stored or "beside integer nodes Paddle reads the integers of a table as floats"
        return replace(found, integer=integer, stored=stored)
