"""Size of a result before it is made."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.onnx_qdq.materialize import storage_bits
from converter_lite.quantization.params import QuantSpec
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.weights import stored_axis, stored_weight

NODE_BYTES = 150
"""Typical size of a node with its names in an ONNX file."""

PAIR_BYTES = 2 * NODE_BYTES
"""A quantize/dequantize pair."""


def forecast_bytes(model: ir.Model, plan: QuantPlan, *, bits: int) -> int:
    """Estimated bytes of the written ONNX file: constants as stored, nodes at their typical size."""
    total = 0
    stored: set[str] = set()
    nodes = 0
    for node in model.graph:
        nodes += 1
        mode = plan.mode(node)
        weight = stored_weight(node)
        if mode is not NodeMode.FLOAT and weight is not None and weight.name:
            stored.add(weight.name)
            total += _stored_bytes(node, weight, bits)
        if mode is NodeMode.INTEGER:
            total += PAIR_BYTES
    for name, value in model.graph.initializers.items():
        if name not in stored and value.const_value is not None:
            total += value.const_value.nbytes
    return total + nodes * NODE_BYTES


def _stored_bytes(node: ir.Node, weight: ir.Value, bits: int) -> int:
    shape = g.static_shape(weight) or (0,)
    elements = 1
    for size in shape:
        elements *= size
    axis = stored_axis(node, weight)
    channels = shape[axis] if axis is not None else 1
    width = storage_bits(QuantSpec(bits=bits))
    return elements * width // 8 + channels * 5 + 2 * NODE_BYTES
