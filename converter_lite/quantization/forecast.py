"""Forecast of the size of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.blocks import scales_shape
from converter_lite.kernels.params import QuantSpec
from converter_lite.passes.half import bytes_saved
from converter_lite.quantization.adaptive import can_fit
from converter_lite.quantization.bias_correction import GRID_BELOW_BITS
from converter_lite.quantization.bodies import inner_nodes
from converter_lite.quantization.placement import is_fused_clamp
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.qdq.materialize import storage_bits
from converter_lite.quantization.qdq.parts import NARROWEST, has_two_parts
from converter_lite.targets.operands import stored_axis, stored_weights

NODE_BYTES = 60
"""Size of a node in an ONNX file without its names."""

QDQ_BYTES, QDQ_NAMES = 190, 12
"""The Q/DQ of a tensor with its scale and zero point: bytes, and how often it contains the tensor's name."""

STORED_BYTES, STORED_NAMES = 150, 8
"""The same for a constant behind a DequantizeLinear."""

AT_LOAD_BYTES, AT_LOAD_NAMES = 291, 17
"""The same for a constant that is dequantized when the file is loaded."""

BIAS_BYTES = 8
"""Scale and zero point of one channel of an integer bias; its values take as much space as in float."""


INPUT_SCALES_BYTES, INPUT_SCALES_NAMES = 120, 4
"""The input scales of a weight besides the numbers: the node that multiplies with them, and names in it."""


@dataclass(frozen=True, slots=True)
class StoredAs:
    """How a file will store constants.

    Attributes:
        bits: Width of weights whose parameters the plan does not hold yet.
        per_channel: Whether weights have one scale per channel.
        integer_bias: Whether integer nodes get integer biases.
        narrowest: Least width of stored integers.
        input_scales: Whether weights of less than 8 bits get scales per column, where their rounding is fitted to samples.
        at_load: Whether weights are dequantized when the file is loaded.
        blocks: The grid of a weight that gets a scale per block.
        model_bytes: Of the model that was read: a larger file keeps float16 for what is float16; 0: unknown.
    """

    bits: int = 8
    per_channel: bool = True
    integer_bias: bool = False
    narrowest: int = NARROWEST
    input_scales: bool = False
    at_load: bool = False
    blocks: Callable[[ir.Node, ir.Value], QuantSpec | None] = lambda node, weight: None
    model_bytes: int = 0


def forecast_bytes(
    model: ir.Model,
    plan: QuantPlan,
    stored_as: StoredAs,
) -> int:
    """Estimated bytes of the written ONNX file: constants as stored, nodes at their typical size.

    Args:
        model: Optimized float graph.
        plan: Decisions.
        stored_as: How the file is going to hold constants.
    """
    total, per_channel = 0, stored_as.per_channel
    stored: set[str] = set()
    for node in (*model.graph, *inner_nodes(model.graph)):
        total += _node_bytes(node)
        mode = plan.mode(node)
        for weight in stored_weights(node) if mode is not NodeMode.FLOAT else ():
            if not weight.name:
                continue
            stored.add(weight.name)
            planned = plan.weights.get(weight.name)
            spec = stored_as.blocks(node, weight) if planned is None else planned.spec
            if spec is not None and spec.block:
                total += _block_bytes(weight, spec)
                continue
            width = stored_as.bits if planned is None else planned.spec.bits
            total += stored_bytes(node, weight, width, per_channel=per_channel, narrowest=stored_as.narrowest)
            if stored_as.at_load:
                more = _named(AT_LOAD_BYTES - STORED_BYTES, AT_LOAD_NAMES - STORED_NAMES, weight)
                total += more * len(_widths(width, stored_as.narrowest))
            if stored_as.input_scales and per_channel and width < GRID_BELOW_BITS:
                total += _input_scales_bytes(node, weight)
            if stored_as.integer_bias and mode is NodeMode.INTEGER:
                total += BIAS_BYTES * (_channels(node, weight) if per_channel else 1) + _named(
                    STORED_BYTES, STORED_NAMES, weight
                )
        if mode is NodeMode.INTEGER and not is_fused_clamp(node, plan):
            total += _named(QDQ_BYTES, QDQ_NAMES, node.outputs[0])
    floats = 0
    for name, value in model.graph.initializers.items():
        if name not in stored and value.const_value is not None:
            floats += value.const_value.nbytes
            total += value.const_value.nbytes + len(name)
    if 0 < stored_as.model_bytes < floats:
        total -= bytes_saved(model, integers=stored)
    return total


def stored_bytes(node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool, narrowest: int = NARROWEST) -> int:
    """Estimated bytes of a weight as integers: elements, scales, zero points, and the node that reads them."""
    shape = g.static_shape(weight) or (0,)
    elements = 1
    for size in shape:
        elements *= size
    channels = _channels(node, weight) if per_channel else 1
    return sum(
        elements * width // 8 + channels * (4 + width // 8) + _named(STORED_BYTES, STORED_NAMES, weight)
        for width in _widths(bits, narrowest)
    )


def _block_bytes(weight: ir.Value, spec: QuantSpec) -> int:
    shape, bits = tuple(g.static_shape(weight) or (0,)), storage_bits(spec)
    blocks = math.prod(scales_shape(shape, spec.axis or 0, spec.block))
    numbers = math.prod(shape) * bits // 8 + 4 * blocks + (0 if spec.symmetric else blocks * bits // 8)
    return numbers + _named(STORED_BYTES, STORED_NAMES, weight)


def _widths(bits: int, narrowest: int) -> tuple[int, ...]:
    """Widths of the parts in which a weight is stored."""
    spec = QuantSpec(bits=bits)
    return (4, 2) if has_two_parts(spec, narrowest) else (storage_bits(spec, narrowest),)


def _input_scales_bytes(node: ir.Node, weight: ir.Value) -> int:
    array = g.constant(weight)
    if array is None or not can_fit(node, array) or len(weight.uses()) != 1:
        return 0
    return 4 * array.size // max(_channels(node, weight), 1) + _named(INPUT_SCALES_BYTES, INPUT_SCALES_NAMES, weight)


def _node_bytes(node: ir.Node) -> int:
    names = sum(len(value.name or "") for value in (*node.inputs, *node.outputs) if value is not None)
    return NODE_BYTES + names + len(node.name or "")


def _named(size: int, times: int, value: ir.Value) -> int:
    return size + times * len(value.name or "")


def _channels(node: ir.Node, weight: ir.Value) -> int:
    axis = stored_axis(node, weight)
    return (g.static_shape(weight) or (0,))[axis] if axis is not None else 1
