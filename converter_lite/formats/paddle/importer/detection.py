"""Boxes of detectors: chosen among those that overlap, and what is in them cut out."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.boxes import last_numbers
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import known, scalar, sizes
from converter_lite.formats.paddle.program import Operator

LONG = int(ir.DataType.INT64)
NEVER = float(np.finfo(np.float32).min)
"""A score that no threshold lets pass."""

ALL = 2**31 - 1
"""More boxes than there are."""


def _nms(importer: Importer, op: Operator) -> None:
    """multiclass_nms3: for each picture and class the best boxes without the others that overlap them.

    Of the candidates of a class only the ``nms_top_k`` best are looked at, of the boxes of a picture the ``keep_top_k`` best
    kept; both keep the order by picture, class and score.
    """
    boxes, scores = importer.value(op.input("BBoxes")), importer.value(op.input("Scores"))
    _check_nms(importer, op, boxes, scores)
    scores = _candidates(importer, op, without_background(importer, op, scores))
    shifted = _without_area(importer, boxes, boxes if op.get("normalized", True) else _closed(importer, boxes))
    numbers = (float(op.get("nms_threshold", 0.3)), float(op.get("score_threshold", 0.0)))
    limits = [importer.add_constant("limit", [number], np.float32) for number in numbers]
    selected = importer.compute(
        "NonMaxSuppression", shifted, scores, importer.add_constant("most", [ALL]), *limits, center_point_box=0
    )
    if int(op.get("keep_top_k", -1)) >= 0:
        selected = _best(importer, scores, selected, int(op.get("keep_top_k")))
    _write(importer, op, boxes, scores, selected)


def _check_nms(importer: Importer, op: Operator, boxes: ir.Value, scores: ir.Value) -> None:
    if op.input("RoisNum") is not None or importer.rank(boxes) != 3 or importer.rank(scores) != 3:
        raise ModelError("boxes of several pictures in one list")
    if known(importer, boxes)[2] != 4:
        raise ModelError(f"boxes of {known(importer, boxes)[2]} numbers; corners of rectangles are 4")
    if float(op.get("nms_eta", 1.0)) < 1 and float(op.get("nms_threshold", 0.3)) > 0.5:
        raise ModelError("a threshold that changes from box to box (nms_eta)")


def without_background(importer: Importer, op: Operator, scores: ir.Value) -> ir.Value:
    """Scores with those of the background class below every threshold."""
    label, classes = int(op.get("background_label", 0)), known(importer, scores)[1]
    if label < 0 or label >= classes > 0:
        return scores
    if classes < 0:
        raise ModelError("the number of classes is not known")
    is_background = np.arange(classes).reshape(1, classes, 1) == label
    never = importer.add_constant("never", NEVER, np.float32)
    return importer.compute("Where", importer.initializer("background", is_background), never, scores)


def _candidates(importer: Importer, op: Operator, scores: ir.Value) -> ir.Value:
    """Scores with all but the best ``nms_top_k`` of each class below every threshold."""
    most, count = int(op.get("nms_top_k", -1)), known(importer, scores)[2]
    if most < 0 or 0 < count <= most:
        return scores
    number = importer.add_constant("k", [most])
    if count < 0:
        number = importer.compute("Min", number, sizes(importer, scores, 2, 3))
    best, places = importer.node("TopK", [scores, number], {"axis": 2}, names=["candidates", "candidates.places"])
    never = importer.add_constant("never", NEVER, np.float32)
    nothing = importer.compute("Expand", never, sizes(importer, scores))
    return importer.compute("ScatterElements", nothing, places, best, axis=2)


def _closed(importer: Importer, boxes: ir.Value) -> ir.Value:
    """Corners that belong to their boxes: a side is one longer than its ends are apart."""
    return importer.compute("Add", boxes, importer.add_constant("closed", [0, 0, 1, 1], np.float32))


def _without_area(importer: Importer, boxes: ir.Value, sides: ir.Value) -> ir.Value:
    """Boxes whose corners are exchanged overlap nothing; ONNX would put their corners into order."""
    low, high = (last_numbers(importer, boxes, first, first + 2) for first in (0, 2))
    lengths = importer.compute("Sub", high, low)
    shortest = importer.compute("ReduceMin", lengths, importer.add_constant("axes", [-1]), keepdims=1)
    is_turned = importer.compute("Less", shortest, importer.add_constant("zero", 0, np.float32))
    return importer.compute("Where", is_turned, importer.compute("Concat", low, low, axis=-1), sides)


def _best(importer: Importer, scores: ir.Value, selected: ir.Value, count: int) -> ir.Value:
    """The ``count`` best of each picture among (picture, class, box) triples, in their order."""
    chosen = importer.compute("GatherND", scores, selected)
    never = importer.add_constant("never", NEVER, np.float32)
    nothing = importer.compute("Expand", never, sizes(importer, scores))
    sparse = importer.compute("ScatterND", nothing, selected, chosen)
    flat = importer.compute("Reshape", sparse, importer.add_constant("shape", [0, -1]))
    number = importer.add_constant("k", [count])
    length = importer.compute("Shape", flat, start=1)
    most = importer.compute("Min", number, length)
    _, places = importer.node("TopK", [flat, most], {"axis": 1}, names=["best", "best.places"])
    nowhere = importer.compute("Expand", importer.add_constant("zero", 0, np.float32), importer.compute("Shape", flat))
    ones = importer.compute("Expand", importer.add_constant("one", 1, np.float32), importer.compute("Shape", places))
    marked = importer.compute("ScatterElements", nowhere, places, ones, axis=1)
    marks = importer.compute("Reshape", marked, importer.compute("Shape", scores))
    kept = importer.compute("Cast", importer.compute("GatherND", marks, selected), to=int(ir.DataType.BOOL))
    return importer.compute("Compress", selected, kept, axis=0)


def _write(importer: Importer, op: Operator, boxes: ir.Value, scores: ir.Value, selected: ir.Value) -> None:
    """Rows of class, score and corners; places in the list of all boxes; how many there are of each picture."""
    column = [importer.add_constant("column", [place]) for place in range(3)]
    picture, label, box = (importer.compute("Gather", selected, place, axis=1) for place in column)
    score = importer.compute("GatherND", scores, selected)
    axes = importer.add_constant("axes", [1])
    corners = importer.compute("GatherND", boxes, importer.compute("Concat", picture, box, axis=1))
    parts = [importer.compute("Cast", label, to=int(ir.DataType.FLOAT)), importer.compute("Unsqueeze", score, axes)]
    importer.finish(output(op), "Concat", *parts, corners, axis=1)
    small = int(ir.DataType.INT32)
    if op.output("Index") is not None:
        offset = importer.compute("Mul", picture, sizes(importer, boxes, 1, 2))
        importer.finish(output(op, "Index"), "Cast", importer.compute("Add", offset, box), to=small)
    if op.output("NmsRoisNum") is not None:
        pictures_of(importer, picture, boxes, output(op, "NmsRoisNum"))


def pictures_of(importer: Importer, picture: ir.Value, boxes: ir.Value, name: str) -> None:
    """How many rows each picture has, from a column with the picture of each row."""
    axes = importer.add_constant("axes", [1])
    pictures = importer.compute("Reshape", picture, importer.add_constant("shape", [1, -1]))
    batch = importer.compute("Range", *_counting(importer, boxes))
    same = importer.compute("Equal", importer.compute("Unsqueeze", batch, axes), pictures)
    number = importer.compute("Cast", same, to=int(ir.DataType.INT32))
    importer.finish(name, "ReduceSum", number, axes, keepdims=0)


def _counting(importer: Importer, boxes: ir.Value) -> list[ir.Value]:
    """Start, end and step of a range over the pictures."""
    shape = importer.add_constant("shape", np.zeros(0, np.int64))
    end = importer.compute("Reshape", sizes(importer, boxes, 0, 1), shape)
    return [importer.add_constant("start", 0), end, importer.add_constant("step", 1)]


def _roi_align(importer: Importer, op: Operator) -> None:
    """Parts of a picture, resized; the batch is one picture."""
    value, boxes = importer.value(op.input("X")), importer.value(op.input("ROIs"))
    if known(importer, value)[0] != 1:
        raise ModelError("boxes of a batch whose size is not 1")
    count = importer.compute("Shape", boxes, end=1)
    pictures = importer.compute("Expand", importer.add_constant("picture", 0), count)
    attributes = {
        "output_height": int(op.get("pooled_height", 1)),
        "output_width": int(op.get("pooled_width", 1)),
        "spatial_scale": float(op.get("spatial_scale", 1.0)),
        "sampling_ratio": max(int(op.get("sampling_ratio", -1)), 0),
        "coordinate_transformation_mode": "half_pixel" if op.get("aligned", False) else "output_half_pixel",
    }
    importer.finish(output(op), "RoiAlign", value, boxes, pictures, **attributes)


def _nms_plain(importer: Importer, op: Operator) -> None:
    """Boxes in the order in which they are given, the first the best; what remains, in that order."""
    boxes = importer.value(op.input("Boxes"))
    limits = [
        importer.add_constant("most", [ALL]),
        importer.add_constant("limit", [op.get("iou_threshold", 1.0)], np.float32),
    ]
    whole = importer.compute("Unsqueeze", boxes, importer.add_constant("axes", [0]))
    selected = importer.compute("NonMaxSuppression", whole, _falling(importer, boxes), *limits)
    importer.finish(output(op, "KeepBoxesIdxs"), "Gather", selected, importer.add_constant("column", 2), axis=1)


def _falling(importer: Importer, boxes: ir.Value) -> ir.Value:
    """Scores for boxes in their order: (1, 1, boxes)."""
    count = known(importer, boxes)[0]
    if count >= 0:
        importer.filled_left -= check_filled(importer, [count])
        return importer.initializer("scores", np.arange(count, 0, -1, dtype=np.float32).reshape(1, 1, count))
    number = importer.compute("Cast", scalar(importer, sizes(importer, boxes, 0, 1)), to=int(ir.DataType.FLOAT))
    ends = [importer.add_constant("end", number, np.float32) for number in (0, -1)]
    return importer.compute(
        "Unsqueeze", importer.compute("Range", number, *ends), importer.add_constant("axes", [0, 1])
    )


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("multiclass_nms2", "multiclass_nms3"), _nms),
    "nms": _nms_plain,
    "roi_align": _roi_align,
}
