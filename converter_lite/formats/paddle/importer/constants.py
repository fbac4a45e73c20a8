"""Constants that a program describes: filled with one number, listed, or counted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled, filled, is_large
from converter_lite.formats.paddle.importer.sizes import constant_number, known, like, scalar, sizes, vector
from converter_lite.formats.paddle.program import Operator, numpy_type

LISTS = ("values", "fp32_values", "int32_values", "int64_values", "bool_values", "fp64_values")
"""Attributes of assign_value; the one that is not empty holds the numbers."""


def _number(op: Operator, dtype: np.dtype[Any]) -> float:
    """The number of fill_constant; as text it has all its digits."""
    text = str(op.get("str_value", ""))
    if text:
        return int(text) if dtype.kind in "iu" and text.lstrip("-").isdigit() else float(text)
    return float(op.get("value", 0.0)) if dtype.kind == "f" else op.get("value", 0)


def _fill_constant(importer: Importer, op: Operator) -> None:
    dtype, name = numpy_type(int(op.get("dtype", 5))), output(op)
    shape = [name for slot in ("ShapeTensor", "ShapeTensorList") for name in op.inputs.get(slot, ())]
    given = op.input("ValueTensor")
    sizes_of = [int(size) for size in op.get("shape", (1,))]
    if not shape and given is None and not is_large(sizes_of):
        importer.bind(name, importer.initializer(name, filled(importer, sizes_of, _number(op, dtype), dtype)))
        return
    target = vector(importer, shape) if shape else importer.add_constant("shape", sizes_of)
    if given is None:
        number = importer.add_constant("number", _number(op, dtype), dtype.type)
    else:
        number = scalar(importer, importer.value(given))
    importer.finish(name, "Expand", number, target)


def _assign_value(importer: Importer, op: Operator) -> None:
    dtype = numpy_type(int(op.get("dtype", 5)))
    shape = [int(size) for size in op.get("shape", (1,))]
    check_filled(importer, shape)
    values = next((op.get(key) for key in LISTS if op.get(key)), ())
    importer.bind(output(op), importer.initializer(output(op), np.asarray(values, dtype).reshape(shape)))


def _fill_like(importer: Importer, op: Operator) -> None:
    value, name, kind = importer.value(op.input("X")), output(op), int(op.get("dtype", -1))
    dtype = numpy_type(kind) if kind >= 0 else np.dtype(value.dtype.numpy() if value.dtype is not None else np.float32)
    given = op.input("ValueTensor")
    number = importer.add_constant("number", float(op.get("value", 0.0)), dtype.type)
    if given is not None:
        number = importer.compute(
            "Cast", scalar(importer, importer.value(given)), to=int(ir.DataType.from_numpy(dtype))
        )
    importer.finish(name, "Expand", number, sizes(importer, value))


def _fill_batch_like(importer: Importer, op: Operator) -> None:
    value, dtype = importer.value(op.input("Input")), numpy_type(int(op.get("dtype", 5)))
    source, target = int(op.get("input_dim_idx", 0)), int(op.get("output_dim_idx", 0))
    shape = [int(size) for size in op.get("shape", ())]
    batch = sizes(importer, value, source, source + 1)
    parts = [importer.add_constant("shape", part) for part in (shape[:target], shape[target + 1 :])]
    whole = importer.compute("Concat", parts[0], batch, parts[1], axis=0)
    number = importer.add_constant("number", _number(op, dtype), dtype.type)
    importer.finish(output(op), "Expand", number, whole)


def _range(importer: Importer, op: Operator) -> None:
    """Constant bounds give a constant: the runtime's operator would have to compute it each time."""
    names = [op.input(slot) for slot in ("Start", "End", "Step")]
    arrays = [importer.array(name) for name in names]
    kind = int(op.get("dtype", -1))
    if any(array is None for array in arrays):
        ends = [scalar(importer, importer.value(name)) for name in names]
        common = ir.DataType.from_numpy(numpy_type(kind)) if kind >= 0 else ends[0].dtype
        same = [end if end.dtype == common else importer.compute("Cast", end, to=int(common or 1)) for end in ends]
        importer.finish(output(op), "Range", *same)
        return
    start, end, step = (array.reshape(-1)[0] for array in arrays if array is not None)
    dtype = numpy_type(kind) if kind >= 0 else np.dtype(type(start))
    if step == 0 or not all(math.isfinite(float(number)) for number in (start, end, step)):
        raise ModelError(f"a range from {start} to {end} in steps of {step}")
    count = max(math.ceil(_quotient(start, end, step, dtype)), 0)
    importer.filled_left -= check_filled(importer, [count])
    importer.bind(output(op), importer.initializer(output(op), _steps(start, step, count, dtype)))


def _quotient(start: Any, end: Any, step: Any, dtype: np.dtype[Any]) -> float:
    """How many steps lie between both ends, floats in the precision of the runtime: (0.3 - 0) / 0.1 is 3 in float32."""
    if dtype.kind != "f":
        return (float(end) - float(start)) / float(step)
    return float(dtype.type(dtype.type(end) - dtype.type(start)) / dtype.type(step))


def _steps(start: Any, step: Any, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """``start``, ``start + step``, … in the precision of the runtime."""
    return (dtype.type(start) + np.arange(count).astype(dtype) * dtype.type(step)).astype(dtype)


def _linspace(importer: Importer, op: Operator) -> None:
    arrays = [importer.array(op.input(slot)) for slot in ("Start", "Stop")]
    if any(array is None for array in arrays):
        raise ModelError("its bounds are computed at run time")
    start, stop = (array.reshape(-1)[0] for array in arrays if array is not None)
    dtype, count = numpy_type(int(op.get("dtype", 5))), constant_number(importer, op, "number", "Num", 1)
    importer.filled_left -= check_filled(importer, [count])
    if count < 1:
        raise ModelError(f"{count} numbers between {start} and {stop}")
    step = (float(stop) - float(start)) / max(count - 1, 1)
    places = np.arange(count)
    from_start, from_end = float(start) + places * step, float(stop) - (count - 1 - places) * step
    values = np.where(places < count / 2, from_start, from_end) if count > 1 else np.full(1, float(start))
    importer.bind(output(op), importer.initializer(output(op), values.astype(dtype)))


def _eye(importer: Importer, op: Operator) -> None:
    rows, columns = int(op.get("num_rows", 1)), int(op.get("num_columns", -1))
    columns = rows if columns < 0 else columns
    importer.filled_left -= check_filled(importer, [rows, columns])
    array = np.eye(rows, columns, dtype=numpy_type(int(op.get("dtype", 5))))
    importer.bind(output(op), importer.initializer(output(op), array))


def _diagonal(importer: Importer, op: Operator) -> None:
    """The matrix with a vector on a diagonal, or the vector on a diagonal of a matrix."""
    value, shift = importer.value(op.input("X")), int(op.get("offset", 0))
    shape = known(importer, value)
    if -1 in shape or len(shape) not in (1, 2):
        raise ModelError("a diagonal of unknown size")
    if len(shape) == 2:
        places = np.argwhere(np.eye(shape[0], shape[1], k=shift, dtype=bool))
        importer.finish(output(op), "GatherND", value, importer.add_constant("places", places))
        return
    count = shape[0] + abs(shift)
    importer.filled_left -= check_filled(importer, [count, count])
    pads = importer.add_constant("pads", [max(shift, 0), max(-shift, 0)])
    row = importer.compute("Pad", value, pads, like(importer, value, 0)) if shift else value
    diagonal = importer.initializer("diagonal", np.eye(count, k=shift, dtype=bool))
    importer.finish(output(op), "Where", diagonal, row, like(importer, value, float(op.get("padding_value", 0.0))))


HANDLERS: dict[str, Handler] = {
    "fill_constant": _fill_constant,
    "assign_value": _assign_value,
    "fill_any_like": _fill_like,
    "fill_constant_batch_size_like": _fill_batch_like,
    "range": _range,
    "linspace": _linspace,
    "eye": _eye,
    "diag_v2": _diagonal,
}
