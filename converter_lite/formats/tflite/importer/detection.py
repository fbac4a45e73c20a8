"""Boxes of detectors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer


def _suppression(ctx: Importer, op: Operator) -> None:
    """Numbers of the boxes that are kept, with zeros up to the wanted count, and how many they are.

    The newer operator also gives their scores, and may lower scores instead of leaving boxes out, which ONNX cannot.
    """
    soft = op.kind == "NON_MAX_SUPPRESSION_V5"
    if soft and op.has(5) and float(ctx.array(op.inputs[5]).reshape(-1)[0]) != 0.0:
        raise ModelError("it lowers the scores of boxes that overlap (soft_nms_sigma), which ONNX cannot")
    boxes, scores = ctx.value(op.inputs[0]), ctx.value(op.inputs[1])
    count = ctx.add("Reshape", [ctx.as_int64(op.inputs[2]), ctx.int64([1])])
    bounds = [ctx.add("Reshape", [ctx.value(index), ctx.int64([1])]) for index in op.inputs[3:5]]
    wide = ctx.add("Unsqueeze", [boxes, ctx.int64([0])])
    tall = ctx.add("Unsqueeze", [scores, ctx.int64([0, 1])])
    kept = ctx.add("NonMaxSuppression", [wide, tall, count, *bounds])
    places = ctx.add("Squeeze", [ctx.add("Slice", [kept, *map(ctx.int64, ([2], [3], [1]))]), ctx.int64([1])])
    found = ctx.add("Shape", [places])
    results = [_filled_up(ctx, ctx.add("Cast", [places], to=ir.DataType.INT32.value), count, np.int32)]
    if soft:
        results.append(_filled_up(ctx, ctx.add("Gather", [scores, places], axis=0), count, np.float32))
    results.append(ctx.add("Cast", [ctx.add("Squeeze", [found, ctx.int64([0])])], to=ir.DataType.INT32.value))
    for index, result in zip(op.outputs, results, strict=True):
        ctx.bind(index, result)


def _filled_up(ctx: Importer, value: ir.Value, count: ir.Value, kind: type[np.generic]) -> ir.Value:
    """A list with zeros behind, so many in all."""
    zeros = ctx.add("Expand", [ctx.builder.constant(0, kind), count])
    whole = ctx.add("Concat", [value, zeros], axis=0)
    return ctx.add("Slice", [whole, ctx.int64([0]), count, ctx.int64([0])])


HANDLERS: dict[str, Handler] = {"NON_MAX_SUPPRESSION_V4": _suppression, "NON_MAX_SUPPRESSION_V5": _suppression}
