"""Hyperbolic functions, and inverses of these and of trigonometric ones, by exponentials, logarithms and roots.

Absolute errors are some 1e-7, as those of a float32 of size one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, remove, replace
from converter_lite.passes.spelled_out.inserting import insert

HALVINGS = 3
"""An angle of up to a quarter of a turn is halved so often: its tangent is then below 0.2."""

TERMS = 5
"""Terms of the arctangent's series; the next one is below 2e-9 there."""

FARTHEST = 1e9
"""Numbers beyond it have the arctangent of this one."""


def spell_out_functions(model: ir.Model) -> int:
    """Replace Acos, Acosh, Asin, Asinh, Atan, Atanh, Cosh and Sinh. Refused: other types than float32."""
    return sum(_replace(model.graph, node) for node in list(model.graph) if is_op(node, *FUNCTIONS))


def spell_out_tan(model: ir.Model) -> int:
    """Replace ``Tan(x)`` by ``Sin(x) / Cos(x)``. Refused: other types than float32."""
    return sum(_replace(model.graph, node) for node in list(model.graph) if is_op(node, "Tan"))


def _replace(graph: ir.Graph, node: ir.Node) -> bool:
    x = node.inputs[0]
    if x is None or x.dtype is not ir.DataType.FLOAT:
        return False
    result = (_tan if node.op_type == "Tan" else FUNCTIONS[node.op_type])(_Steps(graph, node), x)
    last = result.producer()
    assert last is not None
    replace([node], ir.node(last.op_type, last.inputs))
    remove(last)
    return True


class _Steps:
    """Nodes in front of the one that is replaced."""

    def __init__(self, graph: ir.Graph, node: ir.Node) -> None:
        self._graph, self._node, self._shape = graph, node, g.static_shape(node.outputs[0])

    def __call__(self, op_type: str, *operands: ir.Value | float) -> ir.Value:
        values = [self._constant(each) if isinstance(each, float) else each for each in operands]
        return insert(self._graph, self._node, op_type, values, self._shape)

    def _constant(self, number: float) -> ir.Value:
        return g.add_initializer(self._graph, f"{self._node.name}_number", np.array(number, np.float32))


def _of_powers(op_type: str) -> Callable[[_Steps, ir.Value], ir.Value]:
    def function(do: _Steps, x: ir.Value) -> ir.Value:
        return do("Mul", do(op_type, do("Exp", x), do("Exp", do("Neg", x))), 0.5)

    return function


def _tan(do: _Steps, x: ir.Value) -> ir.Value:
    return do("Div", do("Sin", x), do("Cos", x))


def _asinh(do: _Steps, x: ir.Value) -> ir.Value:
    """Of the magnitude, since the sum below cancels for negative numbers, times the sign."""
    size = do("Abs", x)
    found = do("Log", do("Add", size, do("Sqrt", do("Add", do("Mul", x, x), 1.0))))
    return do("Mul", found, do("Sign", x))


def _acosh(do: _Steps, x: ir.Value) -> ir.Value:
    root = do("Sqrt", do("Mul", do("Sub", x, 1.0), do("Add", x, 1.0)))
    return do("Log", do("Add", x, root))


def _atanh(do: _Steps, x: ir.Value) -> ir.Value:
    return do("Mul", do("Log", do("Div", do("Add", x, 1.0), do("Sub", 1.0, x))), 0.5)


def _atan(do: _Steps, x: ir.Value) -> ir.Value:
    return _angle(do, do("Clip", x, -FARTHEST, FARTHEST), 0)


def _asin(do: _Steps, x: ir.Value) -> ir.Value:
    """From the tangent of half the angle."""
    cosine = do("Sqrt", do("Mul", do("Add", x, 1.0), do("Sub", 1.0, x)))
    return _angle(do, do("Div", x, do("Add", cosine, 1.0)), 1)


def _acos(do: _Steps, x: ir.Value) -> ir.Value:
    return do("Sub", math.pi / 2, _asin(do, x))


def _angle(do: _Steps, tangent: ir.Value, halved: int) -> ir.Value:
    """The angle, from the tangent of what is left of it after some halvings."""
    for _ in range(halved, HALVINGS):
        root = do("Sqrt", do("Add", do("Mul", tangent, tangent), 1.0))
        tangent = do("Div", tangent, do("Add", root, 1.0))
    square = do("Mul", tangent, tangent)
    factors = [2**HALVINGS * (-1) ** k / (2 * k + 1) for k in range(TERMS)]
    total = do("Add", do("Mul", square, factors[-1]), factors[-2])
    for factor in reversed(factors[:-2]):
        total = do("Add", do("Mul", total, square), factor)
    return do("Mul", total, tangent)


FUNCTIONS: Mapping[str, Callable[[_Steps, ir.Value], ir.Value]] = MappingProxyType(
    {
        "Acos": _acos,
        "Acosh": _acosh,
        "Asin": _asin,
        "Asinh": _asinh,
        "Atan": _atan,
        "Atanh": _atanh,
        "Cosh": _of_powers("Add"),
        "Sinh": _of_powers("Sub"),
    }
)
"""Operator -> what computes it."""
