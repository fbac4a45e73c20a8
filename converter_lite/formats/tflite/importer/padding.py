"""Borders around a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import MirrorMode
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.values import check_count


def _pad(ctx: Importer, op: Operator) -> None:
    """Around every axis so many elements before and behind, of a number that may be given."""
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    value = ctx.any_value(source)
    fill = ctx.value(op.inputs[2]) if op.has(2) else None
    if fill is None and value.dtype not in (ir.DataType.FLOAT, None):
        fill = ctx.builder.constant(0, value.dtype.numpy(), "fill")
    if fill is not None and fill.shape is not None and len(fill.shape):
        fill = ctx.add("Squeeze", [fill]) if fill.const_value is None else _scalar(ctx, fill)
    fill = fill or ctx.number(0.0, "fill")
    if not ctx.is_constant(op.inputs[1]):
        pads = ctx.add("Transpose", [ctx.as_int64(op.inputs[1])], perm=[1, 0])
        pads = ctx.add("Reshape", [pads, ctx.int64([-1])])
        ctx.bind(op.outputs[0], ctx.add("Pad", [ctx.value(source), pads, fill], mode="constant"))
        return
    _padded(ctx, op, fill, "constant")


def _scalar(ctx: Importer, value: ir.Value) -> ir.Value:
    assert value.const_value is not None
    array = value.const_value.numpy()
    return ctx.builder.constant(array.reshape(()), array.dtype, str(value.name))


def _padded(ctx: Importer, op: Operator, fill: ir.Value | None, mode: str) -> None:
    source = op.inputs[0]
    order, pairs = ctx.order(source), _pairs(ctx, op)
    turned = [pairs[axis] for axis in order] if order else pairs
    pads = ctx.int64([before for before, _ in turned] + [behind for _, behind in turned], "pads")
    inputs = [ctx.any_value(source), pads] + ([fill] if fill is not None else [])
    ctx.bind(op.outputs[0], ctx.add("Pad", inputs, mode=mode), order or None)


def _pairs(ctx: Importer, op: Operator) -> list[tuple[int, int]]:
    """Elements before and behind each axis.

    Raises:
        ModelError: There are not as many as axes.
    """
    numbers = ctx.ints(op.inputs[1])
    if len(numbers) != 2 * ctx.rank(op.inputs[0]) or min(numbers, default=0) < 0:
        raise ModelError(f"its paddings are {numbers}")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def _mirror_pad(ctx: Importer, op: Operator) -> None:
    """ONNX has no mirror that repeats the border; one element of it is the border itself, more are gathered."""
    ctx.check_same_grid(op, 0)
    pairs = _pairs(ctx, op)
    if op.get("mode") == MirrorMode.REFLECT:
        _padded(ctx, op, None, "reflect")
    elif max(map(max, pairs)) <= 1:
        _padded(ctx, op, None, "edge")
    else:
        value, shape = ctx.value(op.inputs[0]), ctx.shape(op.inputs[0])
        for axis, (before, behind) in enumerate(pairs):
            if before or behind:
                places = ctx.int64(_mirrored(shape[axis], before, behind), "places")
                value = ctx.add("Gather", [value, places], axis=axis)
        ctx.bind(op.outputs[0], value)


def _mirrored(size: int, before: int, behind: int) -> Sequence[int]:
    if size < max(before, behind):
        raise ModelError(f"a border of {max(before, behind)} around {'an open size' if size < 0 else size}")
    check_count(size + before + behind)
    places = np.arange(size)
    return np.concatenate([places[:before][::-1], places, places[size - behind :][::-1]]).tolist()


HANDLERS: dict[str, Handler] = {"PAD": _pad, "PADV2": _pad, "MIRROR_PAD": _mirror_pad}
