"""Arithmetic, comparison and logic of two tensors; sums; where; casts and conversions of precision."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, affine, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, step_names
from converter_lite.formats.paddle.importer.filled import check_filled, filled
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


def output(op: Operator, slot: str = "Out") -> str:
    """Name of an operator's output.

    Raises:
        ModelError: It has none.
    """
    name = op.output(slot)
    if name is None:
        raise ModelError("it has no output")
    return name


def aligned(importer: Importer, left: ir.Value, right: ir.Value, axis: int) -> ir.Value:
    """``right`` with its first dimension at ``axis`` of ``left``, for NumPy broadcasting."""
    if axis < 0:
        return right
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


def _modulo(importer: Importer, op: Operator) -> None:
    left, right = importer.value(op.input("X")), importer.value(op.input("Y"))
    right = aligned(importer, left, right, int(op.get("axis", -1)))
    importer.finish(output(op), "Mod" if op.type.endswith("mod") else "Div", left, right)


def _compare(importer: Importer, op: Operator) -> None:
    left, right = importer.value(op.input("X")), importer.value(op.input("Y"))
    right = aligned(importer, left, right, int(op.get("axis", -1)))
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
        importer.activation(value, float(op.get("scale", 0.0)))
        importer.bind(output(op), value)
    elif "fp16" in (source, to):
        importer.bind(output(op), value)
    else:
        kinds = {"fp32": np.float32, "int32": np.int32, "int64": np.int64}
        dtype = ir.DataType.from_numpy(np.dtype(kinds[to]))
        importer.finish(output(op), "Cast", value, to=int(dtype))


def _same(importer: Importer, op: Operator) -> None:
    """Operators that copy: another name for the same value."""
    importer.bind(output(op), importer.value(op.input("X") or op.input("Input")))


def _fill_constant(importer: Importer, op: Operator) -> None:
    dtype = numpy_type(int(op.get("dtype", 5)))
    shape = [int(size) for size in op.get("shape", (1,))]
    if op.type == "fill_constant":
        array = filled(importer, shape, op.get("value", 0.0), dtype)
    else:
        check_filled(importer, shape)
        keys = ("fp32_values", "int32_values", "int64_values", "bool_values")
        values = next((op.get(key) for key in keys if op.get(key)), ())
        array = np.asarray(values, dtype).reshape(shape)
    importer.bind(output(op), importer.initializer(output(op), array))


HANDLERS: dict[str, Handler] = {
    **{f"elementwise_{kind}": _arithmetic for kind in ARITHMETIC},
    **{f"fusion_elementwise_{kind}_activation": _arithmetic for kind in ARITHMETIC if kind != "pow"},
    **dict.fromkeys(("elementwise_mod", "elementwise_floordiv"), _modulo),
    **dict.fromkeys((*COMPARISON, "not_equal"), _compare),
    "where": _where,
    "sum": _sum,
    "cast": _cast,
    **dict.fromkeys(("calib", "calib_once"), _calib),
    **dict.fromkeys(("assign", "dropout", "share_data", "io_copy", "io_copy_once"), _same),
    **dict.fromkeys(("assign_value", "fill_constant"), _fill_constant),
}
