"""Constants of the float graph that quantization starts from: whole biases, finite values."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import CalibrationError
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.targets.operands import bias_of, stored_weight, weight_of
from converter_lite.targets.rules import data_inputs

BIAS_OPERATORS = frozenset({"Conv", "ConvTranspose", "Gemm"})
"""Operators with a bias input."""


def ensure_biases(model: ir.Model, *, operators: frozenset[str]) -> None:
    """Give every node of these operators with a constant weight a bias that no other node reads and no output is."""
    graph, names = model.graph, g.Names(model.graph)
    for node in graph:
        weight = weight_of(node)
        if node.op_type not in operators or weight is None:
            continue
        bias = bias_of(node)
        if bias is None:
            channels = _output_channels(node, weight)
            if channels is None:
                continue
            node.resize_inputs(3)
            zeros = np.zeros(channels, np.float32)
            node.replace_input_with(2, g.add_initializer(graph, f"{node.name}_bias", zeros, names=names))
        elif g.is_constant(bias) and g.single_consumer(bias) is None:
            array = g.constant(bias)
            assert array is not None
            node.replace_input_with(2, g.add_initializer(graph, f"{node.name}_bias", array, names=names))


def has_channel_bias(node: ir.Node) -> bool:
    """Whether the node has a constant bias of one value per output channel (Gemm allows other shapes)."""
    weight, bias = weight_of(node), bias_of(node)
    if weight is None or bias is None or not g.is_constant(bias):
        return False
    shape = g.static_shape(bias) or ()
    return bool(shape) and shape[-1] == _output_channels(node, weight) and all(size == 1 for size in shape[:-1])


def _output_channels(node: ir.Node, weight: ir.Value) -> int | None:
    shape = g.static_shape(weight)
    if shape is None:
        return None
    if node.op_type == "ConvTranspose":
        return shape[1] * g.int_attribute(node, "group", 1)
    if node.op_type == "Gemm":
        return shape[0] if g.int_attribute(node, "transB", 0) else shape[1]
    return shape[0]


def refuse_broken_constants(model: ir.Model, plan: QuantPlan) -> None:
    """Name a broken constant before calibration would name the first tensor that it spoils.

    Raises:
        CalibrationError: A constant of a quantized node holds NaN or infinite values.
    """
    for node in g.all_nodes(model.graph):
        if plan.mode(node) is NodeMode.FLOAT:
            continue
        for value in dict.fromkeys((*data_inputs(node), stored_weight(node), bias_of(node))):
            array = g.constant(value)
            if value is not None and array is not None and not np.isfinite(array.astype(np.float32, copy=False)).all():
                raise CalibrationError(
                    "it holds NaN or infinite values", where=f"constant {value.name}", hint="repair the model's weights"
                )
