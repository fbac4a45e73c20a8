"""Reductions, places of extremes, sums along an axis."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import is_real, numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step, Translate


def _reduced(name: str) -> Translate:
    """Over some axes; over all of them where none are named."""

    def translate(step: Step) -> None:
        value = _converted(step, step.tensor("x"))
        rank = step.rank("x")
        if step.flag("skip_mode", False) and not step.axes("axis", rank):
            step.give(value)
            return
        axes = step.axes("axis", rank) or list(range(rank))
        if len(set(axes)) != len(axes):
            raise ModelError(f"it names an axis twice: {axes}")
        step.finish(name, value, step.ints("axes", axes), keepdims=int(step.flag("keep_dims", False)))

    return translate


def _converted(step: Step, value: ir.Value) -> ir.Value:
    """Summed in the type that the node names; whole numbers and truth values as int64 where it names none."""
    if step.has("dtype"):
        to = step.element("dtype")
    elif step.operator in ("SumExt", "ProdExt") and not is_real(value):
        to = ir.DataType.INT64
    else:
        return value
    return step.converted(value, to)


def _logical(name: str) -> Translate:
    """Whether all, or any, of the truth values along some axes are true."""

    def translate(step: Step) -> None:
        rank = step.rank("x")
        axes = step.ints("axes", step.axes("axis", rank) or list(range(rank)))
        numbers = step.emit("Cast", step.tensor("x"), to=int(ir.DataType.INT32))
        found = step.emit(name, numbers, axes, keepdims=int(step.flag("keep_dims", False)))
        step.finish("Cast", found, to=int(ir.DataType.BOOL))

    return translate


def _place(name: str) -> Translate:
    """The first place of the extreme along an axis."""

    def translate(step: Step) -> None:
        value = step.tensor("x")
        keeps = int(step.flag("keep_dims", False))
        if not step.has("axis"):
            value, axis, keeps = step.emit("Reshape", value, step.ints("flat", [-1])), 0, 0
        else:
            axis = step.axis("axis", step.rank("x"), -1)
        kind = step.element("output_type") if step.has("output_type") else ir.DataType.INT64
        if step.operator in ("Argmax", "Argmin") and not step.has("output_type"):
            kind = ir.DataType.INT32
        if kind == ir.DataType.INT64:
            step.finish(name, value, axis=axis, keepdims=keeps)
        else:
            step.finish("Cast", step.emit(name, value, axis=axis, keepdims=keeps), to=int(kind))

    return translate


def _place_and_value(place: str, extreme: str) -> Translate:
    """A pair: places and extremes, or the other way round in ``mindspore.mint``."""

    def translate(step: Step) -> None:
        value = step.tensor("x")
        axis, keeps = step.axis("axis", step.rank("x"), 0), int(step.flag("keep_dims", False))
        places = step.emit(place, value, axis=axis, keepdims=keeps)
        values = step.emit(extreme, value, step.ints("axes", [axis]), keepdims=keeps)
        if step.operator in ("MaxDim", "MinDim"):
            step.give((values, places))
        else:
            step.give((step.converted(places, step.declared_element(0)), values))

    return translate


def _top(step: Step) -> None:
    value, rank = step.tensor("x"), step.rank("x")
    axis, count = step.axis("axis", rank, -1), step.ints("count", [step.integer("k")])
    largest = int(step.flag("largest", True))
    values, places = step.emit_many("TopK", [value, count], 2, axis=axis, largest=largest, sorted=1)
    step.give((values, step.converted(places, step.declared_element(1))))


def _sort(step: Step) -> None:
    """All of the largest, or smallest, numbers along an axis, with their places."""
    value, rank = step.tensor("x"), step.rank("x")
    axis = step.axis("axis", rank, -1)
    count = step.ints("count", [step.shape("x")[axis]])
    largest = int(step.flag("descending", False))
    values, places = step.emit_many("TopK", [value, count], 2, axis=axis, largest=largest, sorted=1)
    step.give((values, step.converted(places, step.declared_element(1))))


def _running_sum(step: Step) -> None:
    value = step.tensor("x")
    if step.has("dtype"):
        value = step.converted(value, step.element("dtype"))
    axis = step.ints("axis", step.axis("axis", step.rank("x")))
    flags = {name: int(step.flag(name, False)) for name in ("exclusive", "reverse")}
    step.finish("CumSum", value, axis, **flags)


def _spread(step: Step) -> None:
    """Variance or deviation with a correction of the count."""
    value, rank = step.tensor("x"), step.rank("x")
    axes = step.axes("axis", rank) or list(range(rank))
    count, keeps = int(np.prod([step.shape("x")[axis] for axis in axes])), int(step.flag("keep_dims", False))
    if step.operator == "ReduceStd":
        correction = int(step.flag("unbiased", True))
    else:
        correction = step.integer("correction", 1)
    if count <= correction:
        raise ModelError(f"the deviation of {count} numbers with a correction of {correction}")
    mean = step.emit("ReduceMean", value, step.ints("axes", axes), keepdims=1)
    centred = step.emit("Sub", value, mean)
    squares = step.emit("ReduceSum", step.emit("Mul", centred, centred), step.ints("axes", axes), keepdims=keeps)
    divisor = step.constant("count", count - correction, numpy_type(value))
    if step.operator == "Var":
        step.finish("Div", squares, divisor)
        return
    deviation = step.emit("Sqrt", step.emit("Div", squares, divisor))
    if step.operator == "ReduceStd":
        flat = mean if keeps else step.emit("Squeeze", mean, step.ints("axes", axes))
        step.give((deviation, flat))
    else:
        step.finish("Identity", deviation)


def _norm(step: Step) -> None:
    """The norm of order 1 or 2, which may have a least value."""
    value, rank = step.tensor("x"), step.rank("x")
    order, keeps = step.number("p", 2), int(step.flag("keep_dims", False))
    if order not in (1, 2):
        raise ModelError(f"a norm of order {order:g}")
    axes = step.ints("axes", step.axes("axis", rank, None) or list(range(rank)))
    least = step.number("epsilon", 0)
    if not least:
        step.finish(f"ReduceL{order:.0f}", value, axes, keepdims=keeps)
        return
    norm = step.emit(f"ReduceL{order:.0f}", value, axes, keepdims=keeps)
    step.finish("Max", norm, step.constant("epsilon", least, numpy_type(value)))


_OLD = "x axis keep_dims"
_NEW = "x axis keep_dims dtype"
_INDEX = "x axis output_type"

KINDS: dict[str, Kind] = {
    "ReduceMean": Kind(_reduced("ReduceMean"), _OLD, "ReduceMean"),
    "ReduceSum": Kind(_reduced("ReduceSum"), f"{_OLD} skip_mode", "ReduceSum"),
    "ReduceMax": Kind(_reduced("ReduceMax"), _OLD, "ReduceMax"),
    "ReduceMin": Kind(_reduced("ReduceMin"), _OLD, "ReduceMin"),
    "ReduceProd": Kind(_reduced("ReduceProd"), _OLD, "ReduceProd"),
    "MeanExt": Kind(_reduced("ReduceMean"), _NEW, "ReduceMean, Cast"),
    "SumExt": Kind(_reduced("ReduceSum"), _NEW, "ReduceSum, Cast"),
    "ProdExt": Kind(_reduced("ReduceProd"), _NEW, "ReduceProd, Cast"),
    "Max": Kind(_reduced("ReduceMax"), "x", "ReduceMax"),
    "Min": Kind(_reduced("ReduceMin"), "x", "ReduceMin"),
    "ReduceAll": Kind(_logical("ReduceMin"), _OLD, "Cast, ReduceMin"),
    "ReduceAny": Kind(_logical("ReduceMax"), _OLD, "Cast, ReduceMax"),
    "Argmax": Kind(_place("ArgMax"), _INDEX, "ArgMax, Cast"),
    "Argmin": Kind(_place("ArgMin"), _INDEX, "ArgMin, Cast"),
    "ArgMaxExt": Kind(_place("ArgMax"), _OLD, "ArgMax, Reshape"),
    "ArgMinExt": Kind(_place("ArgMin"), _OLD, "ArgMin, Reshape"),
    **dict.fromkeys(
        ("ArgMaxWithValue", "MaxDim"), Kind(_place_and_value("ArgMax", "ReduceMax"), _OLD, "ArgMax, ReduceMax, Cast")
    ),
    **dict.fromkeys(
        ("ArgMinWithValue", "MinDim"), Kind(_place_and_value("ArgMin", "ReduceMin"), _OLD, "ArgMin, ReduceMin, Cast")
    ),
    "TopK": Kind(_top, "x k", "TopK, Cast"),
    "TopkExt": Kind(_top, "x k axis largest sorted", "TopK, Cast"),
    "Sort": Kind(_sort, "x axis descending", "TopK, Cast"),
    "SortExt": Kind(_sort, "x axis descending stable", "TopK, Cast"),
    "CumSum": Kind(_running_sum, "x axis exclusive reverse", "CumSum"),
    "CumsumExt": Kind(_running_sum, "x axis dtype", "CumSum, Cast"),
    **dict.fromkeys(
        ("Var", "Std"), Kind(_spread, "x axis correction keep_dims", "ReduceMean, Sub, Mul, ReduceSum, Div, Sqrt")
    ),
    "ReduceStd": Kind(_spread, "x axis unbiased keep_dims", "ReduceMean, Sub, Mul, ReduceSum, Div, Sqrt, Squeeze"),
    "Norm": Kind(_norm, "x p axis keep_dims dtype", "ReduceL1, ReduceL2"),
    "LpNorm": Kind(_norm, "x", "ReduceL1, ReduceL2, Max", "axis p keep_dims epsilon"),
}
