"""matrix_nms: boxes lose score by their overlap with better ones, all at once, instead of being dropped one by one."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.boxes import last_numbers
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.detection import NEVER, pictures_of, without_background
from converter_lite.formats.paddle.importer.sizes import known, sizes
from converter_lite.formats.paddle.program import Operator

LONG, SMALL = int(ir.DataType.INT64), int(ir.DataType.INT32)


def _matrix_nms(importer: Importer, op: Operator) -> None:
    """Candidates of each class are sorted; then the table of overlaps of each with all before it says what it loses."""
    boxes, scores = importer.value(op.input("BBoxes")), importer.value(op.input("Scores"))
    if importer.rank(boxes) != 3 or known(importer, boxes)[2] != 4:
        raise ModelError("boxes that are not rectangles, or of several pictures in one list")
    scores = without_background(importer, op, scores)
    best, places = _sorted(importer, op, scores)
    chosen = _gathered(importer, boxes, places)
    factors = _factors(importer, op, _overlaps(importer, op, chosen))
    decayed = importer.compute("Mul", best, factors)
    limit = max(float(op.get("post_threshold", 0.0)), 0.0)
    is_kept = importer.compute("Greater", decayed, _number(importer, limit))
    is_candidate = importer.compute("Greater", best, _number(importer, float(op.get("score_threshold", 0.0))))
    is_kept = importer.compute("And", is_kept, is_candidate)
    shown = importer.compute("Where", is_kept, decayed, _number(importer, NEVER))
    _write(importer, op, shown, chosen, places, boxes)


def _number(importer: Importer, value: float) -> ir.Value:
    return importer.add_constant("number", value, np.float32)


def _sorted(importer: Importer, op: Operator, scores: ir.Value) -> list[ir.Value]:
    """The best candidates of each class, and which boxes they are.

    No more than pass the threshold in any class: the tables of overlaps grow with the square of their number.
    """
    passes = importer.compute("Greater", scores, _number(importer, float(op.get("score_threshold", 0.0))))
    counted = importer.compute("Cast", passes, to=LONG)
    numbers = importer.compute("ReduceSum", counted, importer.add_constant("axes", [2]), keepdims=0)
    number = importer.compute("ReduceMax", numbers, keepdims=0)
    number = importer.compute("Reshape", number, importer.add_constant("shape", [1]))
    number = importer.compute("Max", number, importer.add_constant("one", [1]))
    most = int(op.get("nms_top_k", -1))
    if most >= 0:
        number = importer.compute("Min", number, importer.add_constant("k", [most]))
    return importer.node("TopK", [scores, number], {"axis": 2}, names=["candidates", "candidates.places"])


def _gathered(importer: Importer, boxes: ir.Value, places: ir.Value) -> ir.Value:
    """Corners of the candidates: (pictures, classes, candidates, 4)."""
    flat = importer.compute("Reshape", places, importer.add_constant("shape", [0, -1, 1]))
    corners = importer.compute("GatherND", boxes, flat, batch_dims=1)
    four = importer.add_constant("four", [4])
    shape = importer.compute("Concat", importer.compute("Shape", places), four, axis=0)
    return importer.compute("Reshape", corners, shape)


def _overlaps(importer: Importer, op: Operator, boxes: ir.Value) -> ir.Value:
    """Overlap of each candidate (row) with those before it (columns), 0 with itself and those behind it."""
    added = _number(importer, 0.0 if op.get("normalized", True) else 1.0)
    low, high = (last_numbers(importer, boxes, first, first + 2) for first in (0, 2))
    rows, columns = (importer.add_constant("axes", [axis]) for axis in (3, 2))
    starts = importer.compute("Max", *(importer.compute("Unsqueeze", low, axes) for axes in (rows, columns)))
    ends = importer.compute("Min", *(importer.compute("Unsqueeze", high, axes) for axes in (rows, columns)))
    apart = importer.compute("Less", ends, starts)
    sides = importer.compute("Add", importer.compute("Sub", ends, starts), added)
    common = _product(importer, importer.compute("Where", apart, _number(importer, 0.0), sides))
    own = importer.compute("Sub", high, low)
    is_turned = importer.compute("Less", own, _number(importer, 0.0))
    area = _product(
        importer, importer.compute("Where", is_turned, _number(importer, 0.0), importer.compute("Add", own, added))
    )
    both = importer.compute(
        "Add",
        importer.compute("Unsqueeze", area, importer.add_constant("axes", [3])),
        importer.compute("Unsqueeze", area, importer.add_constant("axes", [2])),
    )
    whole = importer.compute("Sub", both, common)
    shared = importer.compute("Greater", common, _number(importer, 0.0))
    ratio = importer.compute("Where", shared, importer.compute("Div", common, whole), _number(importer, 0.0))
    return importer.compute("Trilu", ratio, importer.add_constant("diagonal", -1), upper=0)


def _product(importer: Importer, sides: ir.Value) -> ir.Value:
    """Width times height."""
    width, height = (last_numbers(importer, sides, first, first + 1) for first in (0, 1))
    return importer.compute("Squeeze", importer.compute("Mul", width, height), importer.add_constant("axes", [-1]))


def _factors(importer: Importer, op: Operator, overlaps: ir.Value) -> ir.Value:
    """What is left of each score: the least that any better candidate leaves, given what it has lost itself."""
    largest = importer.compute("ReduceMax", overlaps, importer.add_constant("axes", [3]), keepdims=0)
    others = importer.compute("Unsqueeze", largest, importer.add_constant("axes", [2]))
    if op.get("use_gaussian", False):
        squares = [importer.compute("Mul", value, value) for value in (others, overlaps)]
        sigma = _number(importer, float(op.get("gaussian_sigma", 2.0)))
        left = importer.compute("Exp", importer.compute("Mul", importer.compute("Sub", *squares), sigma))
    else:
        one = _number(importer, 1.0)
        left = importer.compute("Div", importer.compute("Sub", one, overlaps), importer.compute("Sub", one, others))
    ones = importer.compute("Expand", _number(importer, 1.0), importer.compute("Shape", overlaps))
    is_before = importer.compute("Trilu", ones, importer.add_constant("diagonal", -1), upper=0)
    before = importer.compute("Cast", is_before, to=int(ir.DataType.BOOL))
    least = importer.compute("Where", before, left, _number(importer, 1.0))
    found = importer.compute("ReduceMin", least, importer.add_constant("axes", [3]), keepdims=0)
    return importer.compute("Min", found, _number(importer, 1.0))


def _write(
    importer: Importer, op: Operator, scores: ir.Value, corners: ir.Value, places: ir.Value, boxes: ir.Value
) -> None:
    """The best of all classes, picture by picture: class, score and corners; places; how many there are of each picture."""
    flat = importer.compute("Reshape", scores, importer.add_constant("shape", [0, -1]))
    length, most = importer.compute("Shape", flat, start=1), int(op.get("keep_top_k", -1))
    number = length if most < 0 else importer.compute("Min", importer.add_constant("k", [most]), length)
    best, order = importer.node("TopK", [flat, number], {"axis": 1}, names=["best", "best.places"])
    is_kept = importer.compute("Greater", best, _number(importer, NEVER))
    found = importer.compute("Transpose", importer.compute("NonZero", is_kept), perm=[1, 0])
    score = importer.compute("GatherND", best, found)
    picture = importer.compute("Gather", found, importer.add_constant("column", [0]), axis=1)
    place = importer.compute(
        "Unsqueeze", importer.compute("GatherND", order, found), importer.add_constant("axes", [1])
    )
    count = importer.compute("Shape", scores, start=2)
    label = importer.compute("Cast", importer.compute("Div", place, count), to=int(ir.DataType.FLOAT))
    both = importer.compute("Concat", picture, place, axis=1)
    rows = importer.compute("Reshape", corners, importer.add_constant("shape", [0, -1, 4]))
    parts = [label, importer.compute("Unsqueeze", score, importer.add_constant("axes", [1]))]
    importer.finish(output(op), "Concat", *parts, importer.compute("GatherND", rows, both), axis=1)
    if op.output("Index") is not None:
        flat_places = importer.compute("Reshape", places, importer.add_constant("shape", [0, -1]))
        box = importer.compute(
            "Unsqueeze", importer.compute("GatherND", flat_places, both), importer.add_constant("axes", [1])
        )
        offset = importer.compute("Mul", picture, sizes(importer, boxes, 1, 2))
        importer.finish(output(op, "Index"), "Cast", importer.compute("Add", offset, box), to=SMALL)
    if op.output("RoisNum") is not None:
        pictures_of(importer, picture, boxes, output(op, "RoisNum"))


HANDLERS: dict[str, Handler] = {"matrix_nms": _matrix_nms}
