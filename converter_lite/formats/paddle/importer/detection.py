"""Boxes of detectors: decoded, placed, and chosen among those that overlap."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer
from converter_lite.formats.paddle.importer.elementwise import output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import known, sizes
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


def _yolo_box(importer: Importer, op: Operator) -> None:
    """Corners and scores of the boxes that a head of YOLOv3 predicts; those below the threshold become zeros."""
    value = importer.value(op.input("X"))
    anchors = np.asarray(op.get("anchors", ()), np.float32).reshape(-1, 2)
    classes, count = int(op.get("class_num", 1)), len(anchors)
    height, width = known(importer, value)[2:]
    if min(height, width, count, classes) < 1:
        raise ModelError("its grid is not known, or it has no anchors or classes")
    aware = bool(op.get("iou_aware", False))
    objects, overlaps = value, None
    if aware:
        limits = (importer.add_constant("part", [number]) for number in (0, count, 1))
        overlaps = importer.compute("Sigmoid", importer.compute("Slice", value, *limits))
        limits = (importer.add_constant("part", [number]) for number in (count, ALL, 1))
        objects = importer.compute("Slice", value, *limits)
    shape = importer.add_constant("shape", [0, count, 5 + classes, height, width])
    grid = importer.compute("Reshape", objects, shape)
    parts = [_numbers(importer, grid, first, last) for first, last in itertools.pairwise((0, 2, 4, 5, 5 + classes))]
    certainty = importer.compute("Sigmoid", parts[2])
    if overlaps is not None:
        certainty = _aware(importer, op, certainty, overlaps, [count, height, width])
    passes = importer.compute(
        "Less", certainty, importer.add_constant("threshold", float(op.get("conf_thresh", 0.01)), np.float32)
    )
    zero = importer.add_constant("zero", 0, np.float32)
    corners = _corners(importer, op, parts, anchors, (height, width))
    scores = importer.compute("Mul", importer.compute("Sigmoid", parts[3]), certainty)
    for slot, made, size in (("Boxes", corners, 4), ("Scores", scores, classes)):
        shown = importer.compute("Where", passes, zero, made)
        last = importer.compute("Transpose", shown, perm=[0, 1, 3, 4, 2])
        flat = importer.add_constant("shape", [0, count * height * width, size])
        importer.finish(output(op, slot), "Reshape", last, flat)


def _numbers(importer: Importer, grid: ir.Value, first: int, last: int) -> ir.Value:
    limits = (importer.add_constant("part", [number]) for number in (first, last, 2))
    return importer.compute("Slice", grid, *limits)


def _aware(importer: Importer, op: Operator, certainty: ir.Value, overlaps: ir.Value, shape: list[int]) -> ir.Value:
    """Certainty weighed with the predicted overlap."""
    factor = float(op.get("iou_aware_factor", 0.5))
    grid = importer.compute("Reshape", overlaps, importer.add_constant("shape", [0, shape[0], 1, *shape[1:]]))
    exponents = [importer.add_constant("exponent", number, np.float32) for number in (1 - factor, factor)]
    return importer.compute(
        "Mul", importer.compute("Pow", certainty, exponents[0]), importer.compute("Pow", grid, exponents[1])
    )


def _corners(
    importer: Importer, op: Operator, parts: list[ir.Value], anchors: np.ndarray, grid: tuple[int, int]
) -> ir.Value:
    """Corners in pixels of the picture, whose size is the other input."""
    height, width = grid
    scale, downsample = float(op.get("scale_x_y", 1.0)), int(op.get("downsample_ratio", 32))
    picture = importer.compute("Cast", importer.value(op.input("ImgSize")), to=int(ir.DataType.FLOAT))
    order = importer.add_constant("order", [1, 0])  # height and width become width and height
    whole = importer.compute(
        "Reshape", importer.compute("Gather", picture, order, axis=1), importer.add_constant("shape", [-1, 1, 2, 1, 1])
    )
    places = np.stack(np.meshgrid(np.arange(width), np.arange(height))).astype(np.float32)
    moved = importer.compute("Sigmoid", parts[0])
    if scale != 1.0:
        moved = importer.compute("Mul", moved, importer.add_constant("scale", scale, np.float32))
        moved = importer.compute("Sub", moved, importer.add_constant("shift", 0.5 * (scale - 1.0), np.float32))
    cells = importer.add_constant("cells", [[width], [height]], np.float32)
    cells = importer.initializer("cells", np.asarray([width, height], np.float32).reshape(1, 1, 2, 1, 1))
    center = importer.compute("Add", moved, importer.initializer("places", places[None, None]))
    center = importer.compute("Div", importer.compute("Mul", center, whole), cells)
    sides = importer.initializer("anchors", anchors.reshape(1, -1, 2, 1, 1))
    spread = importer.compute("Mul", importer.compute("Mul", importer.compute("Exp", parts[1]), sides), whole)
    input_size = np.asarray([downsample * width, downsample * height], np.float32).reshape(1, 1, 2, 1, 1)
    spread = importer.compute("Div", spread, importer.initializer("input", input_size))
    half = importer.compute("Div", spread, importer.add_constant("two", 2, np.float32))
    low, high = importer.compute("Sub", center, half), importer.compute("Add", center, half)
    if op.get("clip_bbox", True):
        low = importer.compute("Max", low, importer.add_constant("zero", 0, np.float32))
        last = importer.compute("Sub", whole, importer.add_constant("one", 1, np.float32))
        high = importer.compute("Min", high, last)
    return importer.compute("Concat", low, high, axis=2)


def _prior_box(importer: Importer, op: Operator) -> None:
    """Boxes that depend on sizes alone: a constant."""
    heights = [known(importer, importer.value(op.input(slot)))[2:] for slot in ("Input", "Image")]
    (height, width), (picture_height, picture_width) = heights
    if min(height, width, picture_height, picture_width) < 1:
        raise ModelError("the sizes of its inputs are not known")
    step_x, step_y = float(op.get("step_w", 0.0)), float(op.get("step_h", 0.0))
    step_x, step_y = step_x or picture_width / width, step_y or picture_height / height
    sides = np.asarray(_prior_sides(op), np.float32)
    shape = [height, width, len(sides), 4]
    importer.filled_left -= check_filled(importer, shape)
    offset = float(op.get("offset", 0.5))
    centers = np.zeros((height, width, 1, 2), np.float32)
    centers[..., 0] = ((np.arange(width) + offset) * step_x).reshape(1, width, 1)
    centers[..., 1] = ((np.arange(height) + offset) * step_y).reshape(height, 1, 1)
    picture = np.asarray([picture_width, picture_height], np.float32)
    boxes = np.concatenate([(centers - sides / 2) / picture, (centers + sides / 2) / picture], axis=3)
    if op.get("clip", False):
        boxes = np.clip(boxes, 0, 1)
    variances = np.broadcast_to(np.asarray(op.get("variances", (0.1, 0.1, 0.2, 0.2)), np.float32), shape)
    for slot, array in (("Boxes", boxes.astype(np.float32)), ("Variances", np.ascontiguousarray(variances))):
        importer.bind(output(op, slot), importer.initializer(output(op, slot), array))


def _prior_sides(op: Operator) -> list[tuple[float, float]]:
    """Width and height of each box of a place."""
    ratios = [1.0]
    for ratio in op.get("aspect_ratios", ()):
        if all(abs(ratio - other) >= 1e-6 for other in ratios):
            ratios += [float(ratio), 1 / float(ratio)] if op.get("flip", False) else [float(ratio)]
    largest, found = list(op.get("max_sizes", ())), []
    for place, size in enumerate(op.get("min_sizes", ())):
        stretched = [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios]
        between = [(math.sqrt(size * largest[place]),) * 2] if largest else []
        if op.get("min_max_aspect_ratios_order", False):
            found += [stretched[0], *between, *stretched[1:]]
        else:
            found += [*stretched, *between]
    return [(float(width), float(height)) for width, height in found]


def _box_coder(importer: Importer, op: Operator) -> None:
    """Boxes from what was predicted relative to others."""
    if (
        op.get("code_type", "") not in ("decode_center_size", "DecodeCenterSize")
        or importer.rank(importer.value(op.input("TargetBox"))) != 3
    ):
        raise ModelError("boxes are decoded only, and relative to given ones")
    target, axis = importer.value(op.input("TargetBox")), int(op.get("axis", 0))
    place = importer.add_constant("axes", [axis])
    prior = importer.compute("Unsqueeze", importer.value(op.input("PriorBox")), place)
    low, high = (last_numbers(importer, prior, first, first + 2) for first in (0, 2))
    one = importer.add_constant("one", 0.0 if op.get("box_normalized", True) else 1.0, np.float32)
    two = importer.add_constant("two", 2, np.float32)
    sides = importer.compute("Add", importer.compute("Sub", high, low), one)
    center = importer.compute("Add", low, importer.compute("Div", sides, two))
    spread = _spread(importer, op, target, place)
    moved, scaled = (last_numbers(importer, spread, first, first + 2) for first in (0, 2))
    middle = importer.compute("Add", importer.compute("Mul", moved, sides), center)
    half = importer.compute("Div", importer.compute("Mul", importer.compute("Exp", scaled), sides), two)
    ends = importer.compute("Sub", importer.compute("Add", middle, half), one)
    importer.finish(output(op, "OutputBox"), "Concat", importer.compute("Sub", middle, half), ends, axis=-1)


def _spread(importer: Importer, op: Operator, target: ir.Value, place: ir.Value) -> ir.Value:
    """Predictions times their variances: of a tensor, or one for each of the four numbers."""
    name = op.input("PriorBoxVar")
    if name is not None:
        variance = importer.value(name)
        wide = importer.compute("Unsqueeze", variance, place) if importer.rank(variance) == 2 else variance
        return importer.compute("Mul", target, wide)
    numbers = op.get("variance", ())
    if not numbers:
        return target
    return importer.compute("Mul", target, importer.add_constant("variance", numbers, np.float32))


def last_numbers(importer: Importer, value: ir.Value, first: int, last: int) -> ir.Value:
    """Elements ``first`` to ``last`` of the last axis."""
    limits = (importer.add_constant("part", [number]) for number in (first, last, -1))
    return importer.compute("Slice", value, *limits)


def _roi_align(importer: Importer, op: Operator) -> None:
    """All boxes are of one picture unless their numbers are constants."""
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
    count = known(importer, boxes)[0]
    if count < 1:
        raise ModelError("the number of boxes is not known")
    importer.filled_left -= check_filled(importer, [count])
    falling = np.arange(count, 0, -1, dtype=np.float32).reshape(1, 1, count)
    limits = [
        importer.add_constant("most", [ALL]),
        importer.add_constant("limit", [op.get("iou_threshold", 1.0)], np.float32),
    ]
    whole = importer.compute("Unsqueeze", boxes, importer.add_constant("axes", [0]))
    selected = importer.compute("NonMaxSuppression", whole, importer.initializer("scores", falling), *limits)
    importer.finish(output(op, "KeepBoxesIdxs"), "Gather", selected, importer.add_constant("column", 2), axis=1)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("multiclass_nms2", "multiclass_nms3"), _nms),
    "nms": _nms_plain,
    "yolo_box": _yolo_box,
    "prior_box": _prior_box,
    "box_coder": _box_coder,
    "roi_align": _roi_align,
}
