"""Weights that are too small to be quantized: ``min_quant_weight_size`` and ``min_quant_weight_channel``."""

from __future__ import annotations

from math import prod

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.targets.operands import stored_weights

CHANNEL_FILTERED = ("Conv", "ConvTranspose")
"""Operators that ``min_quant_weight_channel`` applies to (measured behaviour of the original)."""


def too_small(node: ir.Node, min_size: int, min_channel: int) -> str:
    """Why the largest weight of a node is too small, as the reason in the plan; empty if it is not, or there is none.

    Args:
        node: With weights or without.
        min_size: Most elements that are too few.
        min_channel: Most output channels of a convolution that are too few.
    """
    shape = max((g.static_shape(weight) or () for weight in stored_weights(node)), key=prod, default=())
    if not shape:
        return ""
    if prod(shape) <= min_size:
        return f"its weight has at most min_quant_weight_size={min_size} elements"
    if node.op_type in CHANNEL_FILTERED and _channels(node, shape) <= min_channel:
        return f"it has at most min_quant_weight_channel={min_channel} output channels"
    return ""


def _channels(node: ir.Node, shape: tuple[int, ...]) -> int:
    return shape[1] * g.int_attribute(node, "group", 1) if node.op_type == "ConvTranspose" else shape[0]
