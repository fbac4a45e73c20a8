"""Clips whose bounds are constants."""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite.graph import clamp_bounds
from converter_lite.passes.rewrite import for_each, replace


@for_each("Clip")
def recognize_relu(_graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Clip that only removes negative values by Relu.

    ::

        x ─ Clip(min=0, max=∞ or left out) ─ y      becomes      x ─ Relu ─ y

    Refused: bounds that are not constant, an upper bound, types other than float.
    """
    source = node.inputs[0]
    if source is None or source.dtype != ir.DataType.FLOAT or clamp_bounds(node) != (0.0, math.inf):
        return False
    replace([node], ir.node("Relu", inputs=[source]))
    return True
