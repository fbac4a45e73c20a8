"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.activation import activated, unary
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.elementwise import aligned
from converter_lite.formats.tflite.importer.halves import UP, UP_A_LITTLE, moved, narrow_params, ratio

_INTEGERS = (ir.DataType.INT32, ir.DataType.INT64, ir.DataType.INT16, ir.DataType.INT8, ir.DataType.UINT8)

PARTS = 64
"""Parts of a step in which kernels subtract integers that they square."""

FITTING = 16
"""Part of a step up to which halves of sums are looked for."""


def _binary(op_type: str) -> Handler:
    def handler(ctx: Importer, op: Operator) -> None:
        values, order = aligned(ctx, op.inputs[:2])
        ctx.bind(op.outputs[0], activated(ctx, op, ctx.add(op_type, values)), order)

    return handler


def _sum(op_type: str) -> Handler:
    """A sum or difference: of integers, halves are rounded up, which there are where the steps fit into one another."""

    def handler(ctx: Importer, op: Operator) -> None:
        values, order = aligned(ctx, op.inputs[:2])
        made = ctx.add(op_type, values)
        steps = [ratio(ctx, op, position) for position in range(2)]
        if all(each is not None and float(each * FITTING).is_integer() for each in steps):
            made = moved(ctx, op, made, UP)
        ctx.bind(op.outputs[0], activated(ctx, op, made), order)

    return handler


def _add_n(ctx: Importer, op: Operator) -> None:
    if len(op.inputs) == 1:
        ctx.same(op.outputs[0], op.inputs[0])
        return
    values, order = aligned(ctx, op.inputs)
    ctx.bind(op.outputs[0], reduce(lambda one, other: ctx.add("Add", [one, other]), values), order)


def _not_equal(ctx: Importer, op: Operator) -> None:
    values, order = aligned(ctx, op.inputs[:2])
    ctx.bind(op.outputs[0], ctx.add("Not", [ctx.add("Equal", values)]), order)


def _squared_difference(ctx: Importer, op: Operator) -> None:
    """Of integers, the operand with the finer steps is first rounded to a part of the other's step, as kernels do."""
    values, order = aligned(ctx, op.inputs[:2])
    params = [narrow_params(ctx, index) for index in (*op.inputs[:2], op.outputs[0])]
    if all(each is not None for each in params):
        steps = [np.float32(each.scale) for each in params if each is not None][:2]
        finer = int(steps[1] < steps[0])
        if steps[0] != steps[1]:
            values[finer] = _on_coarser_steps(ctx, values[finer], float(steps[finer]), float(steps[1 - finer]))
    difference = ctx.add("Sub", values)
    ctx.bind(op.outputs[0], ctx.add("Mul", [difference, difference]), order)


def _on_coarser_steps(ctx: Importer, value: ir.Value, step: float, coarser: float) -> ir.Value:
    """Whole numbers of ``coarser / PARTS``, rounded twice: multiplied by a number of at least 1/2, then halved some times.

    Source: the kernel of the runtime, which multiplies integers by a fixed-point number and shifts; halves away from zero.
    """
    factor = step / (2 * coarser)
    mantissa, exponent = np.frexp(factor)
    found = _nearest(ctx, value, 2 * PARTS * float(mantissa) / step)
    if exponent < 0:
        found = _nearest(ctx, found, 2.0 ** int(exponent) * (1 + UP_A_LITTLE / PARTS))
    return ctx.add("Mul", [found, ctx.number(coarser / PARTS, "part_of_a_step")])


def _nearest(ctx: Importer, value: ir.Value, factor: float) -> ir.Value:
    """The whole number that is nearest to a product."""
    product = ctx.add("Mul", [value, ctx.number(factor, "factor")])
    return ctx.add("Floor", [ctx.add("Add", [product, ctx.number(0.5, "half")])])


def _square(ctx: Importer, op: Operator) -> None:
    value = ctx.any_value(op.inputs[0])
    ctx.bind(op.outputs[0], ctx.add("Mul", [value, value]), ctx.order(op.inputs[0]) or None)


def _rsqrt(ctx: Importer, op: Operator) -> None:
    root = ctx.add("Sqrt", [ctx.any_value(op.inputs[0])])
    ctx.bind(op.outputs[0], ctx.add("Reciprocal", [root]), ctx.order(op.inputs[0]) or None)


def is_whole(value: ir.Value) -> bool:
    """Whether a value holds whole numbers."""
    return value.dtype in _INTEGERS


def _floor_div(ctx: Importer, op: Operator) -> None:
    """ONNX divides whole numbers towards zero."""
    (a, b), order = aligned(ctx, op.inputs[:2])
    quotient = ctx.add("Div", [a, b])
    if is_whole(a):
        one = _filled(ctx, 1, a)
        quotient = ctx.add("Where", [_opposite_remainder(ctx, a, b), ctx.add("Sub", [quotient, one]), quotient])
    else:
        quotient = ctx.add("Floor", [quotient])
    ctx.bind(op.outputs[0], quotient, order)


def _opposite_remainder(ctx: Importer, a: ir.Value, b: ir.Value) -> ir.Value:
    """Where a division has a remainder, and the signs of its operands differ."""
    zero = _filled(ctx, 0, a)
    remainder = ctx.add("Mod", [a, b], fmod=1)
    differs = ctx.add("Xor", [ctx.add("Less", [remainder, zero]), ctx.add("Less", [b, zero])])
    return ctx.add("And", [ctx.add("Not", [ctx.add("Equal", [remainder, zero])]), differs])


def _floor_mod(ctx: Importer, op: Operator) -> None:
    """The remainder has the sign of the divisor; ONNX has that for whole numbers only."""
    (a, b), order = aligned(ctx, op.inputs[:2])
    if is_whole(a):
        ctx.bind(op.outputs[0], ctx.add("Mod", [a, b]), order)
        return
    remainder = ctx.add("Mod", [a, b], fmod=1)
    shifted = ctx.add("Add", [remainder, b])
    ctx.bind(op.outputs[0], ctx.add("Where", [_opposite_remainder(ctx, a, b), shifted, remainder]), order)


def _filled(ctx: Importer, number: int, like: ir.Value) -> ir.Value:
    dtype = like.dtype.numpy() if like.dtype is not None else np.float32
    return ctx.builder.constant(number, dtype)


def _select(ctx: Importer, op: Operator) -> None:
    """A condition of one axis chooses whole rows in the older operator; in the newer one everything is broadcast."""
    ranks = [ctx.rank(index) for index in op.inputs[:3]]
    if op.kind == "SELECT" and ranks[0] == 1 and max(ranks) > 1:
        rows = ctx.int64(range(1, ranks[1]), "axes")
        condition = ctx.add("Unsqueeze", [ctx.value(op.inputs[0]), rows])
        ctx.bind(op.outputs[0], ctx.add("Where", [condition, *map(ctx.value, op.inputs[1:3])]))
        return
    values, order = aligned(ctx, op.inputs[:3])
    ctx.bind(op.outputs[0], ctx.add("Where", values), order)


def _zeros_like(ctx: Importer, op: Operator) -> None:
    value = ctx.any_value(op.inputs[0])
    kind = value.dtype.numpy() if value.dtype is not None else np.float32
    shape = ctx.add("Shape", [value])
    zeros = ctx.add("ConstantOfShape", [shape], value=ir.Tensor(np.zeros(1, kind), name="zero"))
    ctx.bind(op.outputs[0], zeros, ctx.order(op.inputs[0]) or None)


def _cast(ctx: Importer, op: Operator) -> None:
    if ctx.params(op.inputs[0]) is not None or ctx.params(op.outputs[0]) is not None:
        raise ModelError("it takes integers for what they are, which stand for real numbers elsewhere")
    kind = ctx.element_type(op.outputs[0])
    value = ctx.add("Cast", [ctx.any_value(op.inputs[0])], to=kind.value)
    ctx.bind(op.outputs[0], value, ctx.order(op.inputs[0]) or None)


def _atan2(ctx: Importer, op: Operator) -> None:
    """The angle of a point: from the quotient, moved by a half turn where the second coordinate is negative."""
    (y, x), order = aligned(ctx, op.inputs[:2])
    zero, half, quarter = ctx.number(0.0), ctx.number(np.pi), ctx.number(np.pi / 2)
    is_zero = ctx.add("Equal", [x, zero])
    angle = ctx.add("Atan", [ctx.add("Div", [y, ctx.add("Where", [is_zero, ctx.number(1.0), x])])])
    below = ctx.add("Less", [y, zero])
    turn = ctx.add("Where", [below, ctx.add("Sub", [angle, half]), ctx.add("Add", [angle, half])])
    angle = ctx.add("Where", [ctx.add("Less", [x, zero]), turn, angle])
    upright = ctx.add("Mul", [ctx.add("Sign", [y]), quarter])
    ctx.bind(op.outputs[0], ctx.add("Where", [is_zero, upright, angle]), order)


def _each(op_types: Sequence[str]) -> dict[str, Handler]:
    """Operators whose names differ from those of ONNX in capitals only."""
    return {name.upper(): unary(name) for name in op_types}


HANDLERS: dict[str, Handler] = {
    **_each(("Abs", "Ceil", "Cos", "Exp", "Floor", "Log", "Neg", "Round", "Sign", "Sin")),
    "ADD": _sum("Add"),
    "SUB": _sum("Sub"),
    "MUL": _binary("Mul"),
    "DIV": _binary("Div"),
    "POW": _binary("Pow"),
    "MAXIMUM": _binary("Max"),
    "MINIMUM": _binary("Min"),
    "EQUAL": _binary("Equal"),
    "GREATER": _binary("Greater"),
    "GREATER_EQUAL": _binary("GreaterOrEqual"),
    "LESS": _binary("Less"),
    "LESS_EQUAL": _binary("LessOrEqual"),
    "LOGICAL_AND": _binary("And"),
    "LOGICAL_OR": _binary("Or"),
    "BITWISE_XOR": _binary("BitwiseXor"),
    "LOGICAL_NOT": unary("Not"),
    "NOT_EQUAL": _not_equal,
    "SQUARED_DIFFERENCE": _squared_difference,
    "ADD_N": _add_n,
    "SQUARE": _square,
    "RSQRT": _rsqrt,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "ATAN2": _atan2,
    "SELECT": _select,
    "SELECT_V2": _select,
    "ZEROS_LIKE": _zeros_like,
    "CAST": _cast,
}
