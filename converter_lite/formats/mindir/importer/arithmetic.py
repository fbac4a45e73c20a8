"""Arithmetic, comparisons and logic, element by element."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import is_real, numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step, Translate

ROUNDING = ("round", "trunc", "floor", "ceil")
"""In the order of their numbers in newer files."""


def operands(step: Step, first: str = "x", second: str = "y") -> tuple[ir.Value, ir.Value]:
    """Two arguments as tensors of one type; a number takes the type of the other."""
    held = step.get(first), step.get(second)
    if not any(isinstance(part, ir.Value) for part in held):
        raise ModelError("both of its arguments are numbers")
    like = next(part for part in held if isinstance(part, ir.Value))
    return step.as_tensor(held[0], first, like), step.as_tensor(held[1], second, like)


def _binary(name: str) -> Translate:
    def translate(step: Step) -> None:
        step.finish(name, *operands(step))

    return translate


def _unary(name: str) -> Translate:
    def translate(step: Step) -> None:
        step.finish(name, step.tensor("x"))

    return translate


def _scaled(name: str) -> Translate:
    """``x + alpha * y``."""

    def translate(step: Step) -> None:
        first, second = operands(step)
        alpha = step.number("alpha", 1)
        if alpha != 1:
            second = step.emit("Mul", second, step.constant("alpha", alpha, numpy_type(second)))
        step.finish(name, first, second)

    return translate


def _divided(step: Step) -> None:
    """Whole numbers become real ones before."""
    first, second = operands(step)
    if not is_real(first):
        first, second = (step.emit("Cast", value, to=int(ir.DataType.FLOAT)) for value in (first, second))
    step.finish("Div", first, second)


def _floor_div(step: Step) -> None:
    first, second = operands(step)
    if not is_real(first):  # Div rounds towards zero
        step.finish("Div", step.emit("Sub", first, step.emit("Mod", first, second)), second)
        return
    step.finish("Floor", step.emit("Div", first, second))


def _rounded_div(step: Step) -> None:
    """The quotient as it is, or rounded."""
    mode = None if step.get("rounding_mode", None) is None else step.word("rounding_mode", words=ROUNDING)
    if mode is None:
        _divided(step)
    elif mode == "floor":
        _floor_div(step)
    elif mode == "trunc" and is_real(operands(step)[0]):
        quotient = step.emit("Div", *operands(step))
        step.finish("Mul", step.emit("Sign", quotient), step.emit("Floor", step.emit("Abs", quotient)))
    elif mode == "trunc":
        step.finish("Div", *operands(step))
    else:
        raise ModelError(f"rounding_mode '{mode}'")


def _floor_mod(step: Step) -> None:
    """``x - floor(x / y) * y``, with the sign of the divisor."""
    first, second = operands(step)
    if not is_real(first):
        step.finish("Mod", first, second)
        return
    whole = step.emit("Floor", step.emit("Div", first, second))
    step.finish("Sub", first, step.emit("Mul", whole, second))


def _truncated_mod(step: Step) -> None:
    """The sign is that of the dividend."""
    first, second = operands(step)
    step.finish("Mod", first, second, fmod=1)


def _squared_difference(step: Step) -> None:
    difference = step.emit("Sub", *operands(step))
    step.finish("Mul", difference, difference)


def _square(step: Step) -> None:
    step.finish("Mul", step.tensor("x"), step.tensor("x"))


def _rsqrt(step: Step) -> None:
    step.finish("Reciprocal", step.emit("Sqrt", step.tensor("x")))


def _beside_one(name: str, before: bool) -> Translate:
    """``log(1 + x)`` and ``exp(x) - 1``."""

    def translate(step: Step) -> None:
        value = step.tensor("x")
        one = step.constant("one", 1, numpy_type(value))
        if before:
            step.finish(name, step.emit("Add", value, one))
        else:
            step.finish("Sub", step.emit(name, value), one)

    return translate


def _erfc(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Sub", step.constant("one", 1, numpy_type(value)), step.emit("Erf", value))


def _trunc(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Mul", step.emit("Sign", value), step.emit("Floor", step.emit("Abs", value)))


def _round(step: Step) -> None:
    if step.integer("decimals", 0):
        raise ModelError(f"it rounds to {step.integer('decimals')} decimals")
    step.finish("Round", step.tensor("x"))


def _sum(step: Step) -> None:
    step.finish("Sum", *step.tensors("x"))


def _not_equal(step: Step) -> None:
    step.finish("Not", step.emit("Equal", *operands(step)))


def _is_finite(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Not", step.emit("Or", step.emit("IsNaN", value), step.emit("IsInf", value)))


def _select(step: Step) -> None:
    held = step.get("x"), step.get("y")
    like = next((part for part in held if isinstance(part, ir.Value)), None)
    step.finish(
        "Where", step.tensor("condition"), step.as_tensor(held[0], "x", like), step.as_tensor(held[1], "y", like)
    )


def _masked_fill(step: Step) -> None:
    value = step.tensor("x")
    step.finish("Where", step.tensor("mask"), step.tensor("value", value), value)


def _clip(step: Step) -> None:
    """Between two numbers, each of which may be missing."""
    value = step.tensor("x")
    bounds = [step.tensor(name, value) if step.has(name) else None for name in ("min", "max")]
    if all(bound is None or (bound.const_value is not None and bound.const_value.size == 1) for bound in bounds):
        flat = [None if bound is None else _scalar(step, bound) for bound in bounds]
        step.finish("Clip", value, *flat)
        return
    low, high = bounds
    if low is not None:
        value = step.finish("Max", value, low) if high is None else step.emit("Max", value, low)
    if high is not None:
        step.finish("Min", value, high)


def _scalar(step: Step, bound: ir.Value) -> ir.Value:
    assert bound.const_value is not None
    return step.constant("bound", bound.const_value.numpy().reshape(()), numpy_type(bound))


def _hard_tanh(step: Step) -> None:
    value = step.tensor("x")
    bounds = [step.constant(name, step.number(name, end), numpy_type(value)) for name, end in (("min", -1), ("max", 1))]
    step.finish("Clip", value, *bounds)


def _between(step: Step) -> None:
    """``x + weight * (y - x)``."""
    first, second = operands(step)
    part = step.emit("Mul", step.emit("Sub", second, first), step.as_tensor(step.get("weight"), "weight", first))
    step.finish("Add", first, part)


def _addcmul(step: Step) -> None:
    """``input + value * x1 * x2``, or divided by it."""
    value = step.tensor("input")
    product = step.emit(
        "Div" if step.operator == "Addcdiv" else "Mul", step.tensor("x1", value), step.tensor("x2", value)
    )
    step.finish("Add", value, step.emit("Mul", product, step.tensor("value", value)))


def _cast(step: Step) -> None:
    held, to = step.get("x"), step.element("dst_type")
    if isinstance(held, int | float):
        step.give(step.constant("number", held, to.numpy()))
        return
    value = step.tensor("x")
    if value.dtype == to:
        step.give(value)
    else:
        step.finish("Cast", value, to=int(to))


def _filled(number: float) -> Translate:
    """As many equal numbers as another tensor has elements."""

    def translate(step: Step) -> None:
        value = step.tensor("x")
        kind = step.element("dtype").numpy() if step.has("dtype") else numpy_type(value)
        give_filled(step, value, np.asarray(number, kind))

    return translate


def _full_like(step: Step) -> None:
    value = step.tensor("x")
    kind = step.element("dtype").numpy() if step.has("dtype") else numpy_type(value)
    give_filled(step, value, np.asarray(step.number("fill_value"), kind))


def give_filled(step: Step, like: ir.Value, number: np.ndarray[tuple[()], np.dtype[np.generic]]) -> None:
    """A constant of another value's shape, or the same at run time."""
    shape = g.static_shape(like)
    if shape is not None:
        step.importer.take(int(np.prod(shape)))
        step.give(step.constant("filled", np.full(shape, number), number.dtype))
    else:
        step.finish("Expand", step.constant("number", number, number.dtype), step.emit("Shape", like))


_TWO = "x y"

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("Add", "TensorAdd"), Kind(_binary("Add"), _TWO, "Add")),
    **dict.fromkeys(("Sub", "Subs"), Kind(_binary("Sub"), _TWO, "Sub")),
    **dict.fromkeys(("Mul", "Muls"), Kind(_binary("Mul"), _TWO, "Mul")),
    **dict.fromkeys(("Div", "RealDiv", "Divs"), Kind(_divided, _TWO, "Div, Cast")),
    **dict.fromkeys(("AddExt", "AddScalar"), Kind(_scaled("Add"), "x y alpha", "Add, Mul")),
    **dict.fromkeys(("SubExt", "SubScalar"), Kind(_scaled("Sub"), "x y alpha", "Sub, Mul")),
    **dict.fromkeys(
        ("DivMod", "DivMods"), Kind(_rounded_div, "x y rounding_mode", "Div, Sign, Abs, Floor, Mul; Cast; Mod, Sub")
    ),
    "FloorDiv": Kind(_floor_div, _TWO, "Div, Floor; Mod, Sub, Div"),
    **dict.fromkeys(
        ("FloorMod", "RemainderTensorTensor", "RemainderTensorScalar", "RemainderScalarTensor"),
        Kind(_floor_mod, _TWO, "Mod; Div, Floor, Mul, Sub"),
    ),
    "Mod": Kind(_truncated_mod, _TWO, "Mod"),
    **dict.fromkeys(("Pow", "PowTensorScalar", "PowScalarTensor"), Kind(_binary("Pow"), _TWO, "Pow")),
    "Maximum": Kind(_binary("Max"), _TWO, "Max"),
    "Minimum": Kind(_binary("Min"), _TWO, "Min"),
    "SquaredDifference": Kind(_squared_difference, _TWO, "Sub, Mul"),
    **dict.fromkeys(("AddN", "AccumulateNV2"), Kind(_sum, "x", "Sum")),
    "Lerp": Kind(_between, "x y weight", "Sub, Mul, Add"),
    "Addcmul": Kind(_addcmul, "input x1 x2 value", "Mul, Add"),
    "Addcdiv": Kind(_addcmul, "input x1 x2 value", "Div, Mul, Add"),
    **{
        name: Kind(_unary(onnx_name), "x", onnx_name)
        for name, onnx_name in (
            *((name, name) for name in ("Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sign", "Floor", "Ceil")),
            *((name, name) for name in ("Sin", "Cos", "Tan", "Asin", "Atan", "Sinh", "Cosh", "Asinh", "Acosh")),
            *((name, name) for name in ("Atanh", "Erf")),
            *(("Inv", "Reciprocal"), ("ACos", "Acos"), ("Rint", "Round")),
            *(("LogicalNot", "Not"), ("IsNan", "IsNaN"), ("IsInf", "IsInf")),
        )
    },
    "Square": Kind(_square, "x", "Mul"),
    "Rsqrt": Kind(_rsqrt, "x", "Sqrt, Reciprocal"),
    "Log1p": Kind(_beside_one("Log", True), "x", "Add, Log"),
    "Expm1": Kind(_beside_one("Exp", False), "x", "Exp, Sub"),
    "Erfc": Kind(_erfc, "x", "Erf, Sub"),
    "Trunc": Kind(_trunc, "x", "Abs, Floor, Sign, Mul"),
    "Round": Kind(_round, "x decimals", "Round"),
    "Equal": Kind(_binary("Equal"), _TWO, "Equal"),
    "NotEqual": Kind(_not_equal, _TWO, "Equal, Not"),
    "Greater": Kind(_binary("Greater"), _TWO, "Greater"),
    "GreaterEqual": Kind(_binary("GreaterOrEqual"), _TWO, "GreaterOrEqual"),
    "Less": Kind(_binary("Less"), _TWO, "Less"),
    "LessEqual": Kind(_binary("LessOrEqual"), _TWO, "LessOrEqual"),
    "LogicalAnd": Kind(_binary("And"), _TWO, "And"),
    "LogicalOr": Kind(_binary("Or"), _TWO, "Or"),
    "LogicalXor": Kind(_binary("Xor"), _TWO, "Xor"),
    **{name: Kind(_binary(name), _TWO, name) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "IsFinite": Kind(_is_finite, "x", "IsNaN, IsInf, Or, Not"),
    **dict.fromkeys(("Select", "SelectV2"), Kind(_select, "condition x y", "Where")),
    **dict.fromkeys(("MaskedFill", "MaskedFillScalar"), Kind(_masked_fill, "x mask value", "Where")),
    **dict.fromkeys(("ClampScalar", "ClampTensor"), Kind(_clip, "x min max", "Clip, Max, Min")),
    "Hardtanh": Kind(_hard_tanh, "x min max", "Clip"),
    "Cast": Kind(_cast, "x dst_type", "Cast, or nothing"),
    "ZerosLike": Kind(_filled(0), "x", "Shape, Expand, or a constant"),
    "OnesLike": Kind(_filled(1), "x", "Shape, Expand, or a constant"),
    "ZerosLikeExt": Kind(_filled(0), "x dtype device", "Shape, Expand, or a constant"),
    "OnesLikeExt": Kind(_filled(1), "x dtype device", "Shape, Expand, or a constant"),
    "FullLike": Kind(_full_like, "x fill_value dtype", "Shape, Expand, or a constant"),
}
