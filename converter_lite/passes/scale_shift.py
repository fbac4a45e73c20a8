"""Per-channel arithmetic with constants into the layer before it."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.graph import constant, single_consumer
from converter_lite.passes.channelwise import LinearLayer, Vector, linear_layer, scale_and_shift
from converter_lite.passes.rewrite import constant_operand, for_each, merge_into_producer


@for_each("Mul", "Div", "Add", "Sub")
def fold_scale_shift(_graph: ir.Graph, node: ir.Node) -> bool:
    """Fold Mul, Div, Add and Sub by constants into the weights and bias of the layer before.

    ::

        x ─ Conv | ConvTranspose | Gemm ─ Mul | Div | Add | Sub (constant per channel) ─ y   becomes   x ─ Conv' ─ y

    Refused: another reader of the layer's output, a constant that varies along another axis than the channels or adds
    axes, a constant divided by the output, a factor of a weight that other nodes read too (a file would hold it once for each),
    a result that is not finite. Arithmetic *before* a layer is never folded:
    zero padding would see the shifted values.
    """
    operands = constant_operand(node)
    if operands is None:
        return False
    source, operand, constant_first = operands
    producer = source.producer()
    if producer is None or single_consumer(source) is not node or (node.op_type == "Div" and constant_first):
        return False
    layer = linear_layer(producer)
    if layer is None:
        return False
    vector = _per_channel(operand, layer)
    if vector is None or (node.op_type == "Div" and np.any(vector == 0)):
        return False
    scale, shift = _scale_and_shift_of(node.op_type, vector, constant_first)
    weight = producer.inputs[1]
    if weight is not None and len(weight.uses()) > 1 and not np.all(scale == 1.0):
        return False
    folded = scale_and_shift(layer, scale, shift)
    if folded is None:
        return False
    merge_into_producer(folded, node)
    return True


def _scale_and_shift_of(op_type: str, vector: Vector, constant_first: bool) -> tuple[Vector, Vector]:
    ones, zeros = np.ones_like(vector), np.zeros_like(vector)
    if op_type == "Mul":
        return vector, zeros
    if op_type == "Div":
        return 1.0 / vector, zeros
    if op_type == "Add":
        return ones, vector
    return (-ones, vector) if constant_first else (ones, -vector)


def _per_channel(operand: ir.Value, layer: LinearLayer) -> Vector | None:
    """The constant as one value per output channel, ``None`` if it broadcasts in any other way."""
    array = constant(operand)
    if array is None or array.ndim > layer.output_rank:
        return None
    shape = (1,) * (layer.output_rank - array.ndim) + array.shape
    if any(size != 1 for axis, size in enumerate(shape) if axis != 1) or shape[1] not in (1, layer.channels):
        return None
    return np.array(np.broadcast_to(array.reshape(-1).astype(np.float64), (layer.channels,)))
