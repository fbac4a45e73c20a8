"""Pooling: channels last in the file, channels first in ONNX."""

from __future__ import annotations

from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.context import Handler, Importer, shape_of
from converter_lite.formats.tflite.importer.windows import numbers, padding


def _pool(ctx: Importer, op: Operator) -> None:
    """Averages do not count what is beyond the border."""
    if op.kind == "MAX_POOL_2D":
        ctx.check_same_grid(op)
    value = ctx.picture(op.inputs[0])
    kernel, strides = numbers(op, "filter"), numbers(op, "stride")
    border = padding(op, shape_of(value)[2:], kernel, strides, [1, 1])
    if op.kind == "L2_POOL_2D":
        value = ctx.add("Mul", [value, value])
    kind = "MaxPool" if op.kind == "MAX_POOL_2D" else "AveragePool"
    made = ctx.add(kind, [value], kernel_shape=kernel, strides=strides, **border)
    if op.kind == "L2_POOL_2D":
        made = ctx.add("Sqrt", [made])
    ctx.bind_picture(op.outputs[0], activated(ctx, op, made))


HANDLERS: dict[str, Handler] = {"AVERAGE_POOL_2D": _pool, "MAX_POOL_2D": _pool, "L2_POOL_2D": _pool}
