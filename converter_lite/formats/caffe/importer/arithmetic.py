"""Eltwise, Axpy, Reduction, ArgMax.

Source: ``eltwise_layer.cpp``, ``reduction_layer.cpp``, ``argmax_layer.cpp`` of BVLC/caffe.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.graph_builder import shape_of

OPERATIONS = {"PROD": "Mul", "SUM": "Add", "MAX": "Max"}


def _eltwise(step: Step) -> None:
    operation = step.parameters.word("operation", "SUM", tuple(OPERATIONS))
    count, factors = len(step.layer.bottoms), step.parameters.numbers("coeff")
    if any(step.shape(index) != step.shape() for index in range(count)):
        shapes = ", ".join(str(list(step.shape(index))) for index in range(count))
        raise ModelError(f"its bottoms have different shapes: {shapes}")
    if factors and (operation != "SUM" or len(factors) != count):
        raise ModelError(f"{len(factors)} coefficients for {count} bottoms and the operation {operation}")
    values = [step.input(index) for index in range(count)]
    if count == 2 and factors == [1.0, -1.0]:
        step.finish("Sub", *values)
        return
    values = [_times(step, value, factor) for value, factor in zip(values, factors or [1.0] * count, strict=True)]
    result = values[0]
    for value in values[1:-1]:
        result = step.emit(OPERATIONS[operation], result, value)
    step.finish(OPERATIONS[operation], result, values[-1])


def _times(step: Step, value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1.0 else step.emit("Mul", value, step.constant("coeff", factor))


def _axpy(step: Step) -> None:
    """``a * x + y`` with a factor for each channel, of squeeze-and-excitation networks."""
    factor, shape = step.input(), step.shape(1)
    if step.shape()[:2] != shape[:2] or any(size != 1 for size in step.shape()[2:]) or step.shape(2) != shape:
        raise ModelError(f"factors {list(step.shape())} for {list(shape)} and {list(step.shape(2))}")
    if len(step.shape()) != len(shape):
        target = (*shape[:2], *(1,) * (len(shape) - 2))
        factor = step.emit("Reshape", factor, step.constant("shape", target, np.int64))
    step.finish("Add", step.emit("Mul", step.input(1), factor), step.input(2))


REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


def _reduction(step: Step) -> None:
    """Over the layer's axis and all behind it."""
    words = {name: number for number, name in enumerate(REDUCTIONS, 1)}
    operator = REDUCTIONS[step.parameters.word("operation", "SUM", words)]
    axis, factor = step.axis("axis", 0), step.parameters.number("coeff", 1.0)
    operands = step.input(), step.constant("axes", range(axis, len(step.shape())), np.int64)
    if factor == 1.0:
        step.finish(operator, *operands, keepdims=0)
    else:
        step.finish("Mul", step.emit(operator, *operands, keepdims=0), step.constant("coeff", factor))


BEFORE_ALL = -(1 << 31) + 1
"""End of a slice that goes backward to the first element."""


def _arg_max(step: Step) -> None:
    """Places of the largest numbers, as floats; of equal ones Caffe takes the last.

    Without an axis each image is one row, and its places lie in a blob of three dimensions or more.
    """
    parameters, shape, value = step.parameters, step.shape(), step.input()
    count, wants_values, has_axis = (
        parameters.size("top_k", 1),
        parameters.flag("out_max_val", False),
        parameters.has("axis"),
    )
    axis = step.axis("axis", 0) if has_axis else 1
    if not has_axis:
        value = step.emit("Flatten", value, axis=1)
    length = shape_of(value)[axis]
    if not 1 <= count <= length:
        raise ModelError(f"the {count} largest of {length}")
    if has_axis:
        step.bind(_values(step, value, axis, count) if wants_values else _places(step, value, axis, count))
        return
    found = _places(step, value, axis, count)
    if wants_values:
        found = step.emit("Concat", found, _values(step, value, axis, count), axis=1)
    target = (shape[0], 1 + wants_values, count, *(1,) * (len(shape) - 3))
    step.finish("Reshape", found, step.constant("shape", target, np.int64))


def _values(step: Step, value: ir.Value, axis: int, count: int) -> ir.Value:
    """The largest numbers along an axis."""
    if count == 1:
        return step.emit("ReduceMax", value, step.constant("axes", [axis], np.int64), keepdims=1)
    return _top(step, value, axis, count)[0]


def _places(step: Step, value: ir.Value, axis: int, count: int) -> ir.Value:
    """Their places as floats, the last place of equal ones first.

    ONNX takes the first one, so the axis is turned round: ArgMax could take the last one itself, but not on devices.
    """
    ends = [
        step.constant(name, [number], np.int64) for name, number in (("start", -1), ("end", BEFORE_ALL), ("axis", axis))
    ]
    backward = step.emit("Slice", value, *ends, step.constant("step", [-1], np.int64))
    if count == 1:
        places = step.emit("ArgMax", backward, axis=axis, keepdims=1)
    else:
        places = _top(step, backward, axis, count)[1]
    last = step.constant("last", [shape_of(value)[axis] - 1], np.int64)
    return step.emit("Cast", step.emit("Sub", last, places), to=int(ir.DataType.FLOAT))


def _top(step: Step, value: ir.Value, axis: int, count: int) -> list[ir.Value]:
    wanted = step.constant("count", [count], np.int64)
    return step.emit_many("TopK", [value, wanted], 2, axis=axis, largest=1, sorted=1)


_SEVERAL = (2, 1 << 20)

KINDS: dict[str, Kind] = {
    "Eltwise": Kind(
        _eltwise, "Add, Sub, Mul, Max", "eltwise_param", "operation coeff stable_prod_grad", bottoms=_SEVERAL
    ),
    "Axpy": Kind(_axpy, "Mul, Add, Reshape", bottoms=(3, 3)),
    "Reduction": Kind(
        _reduction,
        "ReduceSum, ReduceL1, ReduceSumSquare, ReduceMean, Mul",
        "reduction_param",
        "operation axis coeff",
    ),
    "ArgMax": Kind(
        _arg_max,
        "ArgMax, ReduceMax, TopK, Slice, Sub, Cast, Concat, Flatten, Reshape",
        "argmax_param",
        "out_max_val top_k axis",
    ),
}
