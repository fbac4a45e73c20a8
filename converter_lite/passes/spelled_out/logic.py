"""Tests of numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert

ROUNDED = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
"""Types that Round knows."""

FIRST_OPSET = 12
"""The first operator set with LessOrEqual."""


@for_each("IsNaN", since=FIRST_OPSET)
def spell_out_is_nan(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace IsNaN, which current exporters put behind a softmax whose rows may be empty, by "not at most infinite".

    (A comparison with itself, which differs only for NaN, is true for NaN in Paddle-Lite.)
    """
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return False
    infinity = g.add_initializer(graph, f"{node.name}_infinity", np.array(np.inf, x.dtype.numpy()))
    numbers = insert(graph, node, "LessOrEqual", [x, infinity], g.static_shape(x))
    replace([node], ir.node("Not", [numbers]))
    return True


@for_each("IsInf")
def spell_out_is_infinite(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace IsInf, which frameworks put into logarithms of sums of powers, by "larger than the largest number"."""
    x, (below, above) = node.inputs[0], (g.int_attribute(node, f"detect_{end}", 1) for end in ("negative", "positive"))
    if x is None or x.dtype not in ROUNDED or not (below or above):
        return False
    if below and above:
        size = insert(graph, node, "Abs", [x], g.static_shape(x))
        size.type, x = x.type, size
    largest = np.finfo(x.dtype.numpy()).max  # type: ignore[union-attr]
    limit = np.array(largest if above else -largest)
    bound = g.add_initializer(graph, f"{node.name}_largest", limit)
    replace([node], ir.node("Greater" if above else "Less", [x, bound]))
    return True


@for_each("Sign")
def spell_out_sign(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace Sign by the difference of what is positive and what is negative."""
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return False
    zero = g.add_initializer(graph, f"{node.name}_zero", np.zeros((), x.dtype.numpy()))
    positive, negative = (_holds(graph, node, op_type, x, zero) for op_type in ("Greater", "Less"))
    replace([node], ir.node("Sub", [positive, negative]))
    return True


def _holds(graph: ir.Graph, node: ir.Node, op_type: str, first: ir.Value, second: ir.Value) -> ir.Value:
    """1 where a comparison with a number holds, else 0, in the type of the node's result."""
    shape, kind = g.static_shape(first), node.outputs[0].dtype or ir.DataType.FLOAT
    compared = insert(graph, node, op_type, [first, second], shape)
    compared.type = ir.TensorType(ir.DataType.BOOL)
    return insert(graph, node, "Cast", [compared], shape, to=kind.value)


@for_each("Round")
def spell_out_round(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace Round, whose ties go to the even neighbour, by Floor and what is added; runtimes round ties away from zero."""
    x = node.inputs[0]
    if x is None or x.dtype not in ROUNDED:
        return False
    shape, kind = g.static_shape(x), x.dtype

    def constant(name: str, number: float) -> ir.Value:
        return g.add_initializer(graph, f"{node.name}_{name}", np.array(number, kind.numpy()))

    def put(op_type: str, *inputs: ir.Value) -> ir.Value:
        return insert(graph, node, op_type, inputs, shape)

    def holds(op_type: str, first: ir.Value, second: ir.Value) -> ir.Value:
        return _holds(graph, node, op_type, first, second)

    half, two = constant("half", 0.5), constant("two", 2)
    floor = put("Floor", x)
    rest = put("Sub", x, floor)
    parity = put("Sub", floor, put("Mul", put("Floor", put("Mul", floor, half)), two))
    to_even = put("Mul", holds("Equal", rest, half), holds("Greater", parity, half))
    added = put("Add", holds("Greater", rest, half), to_even)
    replace([node], ir.node("Add", [floor, added]))
    return True
