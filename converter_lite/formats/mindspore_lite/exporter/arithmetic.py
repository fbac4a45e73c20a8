"""Operators on single elements, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower, elementwise, pointwise, required
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.graph import int_attribute, is_constant, scalar


def _unary(op: str, **attributes: Any) -> Lower:
    """A float operator; integers go through float32, which is exact up to 2^24."""

    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        if ctx.dtype(x) is DataType.FLOAT32:
            elementwise(ctx, node, op, **attributes)
            return
        perm = ctx.best_perm([x], len(ctx.shape(x)))
        source = ctx.cast(ctx.use(x, perm), DataType.FLOAT32)
        index = ctx.emit(op, [source], ctx.ms.tensors[source].dims, **attributes)
        ctx.bind(out, ctx.cast(index, ctx.dtype(out)), perm)

    return lower


def _binary(op: str, *, result: DataType | None = None, activation: bool = False) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        if len(node.inputs) != 2:
            raise Unsupported(f"{len(node.inputs)} inputs")
        broadcast(ctx, node, op, result=result, activation=activation)

    return lower


def broadcast(
    ctx: Lowering, node: ir.Node, op: str, *, result: DataType | None = None, activation: bool = False
) -> None:
    """An operator with two inputs that broadcast as in NumPy; the AddFusion of whole numbers has no activation."""
    a, b, out = required(node, 0), required(node, 1), node.outputs[0]
    integer = _adds_integers(ctx, node, op)
    fuses = activation and ctx.dtype(out) is DataType.FLOAT32
    kind, out = ctx.fused_activation(out, integer=integer) if fuses else (0, out)
    shape = ctx.shape(out)
    perm = ctx.best_perm([a, b], len(shape))
    attributes: dict[str, Any] = {"activation_type": kind} if activation else {}
    dims = pm.permute(shape, perm)
    if integer:
        inputs = [ctx.use(v, perm, integer=True) for v in (a, b)]
        quant = ctx.activation_quant(out)
        index = ctx.emit(op, inputs, dims, quant=quant, quant_type=QuantType.ALL, **attributes)
    else:
        inputs = [ctx.operand(v, len(shape), perm) for v in (a, b)]
        index = ctx.emit(op, inputs, dims, dtype=result or ctx.dtype(out), **attributes)
    ctx.bind(out, index, perm, integer=integer)


def _adds_integers(ctx: Lowering, node: ir.Node, op: str) -> bool:
    """The integer Add is correct for two variables of one shape; other integer kernels are not used."""
    a, b, out = required(node, 0), required(node, 1), node.outputs[0]
    if op != "AddFusion" or is_constant(a) or is_constant(b) or ctx.shape(a) != ctx.shape(b):
        return False
    return ctx.computes_integers(node, [a, b], out)


def _variadic(op: str, *, mean: bool = False) -> Lower:
    """A chain of two-input operators."""

    def lower(ctx: Lowering, node: ir.Node) -> None:
        values = [required(node, i) for i in range(len(node.inputs))]
        out = node.outputs[0]
        shape = ctx.shape(out)
        perm = ctx.best_perm(values, len(shape))
        dims = pm.permute(shape, perm)
        if len(values) == 1:
            ctx.alias(out, values[0], pm.identity(len(shape)))
            return
        index = ctx.operand(values[0], len(shape), perm)
        for value in values[1:]:
            index = ctx.emit(op, [index, ctx.operand(value, len(shape), perm)], dims)
        if mean:
            index = ctx.emit("MulFusion", [index, ctx.float_constant(1.0 / len(values))], dims)
        ctx.bind(out, index, perm)

    return lower


def _pow(ctx: Lowering, node: ir.Node) -> None:
    """Small whole powers are exact products; the rest is PowFusion. An exponent may add axes, which no such product has."""
    x, exponent = required(node, 0), scalar(node.inputs[1])
    is_real = ctx.dtype(x) is DataType.FLOAT32
    if ctx.shape(node.outputs[0]) != ctx.shape(x):
        exponent = None
    if exponent == 2.0 and is_real:
        elementwise(ctx, node, "Square")
    elif exponent == 0.5 and is_real:
        elementwise(ctx, node, "Sqrt")
    elif exponent in (2.0, 3.0):
        perm = ctx.best_perm([x], len(ctx.shape(x)))
        source, dims = ctx.use(x, perm), pm.permute(ctx.shape(x), perm)
        index = ctx.emit("MulFusion", [source, source], dims)
        if exponent == 3.0:
            index = ctx.emit("MulFusion", [index, source], dims)
        ctx.bind(node.outputs[0], index, perm)
    else:
        _power(ctx, node)


def _power(ctx: Lowering, node: ir.Node) -> None:
    """The kernel computes with float32 of equal shapes, or with one exponent."""
    x, exponent, out = required(node, 0), required(node, 1), node.outputs[0]
    if ctx.dtype(x) is not DataType.FLOAT32:
        raise Unsupported("powers of integers")
    shape = ctx.shape(out)
    perm = ctx.best_perm([x, exponent], len(shape))
    inputs = [ctx.cast(ctx.operand(value, len(shape), perm), DataType.FLOAT32) for value in (x, exponent)]
    dims = pm.permute(shape, perm)
    inputs[0] = expanded(ctx, inputs[0], dims)
    if ctx.shape(exponent) not in ((), (1,)):
        inputs[1] = expanded(ctx, inputs[1], dims)
    ctx.bind(out, ctx.emit("PowFusion", inputs, dims), perm)


def _compare(op: str) -> Lower:
    """A comparison; booleans are compared as integers."""

    def lower(ctx: Lowering, node: ir.Node) -> None:
        a, b, out = required(node, 0), required(node, 1), node.outputs[0]
        if ctx.dtype(a) is not DataType.BOOL:
            broadcast(ctx, node, op, result=DataType.BOOL)
            return
        shape = ctx.shape(out)
        perm = ctx.best_perm([a, b], len(shape))
        inputs = [ctx.cast(ctx.operand(v, len(shape), perm), DataType.INT32) for v in (a, b)]
        ctx.bind(out, ctx.emit(op, inputs, pm.permute(shape, perm), dtype=DataType.BOOL), perm)

    return lower


def _where(ctx: Lowering, node: ir.Node) -> None:
    """The runtime's Where requires three inputs of one shape: smaller ones are broadcast first."""
    values = [required(node, i) for i in range(3)]
    out = node.outputs[0]
    shape = ctx.shape(out)
    perm = ctx.best_perm(values, len(shape))
    dims = pm.permute(shape, perm)
    inputs = [expanded(ctx, ctx.operand(v, len(shape), perm), dims) for v in values]
    ctx.bind(out, ctx.emit("Where", inputs, dims, dtype=ctx.dtype(out)), perm)


STORED_GROWTH = 256
"""Elements that a constant may grow by where it is stored broadcast; more take more space than the operator that does it."""


def expanded(ctx: Lowering, index: int, dims: Sequence[int]) -> int:
    """A tensor broadcast to ``dims``; constants are broadcast here, if they are small or whole numbers."""
    tensor = ctx.ms.tensors[index]
    if tuple(tensor.dims) == tuple(dims):
        return index
    can_expand = tensor.dtype in (DataType.FLOAT32, DataType.BOOL)
    stays = can_expand and math.prod(dims) - math.prod(tensor.dims) > STORED_GROWTH
    if isinstance(tensor.data, np.ndarray) and not stays:
        array = tensor.data
        lifted = array.reshape((1,) * (len(dims) - array.ndim) + array.shape)
        return ctx.add_constant(np.broadcast_to(lifted, tuple(dims)), tensor.name)
    kind = tensor.dtype
    target = ctx.int_constant(list(dims), "shape")
    if kind is not DataType.BOOL:
        return ctx.emit("BroadcastTo", [index, target], dims, shape=list(dims))
    number = ctx.emit("BroadcastTo", [ctx.cast(index, DataType.FLOAT32), target], dims, shape=list(dims))
    return ctx.emit("NotEqual", [number, ctx.float_constant(0.0)], dims, dtype=DataType.BOOL)


def _div(ctx: Lowering, node: ir.Node) -> None:
    """The runtime does not divide integers: the truncated quotient of the floats is the same below 2^23.

    Neither DivFusion nor SubFusion applies the activation that the format gives them; AddFusion and MulFusion do.
    """
    out = node.outputs[0]
    if ctx.dtype(out) is DataType.FLOAT32:
        broadcast(ctx, node, "DivFusion")
        return
    values, shape = [required(node, 0), required(node, 1)], ctx.shape(out)
    perm = ctx.best_perm(values, len(shape))
    inputs = [ctx.cast(ctx.operand(v, len(shape), perm), DataType.FLOAT32) for v in values]
    quotient = ctx.emit("DivFusion", inputs, pm.permute(shape, perm))
    ctx.bind(out, ctx.cast(quotient, ctx.dtype(out)), perm)


@pointwise
def _sign(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    """Difference of two comparisons."""
    source, zero = ctx.cast(x, DataType.FLOAT32), ctx.float_constant(0.0)
    parts = [
        ctx.cast(ctx.emit(op, [source, zero], dims, dtype=DataType.BOOL), DataType.FLOAT32)
        for op in ("Greater", "Less")
    ]
    return ctx.cast(ctx.emit("SubFusion", parts, dims), ctx.dtype(node.outputs[0]))


def _mod(ctx: Lowering, node: ir.Node) -> None:
    op = "Mod" if int_attribute(node, "fmod", 0) else "FloorMod"
    broadcast(ctx, node, op)


@pointwise
def _tan(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    return ctx.emit("DivFusion", [ctx.emit("Sin", [x], dims), ctx.emit("Cos", [x], dims)], dims)


def _not(ctx: Lowering, node: ir.Node) -> None:
    elementwise(ctx, node, "LogicalNot")


@pointwise
def _is_nan(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    return ctx.emit("NotEqual", [x, x], dims, dtype=DataType.BOOL)


TABLE: dict[str, Lower] = {
    "Abs": _unary("Abs"),
    "Neg": _unary("Neg"),
    "Exp": _unary("ExpFusion", base=-1.0, scale=1.0, shift=0.0),
    "Log": _unary("Log"),
    "Sqrt": _unary("Sqrt"),
    "Floor": _unary("Floor"),
    "Ceil": _unary("Ceil"),
    "Round": _unary("Round"),
    "Sin": _unary("Sin"),
    "Cos": _unary("Cos"),
    "Tan": _tan,
    "Erf": _unary("Erf"),
    "Reciprocal": _unary("Reciprocal"),
    "Sign": _sign,
    "Not": _not,
    "Add": _binary("AddFusion", activation=True),
    "Sub": _binary("SubFusion"),
    "Mul": _binary("MulFusion", activation=True),
    "Div": _div,
    "Pow": _pow,
    "Mod": _mod,
    "Max": _variadic("Maximum"),
    "Min": _variadic("Minimum"),
    "Sum": _variadic("AddFusion"),
    "Mean": _variadic("AddFusion", mean=True),
    "Less": _compare("Less"),
    "LessOrEqual": _compare("LessEqual"),
    "Greater": _compare("Greater"),
    "GreaterOrEqual": _compare("GreaterEqual"),
    "Equal": _compare("Equal"),
    "And": _binary("LogicalAnd", result=DataType.BOOL),
    "Or": _binary("LogicalOr", result=DataType.BOOL),
    "Xor": _compare("NotEqual"),
    "Where": _where,
    "IsNaN": _is_nan,
}
