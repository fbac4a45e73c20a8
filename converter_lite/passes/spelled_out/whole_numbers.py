"""Bounds and sizes of whole numbers."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert

WHOLE = (ir.DataType.INT32, ir.DataType.INT64)
"""Types of places, distances and counts."""


@for_each("Abs", "Clip", "Max", "Min")
def spell_out_whole_numbers(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace Abs, Clip, Max and Min of whole numbers, such as places and distances, by comparisons and choices.

    Refused: results of unknown size, and types of other widths.
    """
    x, shape = node.inputs[0], g.static_shape(node.outputs[0])
    if x is None or x.dtype not in WHOLE or shape is None:
        return False
    smaller, larger = (functools.partial(_choice, graph, node, shape, larger=larger) for larger in (False, True))
    given = [value for value in node.inputs if value is not None]
    if node.op_type == "Abs":
        zero = g.add_initializer(graph, f"{node.name}_zero", np.array(0, x.dtype.numpy()))
        result = larger(x, insert(graph, node, "Sub", [zero, x], shape))
    elif node.op_type == "Clip":
        low, high = g.input_at(node, 1), g.input_at(node, 2)
        result = x if low is None else larger(x, low)
        result = result if high is None else smaller(result, high)
    else:
        result = functools.reduce(larger if node.op_type == "Max" else smaller, given)
    replace([node], ir.node("Identity", [result]))
    return True


def _choice(
    graph: ir.Graph, node: ir.Node, shape: tuple[int, ...], first: ir.Value, second: ir.Value, *, larger: bool
) -> ir.Value:
    """The larger or the smaller of two numbers, everywhere."""
    sizes = (g.static_shape(first), g.static_shape(second))
    both = shape if None in sizes else np.broadcast_shapes(*sizes)  # type: ignore[arg-type]
    less = insert(graph, node, "Less", [first, second], both)
    less.type = ir.TensorType(ir.DataType.BOOL)
    return insert(graph, node, "Where", [less, second, first] if larger else [less, first, second], both)
