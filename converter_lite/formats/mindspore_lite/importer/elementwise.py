"""Operators on single elements."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import MsNode
from converter_lite.formats.mindspore_lite.enums import DataType
from converter_lite.formats.mindspore_lite.importer.activation import activated, apply, clipped
from converter_lite.formats.mindspore_lite.importer.context import ONNX_TYPES, Importer
from converter_lite.formats.permutation import Perm

ImportNode = Callable[[Importer, MsNode], None]


def _order(ctx: Importer, index: int) -> Perm | None:
    """The order in which a tensor exists already."""
    orders = ctx.orders(index)
    return orders[0] if orders else None


def _pointwise(formula: Callable[[Importer, MsNode, ir.Value], ir.Value]) -> ImportNode:
    """An operator whose result has an element for each of its first input, in whatever order of axes that exists."""

    def import_node(ctx: Importer, node: MsNode) -> None:
        order = _order(ctx, node.inputs[0])
        ctx.bind(node.outputs[0], formula(ctx, node, ctx.value(node.inputs[0], order)), order)

    return import_node


def _broadcasting(formula: Callable[[Importer, MsNode, list[ir.Value]], ir.Value]) -> ImportNode:
    """An operator on two inputs, which broadcast, in an order of axes that they have in common."""

    def import_node(ctx: Importer, node: MsNode) -> None:
        values, order = operands(ctx, node.inputs[:2])
        ctx.bind(node.outputs[0], formula(ctx, node, values), order)

    return import_node


def _unary(op: str) -> ImportNode:
    return _pointwise(lambda ctx, node, x: ctx.add(op, [x]))


@_pointwise
def _activation(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return apply(ctx, node, node.attributes["activation_type"], x)


def operands(ctx: Importer, indices: list[int]) -> tuple[list[ir.Value], Perm | None]:
    """Operands of a broadcasting operator in a common order; constants are moved to it."""
    variables = [i for i in indices if not ctx.is_constant(i)]
    ranks = {ctx.rank(i) for i in variables}
    order = _order(ctx, variables[0]) if variables else None
    if not order or len(ranks) != 1:
        return [ctx.value(i) for i in indices], None
    values = []
    for index in indices:
        if not ctx.is_constant(index):
            values.append(ctx.value(index, order))
            continue
        if len(ctx.ms.tensors[index].dims) > len(order):
            return [ctx.value(i) for i in indices], None
        values.append(ctx.constant(index, order, use="lifted"))
    return values, order


def _binary(op: str) -> ImportNode:
    return _broadcasting(lambda ctx, node, values: activated(ctx, node, ctx.add(op, values)))


def _eltwise(ctx: Importer, node: MsNode) -> None:
    op = {0: "Mul", 1: "Add", 2: "Max"}.get(node.attributes["mode"])
    if op is None:
        raise FormatError(f"eltwise mode {node.attributes['mode']} is unknown", where=ctx.where)
    _binary(op)(ctx, node)


@_broadcasting
def _not_equal(ctx: Importer, node: MsNode, values: list[ir.Value]) -> ir.Value:
    return ctx.add("Not", [ctx.add("Equal", values)])


@_broadcasting
def _mod(ctx: Importer, node: MsNode, values: list[ir.Value]) -> ir.Value:
    fmod = int(node.op == "Mod")
    if not fmod and values[0].dtype == ir.DataType.FLOAT:  # ONNX has this for whole numbers only
        whole = ctx.add("Floor", [ctx.add("Div", values)])
        return ctx.add("Sub", [values[0], ctx.add("Mul", [whole, values[1]])])
    return ctx.add("Mod", values, fmod=fmod)


def _bias_add(ctx: Importer, node: MsNode) -> None:
    x, bias = node.inputs[:2]
    ctx.bind(node.outputs[0], ctx.add("Add", [ctx.value(x), ctx.value(bias)]))


@_pointwise
def _squared(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return ctx.add("Mul", [x, x])


@_broadcasting
def _squared_difference(ctx: Importer, node: MsNode, values: list[ir.Value]) -> ir.Value:
    difference = ctx.add("Sub", values)
    return ctx.add("Mul", [difference, difference])


@_pointwise
def _rsqrt(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return ctx.add("Reciprocal", [ctx.add("Sqrt", [x])])


@_pointwise
def _exp(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    """Base ** (scale * x + shift); base -1 stands for e."""
    value, base = _affine(ctx, node, x), float(node.attributes["base"])
    if base > 0:
        value = ctx.add("Mul", [value, _number(ctx, float(np.log(base)))])
    return ctx.add("Exp", [value])


@_broadcasting
def _pow(ctx: Importer, node: MsNode, values: list[ir.Value]) -> ir.Value:
    return ctx.add("Pow", [_affine(ctx, node, values[0]), values[1]])


def _affine(ctx: Importer, node: MsNode, value: ir.Value) -> ir.Value:
    scale, shift = float(node.attributes["scale"]), float(node.attributes["shift"])
    if scale != 1.0:
        value = ctx.add("Mul", [value, _number(ctx, scale)])
    return value if shift == 0.0 else ctx.add("Add", [value, _number(ctx, shift)])


def _number(ctx: Importer, number: float) -> ir.Value:
    return ctx.initializer(np.array(number, np.float32), "number", key=("number", number))


@_pointwise
def _leaky_relu(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return ctx.add("LeakyRelu", [x], alpha=float(node.attributes["negative_slope"]))


@_pointwise
def _elu(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return ctx.add("Elu", [x], alpha=float(node.attributes["alpha"]))


@_pointwise
def _clip(ctx: Importer, node: MsNode, x: ir.Value) -> ir.Value:
    return clipped(ctx, x, float(node.attributes["min"]), float(node.attributes["max"]))


def _where(ctx: Importer, node: MsNode) -> None:
    if len(node.inputs) != 3:
        raise FormatError("a Where with one input is not supported", where=ctx.where)
    values, order = operands(ctx, node.inputs)
    ctx.bind(node.outputs[0], ctx.add("Where", values), order)


def _cast(ctx: Importer, node: MsNode) -> None:
    kind = ctx.ints(node.inputs[1])[0] if len(node.inputs) > 1 else int(ctx.ms.tensors[node.outputs[0]].dtype)
    try:
        target = ONNX_TYPES[DataType(kind)]
    except (ValueError, KeyError) as error:
        raise FormatError(f"a cast to the type {kind} is not supported", where=ctx.where) from error
    order = _order(ctx, node.inputs[0])
    ctx.bind(node.outputs[0], ctx.add("Cast", [ctx.value(node.inputs[0], order)], to=target.value), order)


def _quant_cast(ctx: Importer, node: MsNode) -> None:
    """Between int8 and float the value stays the same; two different parameters on one value need two values."""
    source, target = node.inputs[0], node.outputs[0]
    if ctx.is_constant(source):
        ctx.bind(target, ctx.value(source))
        return
    before, after = ctx.quant(source), ctx.quant(target)
    if before is not None and after is not None and before != after:
        order = _order(ctx, source)
        ctx.bind(target, ctx.add("Identity", [ctx.value(source, order)]), order)
        return
    ctx.same(target, source)


def _dynamic_quant(ctx: Importer, node: MsNode) -> None:
    ctx.same(node.outputs[0], node.inputs[0])


_UNARY = {
    name: name for name in ["Abs", "Neg", "Floor", "Ceil", "Round", "Log", "Sqrt", "Sin", "Cos", "Erf", "Reciprocal"]
}
_BINARY = {
    "AddFusion": "Add",
    "SubFusion": "Sub",
    "MulFusion": "Mul",
    "DivFusion": "Div",
    "RealDiv": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Equal": "Equal",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
}

TABLE: dict[str, ImportNode] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _binary(op) for name, op in _BINARY.items()},
    "LogicalNot": _unary("Not"),
    "NotEqual": _not_equal,
    "Activation": _activation,
    "Eltwise": _eltwise,
    "Mod": _mod,
    "FloorMod": _mod,
    "BiasAdd": _bias_add,
    "Square": _squared,
    "SquaredDifference": _squared_difference,
    "Rsqrt": _rsqrt,
    "ExpFusion": _exp,
    "PowFusion": _pow,
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "Clip": _clip,
    "Where": _where,
    "Select": _where,
    "Cast": _cast,
    "QuantDTypeCast": _quant_cast,
    "DynamicQuant": _dynamic_quant,
}
