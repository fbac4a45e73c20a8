"""Activation functions, alone and fused into other operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import Activation
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.elementwise import aligned
from converter_lite.formats.tflite.importer.halves import DOWN, UP, coarse, moved, ratio


def activated(ctx: Importer, op: Operator, value: ir.Value) -> ir.Value:
    """The activation that an operator computes on its own result: a bound, since the runtime leaves others out.

    Raises:
        ModelError: It is none.
    """
    kind = int(op.get("activation"))
    if kind == Activation.NONE:
        return value
    if kind == Activation.RELU:
        return ctx.add("Relu", [value])
    if kind in _BOUNDS:
        return clipped(ctx, value, *_BOUNDS[kind])
    name = Activation(kind).name if kind in list(Activation) else f"number {kind}"
    raise ModelError(f"the fused activation {name}, which the runtime does not compute")


_BOUNDS = {int(Activation.RELU6): (0.0, 6.0), int(Activation.RELU_N1_TO_1): (-1.0, 1.0)}


def clipped(ctx: Importer, value: ir.Value, low: float, high: float) -> ir.Value:
    """A Clip with constant bounds."""
    return ctx.add("Clip", [value, ctx.number(low, "low"), ctx.number(high, "high")])


def unary(op_type: str, **attributes: Any) -> Handler:
    """A function of one tensor, element by element."""

    def handler(ctx: Importer, op: Operator) -> None:
        source = op.inputs[0]
        order = ctx.order(source)
        ctx.bind(op.outputs[0], ctx.add(op_type, [ctx.any_value(source)], **attributes), order or None)

    return handler


def _bounded(low: float, high: float) -> Handler:
    def handler(ctx: Importer, op: Operator) -> None:
        source = op.inputs[0]
        ctx.bind(op.outputs[0], clipped(ctx, ctx.any_value(source), low, high), ctx.order(source) or None)

    return handler


def _leaky_relu(ctx: Importer, op: Operator) -> None:
    """Integers are multiplied with one of two factors, in steps of 1/256."""
    source, alpha, steps = op.inputs[0], float(op.get("alpha")), ratio(ctx, op)
    above = 0.0 if steps is None else coarse(steps)
    if not steps or not above:
        unary("LeakyRelu", alpha=alpha)(ctx, op)
        return
    value = ctx.add("LeakyRelu", [ctx.any_value(source)], alpha=coarse(steps * alpha) / above)
    ctx.bind(op.outputs[0], moved(ctx, op, value, UP, factor=above / steps), ctx.order(source) or None)


def _square_root(ctx: Importer, op: Operator) -> None:
    """Of integers, cut off."""
    source = op.inputs[0]
    value = ctx.add("Sqrt", [ctx.any_value(source)])
    ctx.bind(op.outputs[0], moved(ctx, op, value, DOWN), ctx.order(source) or None)


def _gelu(ctx: Importer, op: Operator) -> None:
    unary("Gelu", approximate="tanh" if op.get("approximate") else "none")(ctx, op)


def _prelu(ctx: Importer, op: Operator) -> None:
    """Slopes have a shape that broadcasts to that of the input; ONNX and the runtimes know them without leading ones."""
    (value, slope), order = aligned(ctx, op.inputs[:2])
    array = g.constant(slope)
    if array is not None and array.ndim and array.shape[0] == 1 and not ctx.is_planned(slope):
        shape = np.trim_zeros(np.array(array.shape) - 1, "f") + 1
        slope = ctx.builder.constant(array.reshape(shape if shape.size else (1,)), np.float32, str(slope.name))
    ctx.bind(op.outputs[0], ctx.add("PRelu", [value, slope]), order)


def _softmax(ctx: Importer, op: Operator) -> None:
    """Along the last axis, of numbers that are multiplied with ``beta``."""
    source = op.inputs[0]
    order, value, beta = ctx.order(source), ctx.any_value(source), float(op.get("beta", 1.0))
    if op.kind == "SOFTMAX" and beta != 1.0:
        value = ctx.add("Mul", [value, ctx.number(beta, "beta")])
    axis = order.index(len(order) - 1) if order else -1
    kind = "Softmax" if op.kind == "SOFTMAX" else "LogSoftmax"
    ctx.bind(op.outputs[0], ctx.add(kind, [value], axis=axis), order or None)


def _fake_quant(ctx: Importer, op: Operator) -> None:
    """Rounding to a grid that is moved so that zero is on it, as in training.

    Source: TensorFlow's ``FakeQuantWithMinMaxArgs``: bounds in float32, halves are rounded up.
    """
    bits, narrow = int(op.get("num_bits")), bool(op.get("narrow_range"))
    low, high = np.float32(op.get("min")), np.float32(op.get("max"))
    if not 2 <= bits <= 16 or not low < high:
        raise ModelError(f"{bits} bits from {low} to {high} are no grid")
    first, last = np.float32(1 if narrow else 0), np.float32(2**bits - 1)
    scale = np.float32((high - low) / (last - first))
    zero = np.clip(np.floor(first - low / scale + np.float32(0.5)), first, last)
    bounds = float((first - zero) * scale), float((last - zero) * scale)
    order = ctx.order(op.inputs[0])
    value = clipped(ctx, ctx.any_value(op.inputs[0]), *bounds)
    value = ctx.add("Sub", [value, ctx.number(bounds[0])])
    value = ctx.add("Mul", [value, ctx.number(float(np.float32(1) / scale))])
    value = ctx.add("Floor", [ctx.add("Add", [value, ctx.number(0.5)])])
    value = ctx.add("Mul", [value, ctx.number(float(scale))])
    ctx.bind(op.outputs[0], ctx.add("Add", [value, ctx.number(bounds[0])]), order or None)


HANDLERS: dict[str, Handler] = {
    "RELU": unary("Relu"),
    "RELU6": _bounded(0.0, 6.0),
    "RELU_N1_TO_1": _bounded(-1.0, 1.0),
    "RELU_0_TO_1": _bounded(0.0, 1.0),
    "LOGISTIC": unary("Sigmoid"),
    "TANH": unary("Tanh"),
    "ELU": unary("Elu", alpha=1.0),
    "HARD_SWISH": unary("HardSwish"),
    "LEAKY_RELU": _leaky_relu,
    "SQRT": _square_root,
    "GELU": _gelu,
    "PRELU": _prelu,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": _softmax,
    "FAKE_QUANT": _fake_quant,
}
