"""Boxes of detectors."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import onnx_ir as ir
from flatbuffers import flexbuffers

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer

CORNERS = 4
"""Numbers of a box."""

INT32, FLOAT = ir.DataType.INT32.value, ir.DataType.FLOAT.value


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
    places = _column(ctx, ctx.add("NonMaxSuppression", [wide, tall, count, *bounds]), 2)
    results = [_filled_up(ctx, ctx.add("Cast", [places], to=INT32), count, np.int32)]
    if soft:
        results.append(_filled_up(ctx, ctx.add("Gather", [scores, places], axis=0), count, np.float32))
    found = ctx.add("Squeeze", [ctx.add("Shape", [places]), ctx.int64([0])])
    results.append(ctx.add("Cast", [found], to=INT32))
    for index, result in zip(op.outputs, results, strict=True):
        ctx.bind(index, result)


def _column(ctx: Importer, matrix: ir.Value, number: int) -> ir.Value:
    part = ctx.add("Slice", [matrix, *map(ctx.int64, ([number], [number + 1], [1]))])
    return ctx.add("Squeeze", [part, ctx.int64([1])])


def _filled_up(ctx: Importer, value: ir.Value, count: ir.Value, kind: type[np.generic]) -> ir.Value:
    """Rows with zeros behind, so many in all."""
    width = [] if value.shape is None else [size for size in list(value.shape)[1:] if isinstance(size, int)]
    rows = ctx.add("Concat", [count, ctx.int64(width)], axis=0) if width else count
    zeros = ctx.add("Expand", [ctx.builder.constant(0, kind), rows])
    whole = ctx.add("Concat", [value, zeros], axis=0)
    return ctx.add("Slice", [whole, ctx.int64([0]), count, ctx.int64([0])])


@dataclass(frozen=True, slots=True)
class Detection:
    """Options of ``TFLite_Detection_PostProcess``, by the names that the file has."""

    max_detections: int = 0
    max_classes_per_detection: int = 1
    detections_per_class: int = 100
    use_regular_nms: bool = False
    nms_score_threshold: float = 0.0
    nms_iou_threshold: float = 0.0
    num_classes: int = 0
    y_scale: float = 0.0
    x_scale: float = 0.0
    h_scale: float = 0.0
    w_scale: float = 0.0


def _options(op: Operator) -> Detection:
    """The options of a custom operator, a FlexBuffer with a map; only numbers are looked at.

    Raises:
        ModelError: They are none, or make no sense.
    """
    try:
        given = flexbuffers.GetRoot(op.custom_options).AsMap
        found = Detection(**{f.name: _number(given, f.name, f.default) for f in fields(Detection)})
    except (*MISFITS, struct.error) as error:
        raise ModelError(f"its options are no map of numbers: {error}") from None
    positive = (found.max_detections, found.num_classes, found.y_scale, found.x_scale, found.h_scale, found.w_scale)
    if min(positive) <= 0:
        raise ModelError(f"its options make no sense: {found}")
    return found


def _number(options: Any, name: str, default: Any) -> Any:
    """A number by its name, or its default."""
    try:
        found = options[name]
    except KeyError:
        return default
    if found.IsBool:
        return found.AsBool
    if found.IsInt:
        return found.AsInt
    if found.IsFloat:
        return found.AsFloat
    raise TypeError(f"{name} is none")


def _detection(ctx: Importer, op: Operator) -> None:
    """Boxes from their distances to anchors, of which those are kept that overlap no better one.

    The better one is found among all classes at once: of each box the best class counts. Source: the runtime's
    ``detection_postprocess.cc``.
    """
    options = _options(op)
    if options.use_regular_nms or options.max_classes_per_detection != 1:
        raise ModelError("it suppresses boxes class by class, or gives several classes of a box")
    encoded, scores, anchors = (ctx.value(index) for index in op.inputs[:3])
    if ctx.shape(op.inputs[0])[0] != 1:
        raise ModelError("it takes one picture at a time", hint="give the inputs fixed sizes with --inputShape")
    boxes = _decoded(ctx, encoded, anchors, options)
    background = ctx.shape(op.inputs[1])[-1] - options.num_classes
    if background not in (0, 1):
        raise ModelError(f"{ctx.shape(op.inputs[1])[-1]} scores for {options.num_classes} classes")
    if background:
        scores = ctx.add("Slice", [scores, ctx.int64([1]), ctx.int64([options.num_classes + 1]), ctx.int64([2])])
    best = ctx.add("ReduceMax", [scores, ctx.int64([2])], keepdims=0)
    classes = ctx.add("Cast", [ctx.add("ArgMax", [scores], axis=2, keepdims=0)], to=FLOAT)
    # the runtime keeps a score that is just the threshold, ONNX one above it
    threshold = float(np.nextafter(np.float32(options.nms_score_threshold), np.float32(-np.inf)))
    count = ctx.int64([options.max_detections])
    bounds = [ctx.builder.constant([bound], np.float32) for bound in (options.nms_iou_threshold, threshold)]
    kept = ctx.add("NonMaxSuppression", [boxes, ctx.add("Unsqueeze", [best, ctx.int64([1])]), count, *bounds])
    places = _column(ctx, kept, 2)
    for index, source in zip(op.outputs, (boxes, classes, best), strict=False):
        rows = ctx.add("Gather", [ctx.add("Squeeze", [source, ctx.int64([0])]), places], axis=0)
        ctx.bind(index, ctx.add("Unsqueeze", [_filled_up(ctx, rows, count, np.float32), ctx.int64([0])]))
    ctx.bind(op.outputs[3], ctx.add("Cast", [ctx.add("Shape", [places])], to=FLOAT))


def _decoded(ctx: Importer, encoded: ir.Value, anchors: ir.Value, options: Detection) -> ir.Value:
    """Corners of boxes, ``(1, count, 4)``: middles and sizes are relative to those of the anchors."""
    if encoded.shape is None or len(encoded.shape) != 3 or encoded.shape[-1] != CORNERS:
        raise ModelError("its boxes are not a list of four numbers each")
    middle, size = ctx.add_many("Split", [encoded, ctx.int64([2, 2])], 2, axis=2)
    at, spread = ctx.add_many("Split", [anchors, ctx.int64([2, 2])], 2, axis=1)
    steps = ctx.builder.constant([options.y_scale, options.x_scale], np.float32)
    sizes = ctx.builder.constant([options.h_scale, options.w_scale], np.float32)
    middle = ctx.add("Add", [ctx.add("Mul", [ctx.add("Div", [middle, steps]), spread]), at])
    half = ctx.add("Mul", [ctx.add("Exp", [ctx.add("Div", [size, sizes])]), spread])
    half = ctx.add("Mul", [half, ctx.number(0.5)])
    return ctx.add("Concat", [ctx.add("Sub", [middle, half]), ctx.add("Add", [middle, half])], axis=2)


HANDLERS: dict[str, Handler] = {"NON_MAX_SUPPRESSION_V4": _suppression, "NON_MAX_SUPPRESSION_V5": _suppression}

CUSTOM: dict[str, Handler] = {"TFLite_Detection_PostProcess": _detection}
"""Custom operators of the runtime itself."""
