"""Boxes of detectors: decoded from what heads predict, and placed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import known, scalar, sizes
from converter_lite.formats.paddle.program import Operator

ALL = 2**31 - 1
"""More channels than there are."""


def _yolo_box(importer: Importer, op: Operator) -> None:
    """Corners and scores of the boxes that a head of YOLOv3 predicts; those below the threshold become zeros."""
    value = importer.value(op.input("X"))
    anchors = np.asarray(op.get("anchors", ()), np.float32).reshape(-1, 2)
    classes, count = int(op.get("class_num", 1)), len(anchors)
    if min(count, classes) < 1 or importer.rank(value) != 4:
        raise ModelError("it has no anchors or classes, or no grid")
    aware = bool(op.get("iou_aware", False))
    objects, overlaps = value, None
    if aware:
        limits = (importer.add_constant("part", [number]) for number in (0, count, 1))
        overlaps = importer.compute("Sigmoid", importer.compute("Slice", value, *limits))
        limits = (importer.add_constant("part", [number]) for number in (count, ALL, 1))
        objects = importer.compute("Slice", value, *limits)
    grid = importer.compute("Reshape", objects, _in_front(importer, [0, count, 5 + classes], value))
    parts = [_numbers(importer, grid, first, last) for first, last in itertools.pairwise((0, 2, 4, 5, 5 + classes))]
    certainty = importer.compute("Sigmoid", parts[2])
    if overlaps is not None:
        certainty = _aware(importer, op, certainty, overlaps, _in_front(importer, [0, count, 1], value))
    passes = importer.compute(
        "Less", certainty, importer.add_constant("threshold", float(op.get("conf_thresh", 0.01)), np.float32)
    )
    zero = importer.add_constant("zero", 0, np.float32)
    corners = _corners(importer, op, parts, anchors, value)
    scores = importer.compute("Mul", importer.compute("Sigmoid", parts[3]), certainty)
    for slot, made, size in (("Boxes", corners, 4), ("Scores", scores, classes)):
        shown = importer.compute("Where", passes, zero, made)
        last = importer.compute("Transpose", shown, perm=[0, 1, 3, 4, 2])
        flat = importer.add_constant("shape", [0, -1, size])
        importer.finish(output(op, slot), "Reshape", last, flat)


def _numbers(importer: Importer, grid: ir.Value, first: int, last: int) -> ir.Value:
    limits = (importer.add_constant("part", [number]) for number in (first, last, 2))
    return importer.compute("Slice", grid, *limits)


def _in_front(importer: Importer, numbers: list[int], value: ir.Value) -> ir.Value:
    """A shape: these numbers, and the height and width of a picture."""
    grid = known(importer, value)[2:]
    if min(grid) > 0:
        return importer.add_constant("shape", [*numbers, *grid])
    return importer.compute("Concat", importer.add_constant("shape", numbers), sizes(importer, value, 2), axis=0)


def _aware(importer: Importer, op: Operator, certainty: ir.Value, overlaps: ir.Value, shape: ir.Value) -> ir.Value:
    """Certainty weighed with the predicted overlap."""
    factor = float(op.get("iou_aware_factor", 0.5))
    grid = importer.compute("Reshape", overlaps, shape)
    exponents = [importer.add_constant("exponent", number, np.float32) for number in (1 - factor, factor)]
    return importer.compute(
        "Mul", importer.compute("Pow", certainty, exponents[0]), importer.compute("Pow", grid, exponents[1])
    )


def _corners(importer: Importer, op: Operator, parts: list[ir.Value], anchors: np.ndarray, value: ir.Value) -> ir.Value:
    """Corners in pixels of the picture, whose size is the other input."""
    scale, downsample = float(op.get("scale_x_y", 1.0)), int(op.get("downsample_ratio", 32))
    picture = importer.compute("Cast", importer.value(op.input("ImgSize")), to=int(ir.DataType.FLOAT))
    order = importer.add_constant("order", [1, 0])  # height and width become width and height
    whole = importer.compute(
        "Reshape", importer.compute("Gather", picture, order, axis=1), importer.add_constant("shape", [-1, 1, 2, 1, 1])
    )
    places, cells = _grid(importer, value)
    moved = importer.compute("Sigmoid", parts[0])
    if scale != 1.0:
        moved = importer.compute("Mul", moved, importer.add_constant("scale", scale, np.float32))
        moved = importer.compute("Sub", moved, importer.add_constant("shift", 0.5 * (scale - 1.0), np.float32))
    center = importer.compute("Add", moved, places)
    center = importer.compute("Div", importer.compute("Mul", center, whole), cells)
    sides = importer.initializer("anchors", anchors.reshape(1, -1, 2, 1, 1))
    spread = importer.compute("Mul", importer.compute("Mul", importer.compute("Exp", parts[1]), sides), whole)
    pixels = importer.add_constant("downsample", downsample, np.float32)
    spread = importer.compute("Div", spread, importer.compute("Mul", cells, pixels))
    half = importer.compute("Div", spread, importer.add_constant("two", 2, np.float32))
    low, high = importer.compute("Sub", center, half), importer.compute("Add", center, half)
    if op.get("clip_bbox", True):
        low = importer.compute("Max", low, importer.add_constant("zero", 0, np.float32))
        last = importer.compute("Sub", whole, importer.add_constant("one", 1, np.float32))
        high = importer.compute("Min", high, last)
    return importer.compute("Concat", low, high, axis=2)


def _grid(importer: Importer, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Column and row of each cell as (1, 1, 2, height, width), and the numbers of columns and rows as (1, 1, 2, 1, 1)."""
    height, width = known(importer, value)[2:]
    if min(height, width) > 0:
        grid = np.stack(np.meshgrid(np.arange(width), np.arange(height))).astype(np.float32)
        numbers = np.asarray([width, height], np.float32).reshape(1, 1, 2, 1, 1)
        return importer.initializer("places", grid[None, None]), importer.initializer("cells", numbers)
    parts, limits = [], [importer.add_constant("limit", number) for number in (0, 1)]
    whole = _in_front(importer, [1, 1, 1], value)
    for axis, shape in ((3, [1, 1, 1, 1, -1]), (2, [1, 1, 1, -1, 1])):
        row = importer.compute("Range", limits[0], scalar(importer, sizes(importer, value, axis, axis + 1)), limits[1])
        row = importer.compute("Reshape", row, importer.add_constant("shape", shape))
        parts.append(importer.compute("Expand", row, whole))
    counts = importer.compute("Gather", sizes(importer, value, 2), importer.add_constant("order", [1, 0]))
    counts = importer.compute("Reshape", counts, importer.add_constant("shape", [1, 1, 2, 1, 1]))
    made = (importer.compute("Concat", *parts, axis=2), counts)
    places, cells = (importer.compute("Cast", number, to=int(ir.DataType.FLOAT)) for number in made)
    return places, cells


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


HANDLERS: dict[str, Handler] = {"yolo_box": _yolo_box, "prior_box": _prior_box, "box_coder": _box_coder}
