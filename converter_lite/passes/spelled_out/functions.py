"""Functions of single elements, and the logarithm of a sum of exponentials."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import AXES_AS_INPUT, insert, reduced

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""Defaults of Selu (ONNX operator specification)."""

SINGLE_AXIS = 13
"""The first operator set in which LogSoftmax is along one axis."""


@for_each("Celu")
def spell_out_celu(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace ``Celu(x)`` by ``alpha * Elu(x / alpha)``.

    Refused: an alpha that is not above zero, whose curve is another one.
    """
    return _scaled_elu(graph, node)


@for_each("Selu")
def spell_out_selu(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace ``Selu(x)`` by ``gamma * Elu(x)``."""
    return _scaled_elu(graph, node)


def _scaled_elu(graph: ir.Graph, node: ir.Node) -> bool:
    x = node.inputs[0]
    if x is None or x.dtype is not ir.DataType.FLOAT:
        return False
    shape, is_celu = g.static_shape(x), node.op_type == "Celu"
    alpha = g.float_attribute(node, "alpha", 1.0 if is_celu else SELU_ALPHA)
    if is_celu and alpha <= 0:
        return False
    factor = alpha if is_celu else g.float_attribute(node, "gamma", SELU_GAMMA)
    if is_celu and alpha != 1.0:
        inner = g.add_initializer(graph, f"{node.name}_alpha", np.array(alpha, np.float32))
        x = insert(graph, node, "Div", [x, inner], shape)
    curved = insert(graph, node, "Elu", [x], shape, alpha=1.0 if is_celu else alpha)
    stored = g.add_initializer(graph, f"{node.name}_factor", np.array(factor, np.float32))
    replace([node], ir.node("Mul", [curved, stored]))
    return True


@for_each("ReduceLogSumExp")
def spell_out_log_sum_exp(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace ReduceLogSumExp: ``m + Log(ReduceSum(Exp(x - m)))`` with the largest element m, or the largest number.

    Refused: unknown sizes, axes that are not constant, and other types than float32.
    """
    x, axes = node.inputs[0], _reduced_axes(graph, node)
    shape, result = g.static_shape(x), g.static_shape(node.outputs[0])
    if x is None or x.dtype is not ir.DataType.FLOAT or shape is None or result is None or not axes:
        return False
    most = np.finfo(np.float32).max
    bounds = [
        g.add_initializer(graph, f"{node.name}_{n}", np.array(v, np.float32))
        for n, v in (("low", -most), ("high", most))
    ]
    largest = reduced(graph, node, "ReduceMax", x, [axis % len(shape) for axis in axes])
    kept = g.static_shape(largest)
    finite = insert(graph, node, "Clip", [largest, *bounds], kept)
    powers = insert(graph, node, "Exp", [insert(graph, node, "Sub", [x, finite], shape)], shape)
    total = reduced(graph, node, "ReduceSum", powers, [axis % len(shape) for axis in axes])
    whole = insert(graph, node, "Add", [insert(graph, node, "Log", [total], kept), finite], kept)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(result, np.int64))
    replace([node], ir.node("Reshape", [whole, target]))
    return True


def _reduced_axes(graph: ir.Graph, node: ir.Node) -> list[int]:
    """Axes of a reduction; none where they are not constant. Without any given, all are reduced."""
    rank = len(g.static_shape(node.inputs[0]) or ())
    if g.opset(graph) < AXES_AS_INPUT:
        return list(g.ints_attribute(node, "axes", tuple(range(rank))))
    given = g.input_at(node, 1)
    if given is None:
        return [] if g.int_attribute(node, "noop_with_empty_axes", 0) else list(range(rank))
    found = g.constant(given)
    return [] if found is None else found.tolist()


@for_each("LogSoftmax", since=SINGLE_AXIS)
def spell_out_log_softmax(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace LogSoftmax: ``d - Log(ReduceSum(Exp(d)))`` with the distance d from the largest element.

    The logarithm of a Softmax is minus infinity where a share is too small for a float32.

    Refused: unknown sizes, other types than float32, and operator sets below 13, in which several axes are one.
    """
    x, shape = node.inputs[0], g.static_shape(node.inputs[0])
    if x is None or x.dtype is not ir.DataType.FLOAT or not shape:
        return False
    axis = g.int_attribute(node, "axis", -1) % len(shape)
    distance = insert(graph, node, "Sub", [x, reduced(graph, node, "ReduceMax", x, [axis])], shape)
    total = reduced(graph, node, "ReduceSum", insert(graph, node, "Exp", [distance], shape), [axis])
    replace([node], ir.node("Sub", [distance, insert(graph, node, "Log", [total], g.static_shape(total))]))
    return True
