"""Constant operands of a node: its weight, its bias, and the axis of per-channel scales."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.pairs import PairRule, convolution_rule, matrix_rule
from converter_lite.kernels.params import QuantParams
from converter_lite.kernels.quantize import along_axis
from converter_lite.kernels.rounding import round_compensated
from converter_lite.targets.operators import OPERATORS, Operator, Role

FLOAT_TYPES = (ir.DataType.FLOAT, None)
"""Element types that are quantized; ``None`` = not inferred, which happens only for float models of unknown operators."""

RECURRENT = ("LSTM", "GRU", "RNN")
"""Operators with two weights, for the input and for the state: ``(directions, gates * hidden size, columns)``."""

SMALL = 1024
"""Most elements of a table, or of the weights of a recurrent layer, that stay float: integers would save 3 KB and cost two
operators (MiniLM: 0.2 % of the time)."""

SAVES_NOTHING = "its weights are so small that integers save nothing"
"""Why layers with fewer elements than that stay float."""

BLOCK_VALUES = 1 << 16
"""Elements of a weight that are rounded at a time (whole channels): what rounding keeps for each, some eighty bytes, stays in the
caches of a processor."""

TRANSFORMS = "small numbers of a spectrum would become zero"
"""Why a Fourier transform stays float."""


def operator(node: ir.Node) -> Operator | None:
    """Entry in the operator catalogue, ``None`` for operators of other domains and unknown ones."""
    return OPERATORS.get(node.op_type) if not node.domain else None


def is_weighted(node: ir.Node) -> bool:
    """Whether the node multiplies data with weights or, for MatMul, with other data."""
    entry = operator(node)
    return entry is not None and entry.role is Role.WEIGHTED


def weight_of(node: ir.Node) -> ir.Value | None:
    """The constant float weight of a weighted node, else ``None``."""
    entry = operator(node)
    return None if entry is None or entry.weight is None else _constant_floats(g.input_at(node, entry.weight))


def bias_of(node: ir.Node) -> ir.Value | None:
    """The bias input of a weighted node (constant or not), else ``None``."""
    entry = operator(node)
    return None if entry is None or entry.bias is None else g.input_at(node, entry.bias)


def stored_weight(node: ir.Node) -> ir.Value | None:
    """The constant float weight of a node with one weight, or the table of a Gather, else ``None``."""
    if node.op_type == "Gather" and not node.domain:
        return _constant_floats(node.inputs[0])
    return weight_of(node)


def is_recurrent(node: ir.Node) -> bool:
    """Whether a node has weights for input and state."""
    return node.op_type in RECURRENT and not node.domain


def stored_weights(node: ir.Node) -> tuple[ir.Value, ...]:
    """All constants that weight quantization may store as integers: one, two of a recurrent node, or none."""
    values = map(_constant_floats, node.inputs[1:3]) if is_recurrent(node) else (stored_weight(node),)
    return tuple(value for value in values if value is not None)


def is_small(node: ir.Node) -> bool:
    """Whether integers in place of the node's weights would save next to nothing."""
    return sum(prod(g.static_shape(weight) or ()) for weight in stored_weights(node)) <= SMALL


def is_transform(node: ir.Node) -> bool:
    """Whether a node is a Fourier transform that was spelled out: its cosines and sines are no weights that were learnt."""
    return any(value is not None and g.FREQUENCIES in value.meta for value in node.inputs)


def _constant_floats(value: ir.Value | None) -> ir.Value | None:
    is_weight = value is not None and value.dtype in FLOAT_TYPES and g.FREQUENCIES not in value.meta
    return value if value is not None and is_weight and g.is_constant(value) else None


def missing_weight(node: ir.Node) -> str:
    """Why :func:`stored_weights` finds none, as the reason in the plan."""
    entry = operator(node)
    position = entry.weight if entry is not None and entry.weight is not None else int(is_recurrent(node))
    value = g.input_at(node, position)
    if is_transform(node):
        return TRANSFORMS
    if value is not None and g.is_constant(value) and value.dtype is not None:
        return f"its weight is {value.dtype.name.lower()}, not float32"
    return "its weight is not constant"


def stored_axis(node: ir.Node, weight: ir.Value) -> int | None:
    """Axis of per-channel scales of a stored weight: output channels, the gathered rows, or rows of gates."""
    if is_recurrent(node):
        return 1
    if node.op_type == "Gather":
        return 0 if g.int_attribute(node, "axis", 0) == 0 else None
    return output_channel_axis(node, weight)


def output_channel_axis(node: ir.Node, weight: ir.Value) -> int | None:
    """Axis of a weight that runs over output channels, ``None`` if no single axis does."""
    shape = g.static_shape(weight)
    if shape is None or len(shape) < 2:
        return None
    if node.op_type == "Conv":
        return 0
    if node.op_type == "ConvTranspose":
        return 1 if g.int_attribute(node, "group", 1) == 1 else None
    if node.op_type == "Gemm":
        return 0 if g.int_attribute(node, "transB", 0) else 1
    return 1 if node.op_type == "MatMul" and len(shape) == 2 else None


def has_short_columns(node: ir.Node, weight: ir.Value, least: int) -> bool:
    """Whether the columns of a product's weight have fewer than ``least`` elements: too few for scales of their own."""
    axis, shape = output_channel_axis(node, weight), g.static_shape(weight)
    return (
        node.op_type in ("MatMul", "Gemm")
        and shape is not None
        and axis is not None
        and prod(shape) < least * shape[axis]
    )


def is_depthwise(node: ir.Node) -> bool:
    """Whether every output channel of a Conv reads one input channel."""
    shape = g.static_shape(g.input_at(node, 1))
    return node.op_type == "Conv" and shape is not None and shape[1] == 1 and g.int_attribute(node, "group", 1) > 1


def pair_rule(node: ir.Node) -> PairRule | None:
    """Neighbours in the sums of an integer kernel for Conv, Gemm or MatMul with a constant weight, or for a recurrent layer.

    ``None`` for other nodes, and for a convolution of single channels, whose kernels do not saturate.
    """
    if is_recurrent(node):
        return matrix_rule(3, transposed=True)
    weight = weight_of(node)
    shape = g.static_shape(weight)
    if weight is None or shape is None or not shape:
        return None
    if node.op_type == "Conv":
        return convolution_rule(shape, g.int_attribute(node, "group", 1))
    if node.op_type not in ("Gemm", "MatMul"):
        return None
    return matrix_rule(len(shape), transposed=bool(g.int_attribute(node, "transB", 0)))


def compensated_integers(node: ir.Node, weight: NDArray[np.float32], params: QuantParams) -> NDArray[np.signedinteger]:
    """Integers whose rounding errors cancel per kernel and per output channel, in the layout of ``weight``.

    Those of a weight that kernels also add up along another axis are the nearest that no kernel saturates with.
    """
    value, spec = node.inputs[1], params.spec
    axis = (output_channel_axis(node, value) if value is not None else None) or 0
    if any(rule.rows != (axis,) for rule in params.pair_rules):
        return params.quantize(weight)
    weight = weight if params.input_scales is None else weight / params.input_scales
    q = np.empty(weight.shape, spec.integer_type)
    front, front_q = np.moveaxis(weight, axis, 0), np.moveaxis(q, axis, 0)
    front_scale, front_zero = (
        _per_channel(along_axis(values.astype(np.float64), weight.ndim, spec.axis), weight.ndim, axis, len(front))
        for values in (params.scale, params.zero_point)
    )
    channels = max(BLOCK_VALUES * len(front) // max(weight.size, 1), 1)
    pairs = [columns for rule in params.pair_rules for columns in rule.pairs(weight.shape)]
    for start in range(0, len(front), channels):
        block = slice(start, start + channels)
        scaled = front[block] / front_scale[block] + front_zero[block]
        kernels = scaled.reshape(*scaled.shape[:2], -1)
        integers = round_compensated(kernels, qmin=spec.qmin, qmax=spec.qmax, pairs=pairs)
        front_q[block] = integers.reshape(scaled.shape)
    return q


def _per_channel(values: NDArray[np.float64], rank: int, axis: int, channels: int) -> NDArray[np.float64]:
    """Values with the channel axis in front, repeated there if there is one for all channels."""
    front = np.moveaxis(values.reshape((1,) * (rank - values.ndim) + values.shape), axis, 0)
    return np.broadcast_to(front, (channels, *front.shape[1:]))
