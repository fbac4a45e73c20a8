"""Pooling: channels last in the file, channels first in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.averages import average
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.values import shape_of
from converter_lite.formats.tflite.importer.windows import numbers, padding


def _pool(ctx: Importer, op: Operator) -> None:
    """Averages do not count what is beyond the border."""
    if op.kind != "L2_POOL_2D":
        ctx.check_same_grid(op)
    value = ctx.picture(op.inputs[0])
    kernel, strides = numbers(op, "filter"), numbers(op, "stride")
    border = padding(op, shape_of(value)[2:], kernel, strides, [1, 1])
    made = _MAKERS[op.kind](ctx, op, value, kernel, kernel_shape=kernel, strides=strides, **border)
    ctx.bind_picture(op.outputs[0], activated(ctx, op, made))


def _largest(ctx: Importer, _: Operator, value: ir.Value, __: list[int], **window: Any) -> ir.Value:
    return ctx.add("MaxPool", [value], **window)


def _root(ctx: Importer, _: Operator, value: ir.Value, __: list[int], **window: Any) -> ir.Value:
    return ctx.add("Sqrt", [ctx.add("AveragePool", [ctx.add("Mul", [value, value])], **window)])


_MAKERS: dict[str, Callable[..., ir.Value]] = {
    "AVERAGE_POOL_2D": average,
    "MAX_POOL_2D": _largest,
    "L2_POOL_2D": _root,
}

HANDLERS: dict[str, Handler] = dict.fromkeys(_MAKERS, _pool)
