"""Functions of numbers, and along an axis, for which ONNX has no operator."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.arithmetic import operands
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step


def _atan2(step: Step) -> None:
    """The angle of a point: from the quotient, moved by a half turn where the second coordinate is negative."""
    y, x = operands(step)
    one, zero, half, quarter = (step.constant(name, number, numpy_type(x)) for name, number in _TURNS)
    is_zero = step.emit("Equal", x, zero)
    angle = step.emit("Atan", step.emit("Div", y, step.emit("Where", is_zero, one, x)))
    moved = step.emit("Where", step.emit("Less", y, zero), step.emit("Sub", angle, half), step.emit("Add", angle, half))
    angle = step.emit("Where", step.emit("Less", x, zero), moved, angle)
    step.finish("Where", is_zero, step.emit("Mul", step.emit("Sign", y), quarter), angle)


_TURNS = (("one", 1), ("zero", 0), ("half", np.pi), ("quarter", np.pi / 2))


def _hypot(step: Step) -> None:
    first, second = operands(step)
    step.finish("Sqrt", step.emit("Add", step.emit("Mul", first, first), step.emit("Mul", second, second)))


def _x_log_y(step: Step) -> None:
    """``x * log(y)``, and 0 where x is 0."""
    first, second = operands(step)
    zero = step.constant("zero", 0, numpy_type(first))
    product = step.emit("Mul", first, step.emit("Log", second))
    step.finish("Where", step.emit("Equal", first, zero), zero, product)


def _nan_to_num(step: Step) -> None:
    """Numbers in the place of what is none, by default the ends of the type in that of infinities."""
    value, kind = step.tensor("x"), numpy_type(step.tensor("x"))
    ends = np.finfo(kind)
    given = {"nan": 0.0, "posinf": float(ends.max), "neginf": float(ends.min)}
    numbers = [
        step.constant(name, step.number(name) if step.has(name) else number, kind) for name, number in given.items()
    ]
    nan, highest, lowest = numbers
    value = step.emit("Where", step.emit("IsNaN", value), nan, value)
    value = step.emit("Where", step.emit("IsInf", value, detect_negative=0), highest, value)
    step.finish("Where", step.emit("IsInf", value, detect_positive=0), lowest, value)


def _cumulated_product(step: Step) -> None:
    """Products of all elements up to each one; each of as many steps as the length has bits doubles how far they reach."""
    shape, value = step.shape("x"), step.tensor("x")
    axis = step.axis("axis", len(shape))
    length = shape[axis]
    backwards = step.flag("reverse", False)
    one = step.constant("one", 1, numpy_type(value))
    reach = 1
    if step.flag("exclusive", False):
        value = _moved(step, value, axis, min(1, length), one, backwards=backwards)
    while reach < length:
        value = step.emit("Mul", value, _moved(step, value, axis, reach, one, backwards=backwards))
        reach *= 2
    step.finish("Identity", value)


def _moved(step: Step, value: ir.Value, axis: int, by: int, one: ir.Value, *, backwards: bool) -> ir.Value:
    """The elements of an axis moved towards its end, or ``backwards``; ones come in."""
    pads = [by, -by][:: -1 if backwards else 1]
    return step.emit("Pad", value, step.ints("pads", pads), one, step.ints("axis", [axis]))


def _median(step: Step) -> None:
    """The lower one of two in the middle, and where it is."""
    if step.flag("ignore_nan", False):
        raise ModelError("a median that leaves out what is no number")
    value, rank = step.tensor("x"), step.rank("x")
    keeps = step.flag("keep_dims", False)
    if step.flag("global_median", False):
        value, axis, keeps = step.emit("Reshape", value, step.ints("all", [-1])), 0, False
    else:
        axis = step.axis("axis", rank, 0)
    length = value.shape[axis] if value.shape is not None else None
    if not isinstance(length, int) or length < 1:
        raise ModelError("a median of a number of elements that is known at run time only")
    middle = (length + 1) // 2
    parts = step.emit_many("TopK", (value, step.ints("count", [middle])), 2, axis=axis, largest=0, sorted=1)
    place, gone = step.ints("middle", [middle - 1]), step.ints("axis", [axis])
    found = [step.emit("Gather", part, place, axis=axis) for part in parts]
    if not keeps:
        found = [step.emit("Squeeze", part, gone) for part in found]
    step.give(tuple(found))


KINDS: dict[str, Kind] = {
    "Atan2": Kind(_atan2, "x y", "Atan, Div, Where, Equal, Less, Add, Sub, Sign, Mul"),
    "Hypot": Kind(_hypot, "x y", "Mul, Add, Sqrt"),
    "Xlogy": Kind(_x_log_y, "x y", "Log, Mul, Equal, Where"),
    "NanToNum": Kind(_nan_to_num, "x nan posinf neginf", "IsNaN, IsInf, Where"),
    "CumProd": Kind(_cumulated_product, "x axis exclusive reverse", "Pad, Mul"),
    "Median": Kind(_median, "x", "TopK, Gather, Squeeze", "global_median axis keep_dims ignore_nan"),
}
