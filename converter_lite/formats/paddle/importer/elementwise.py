"""Arithmetic, comparison and logic of two tensors; sums; where; casts and conversions of precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, affine, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, output, step_names
from converter_lite.formats.paddle.program import Operator, numpy_type

ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "max": "Max", "min": "Min", "pow": "Pow"}
COMPARISON = {
    "equal": "Equal",
    "less_than": "Less",
    "less_equal": "LessOrEqual",
    "greater_than": "Greater",
    "greater_equal": "GreaterOrEqual",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
}
FLOATS = (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16)
LOGICAL = ("logical_and", "logical_or", "logical_xor")


def aligned(importer: Importer, left: ir.Value, right: ir.Value, axis: int) -> ir.Value:
    """``right`` with its first dimension at ``axis`` of ``left``, for NumPy broadcasting."""
    if axis < 0:
        return right
    shape = list(importer.shape(right) or ())
    while importer.rank(left) - axis < len(shape) and shape[-1] == 1:  # sizes of 1 at the end do not count
        shape.pop()
    if 0 < len(shape) < importer.rank(right) and min(shape) > 0:
        right = importer.compute("Reshape", right, importer.add_constant("shape", shape))
    missing = importer.rank(left) - axis - importer.rank(right)
    if missing <= 0:
        return right
    axes = list(range(importer.rank(right), importer.rank(right) + missing))
    return importer.compute("Unsqueeze", right, importer.add_constant("axes", axes))


def _arithmetic(importer: Importer, op: Operator) -> None:
    kind = op.type.removeprefix("fusion_").removeprefix("elementwise_").removesuffix("_activation")
    left, right = importer.value(op.input("X")), importer.value(op.input("Y"))
    name = output(op)
    right = aligned(importer, left, right, int(op.get("axis", -1)))
    function = str(op.get("act_type", ""))
    names = step_names(name, function not in NO_FUNCTION)
    value = importer.node(ARITHMETIC[kind], [left, right], names=[next(names)])[0]
    if function not in NO_FUNCTION:
        value = fused(importer, op, value, function, next(names))
    if op.get("fuse_scale"):
        value = affine(importer, value, op.get("scale", 1.0), op.get("bias", 0.0), after=True)
    importer.bind(name, value)


def _operands(importer: Importer, op: Operator) -> tuple[ir.Value, ir.Value]:
    left, right = importer.value(op.input("X")), importer.value(op.input("Y"))
    return left, aligned(importer, left, right, int(op.get("axis", -1)))


def _modulo(importer: Importer, op: Operator) -> None:
    """The quotient is rounded down, and the rest has the sign of the divisor, for floats and integers alike."""
    left, right = _operands(importer, op)
    if left.dtype in FLOATS:
        quotient = importer.compute("Div", left, right)
        if op.type == "elementwise_floordiv":
            importer.finish(output(op), "Floor", quotient)
            return
        whole = importer.compute("Mul", importer.compute("Floor", quotient), right)
        importer.finish(output(op), "Sub", left, whole)
    elif op.type == "elementwise_mod":
        importer.finish(output(op), "Mod", left, right)
    else:
        rest = importer.compute("Mod", left, right)
        importer.finish(output(op), "Div", importer.compute("Sub", left, rest), right)


def _extreme(importer: Importer, op: Operator) -> None:
    """Of a number and NaN, fmax and fmin take the number."""
    left, right = _operands(importer, op)
    chosen = importer.compute("Max" if op.type.endswith("fmax") else "Min", left, right)
    if left.dtype in FLOATS:
        chosen = importer.compute("Where", importer.compute("IsNaN", right), left, chosen)
        importer.finish(output(op), "Where", importer.compute("IsNaN", left), right, chosen)
    else:
        importer.bind(output(op), chosen)


def _heaviside(importer: Importer, op: Operator) -> None:
    left, right = _operands(importer, op)
    zero = importer.add_constant("zero", 0, left.dtype.numpy().type if left.dtype is not None else np.float32)
    step = importer.compute("Cast", importer.compute("Greater", left, zero), to=int(left.dtype or ir.DataType.FLOAT))
    importer.finish(output(op), "Where", importer.compute("Equal", left, zero), right, step)


def _bits(importer: Importer, op: Operator) -> None:
    left, right = _operands(importer, op)
    kind = op.type.removeprefix("bitwise_").capitalize()
    importer.finish(output(op), kind if left.dtype == ir.DataType.BOOL else f"Bitwise{kind}", left, right)


def _logical(importer: Importer, op: Operator) -> None:
    """Numbers count as true unless they are 0."""
    sides = [
        side if side.dtype == ir.DataType.BOOL else importer.compute("Cast", side, to=int(ir.DataType.BOOL))
        for side in _operands(importer, op)
    ]
    importer.finish(output(op), COMPARISON[op.type], *sides)


def _equal_all(importer: Importer, op: Operator) -> None:
    same = importer.compute("Cast", importer.compute("Equal", *_operands(importer, op)), to=int(ir.DataType.INT32))
    least = importer.compute("ReduceMin", same, keepdims=0)
    importer.finish(output(op), "Cast", least, to=int(ir.DataType.BOOL))


def _lerp(importer: Importer, op: Operator) -> None:
    start, end, weight = (importer.value(op.input(slot)) for slot in ("X", "Y", "Weight"))
    part = importer.compute("Mul", weight, importer.compute("Sub", end, start))
    importer.finish(output(op), "Add", start, part)


def _masked_fill(importer: Importer, op: Operator) -> None:
    value, mask, filling = (importer.value(op.input(slot)) for slot in ("X", "Mask", "Value"))
    importer.finish(output(op), "Where", mask, filling, value)


def _compare(importer: Importer, op: Operator) -> None:
    left, right = _operands(importer, op)
    if op.type == "not_equal":
        importer.finish(output(op), "Not", importer.compute("Equal", left, right))
    else:
        importer.finish(output(op), COMPARISON[op.type], left, right)


def _where(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Where", *(importer.value(op.input(slot)) for slot in ("Condition", "X", "Y")))


def _sum(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Sum", *(importer.value(name) for name in op.inputs.get("X", ())))


def _cast(importer: Importer, op: Operator) -> None:
    dtype = ir.DataType.from_numpy(numpy_type(int(op.get("out_dtype", 5))))
    importer.finish(output(op), "Cast", importer.value(op.input("X")), to=int(dtype))


def _calib(importer: Importer, op: Operator) -> None:
    """A border between precisions. Between float and int8 it belongs to the plan; integers are cast."""
    value = importer.value(op.input("Input"))
    alias = str(op.get("__@kernel_type_attr@__", "calib/fp32_to_int8")).split("/")[1]
    source, _, to = alias.partition("_to_")
    if "int8" in (source, to):
        importer.bind(output(op), importer.on_grid(value, float(op.get("scale", 0.0))))
    elif "fp16" in (source, to):
        importer.bind(output(op), value)
    else:
        kinds = {"fp32": np.float32, "int32": np.int32, "int64": np.int64}
        dtype = ir.DataType.from_numpy(np.dtype(kinds[to]))
        importer.finish(output(op), "Cast", value, to=int(dtype))


def _same(importer: Importer, op: Operator) -> None:
    """Operators that copy: another name for the same value."""
    importer.bind(output(op), importer.value(op.input("X") or op.input("Input")))


HANDLERS: dict[str, Handler] = {
    **{f"elementwise_{kind}": _arithmetic for kind in ARITHMETIC},
    **{f"fusion_elementwise_{kind}_activation": _arithmetic for kind in ARITHMETIC if kind != "pow"},
    **dict.fromkeys(("elementwise_mod", "elementwise_floordiv"), _modulo),
    **dict.fromkeys(("elementwise_fmax", "elementwise_fmin"), _extreme),
    **dict.fromkeys(("heaviside", "elementwise_heaviside"), _heaviside),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _bits),
    **dict.fromkeys((*(COMPARISON.keys() - set(LOGICAL)), "not_equal"), _compare),
    **dict.fromkeys(LOGICAL, _logical),
    "equal_all": _equal_all,
    "lerp": _lerp,
    "masked_fill": _masked_fill,
    "where": _where,
    "sum": _sum,
    "cast": _cast,
    **dict.fromkeys(("calib", "calib_once"), _calib),
    **dict.fromkeys(("assign", "share_data", "io_copy", "io_copy_once"), _same),
}
