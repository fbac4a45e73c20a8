"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    integers,
    rank,
)
from converter_lite.formats.paddle.exporter.reshaping import cast, copy, reshape
from converter_lite.formats.paddle.program import attr, ints, var_type

REDUCTIONS = {
    "ReduceMean": "reduce_mean",
    "ReduceSum": "reduce_sum",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
}


ARM_READS = {("reduce_sum", "int64"): "int32", ("reduce_max", "int32"): "int64", ("reduce_min", "int32"): "int64"}
"""Operator and type of its data -> the type that ARM has a kernel for (the first from 2.13 on; the second aborts)."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    """An operator, the sorted axes that it reduces, and the NumPy name of the type of its data."""

    operator: str
    axes: tuple[int, ...]
    dtype: str


def _axes(node: ir.Node, dimensions: int) -> list[int]:
    axes = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "axes"))
    return sorted(axis % dimensions for axis in axes)


def _refuse_integers(node: ir.Node) -> None:
    """Kernels of norms, and that of ``abs``, take integers for floats."""
    if dtype_name(node.inputs[0]) != "float32":
        raise Unsupported(f"{node.op_type} of {dtype_name(node.inputs[0])}", "cast its input to float before it")


def _reduces_nothing(node: ir.Node, axes: list[int]) -> bool:
    return not axes and bool(g.int_attribute(node, "noop_with_empty_axes", 0))


def _of_each(lowering: Lowering, node: ir.Node, operator: str) -> None:
    """What a reduction of single elements gives."""
    inputs, outputs = {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit(operator, inputs, outputs)


def _reduce(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    axes = _axes(node, dimensions)
    if _reduces_nothing(node, axes):
        copy(lowering, node)
        return
    _emit(lowering, node, REDUCTIONS[node.op_type], lowering.tensor(node.inputs[0]), axes, dimensions)


def _emit(lowering: Lowering, node: ir.Node, operator: str, name: str, axes: list[int], dimensions: int) -> None:
    reduction = _Reduction(operator, tuple(axes or range(dimensions)), dtype_name(node.inputs[0]))
    value = node.outputs[0]
    result = lowering.result(value)
    other = ARM_READS.get((operator, reduction.dtype)) if lowering.is_arm else None
    if other is not None:
        kind, given = var_type(np.dtype(other)), var_type(np.dtype(reduction.dtype))
        total = lowering.temporary(f"{value.name}.{other}", dims(value), dtype=kind)
        _write(lowering, node, replace(reduction, dtype=other), cast(lowering, name, given, kind), total)
        cast(lowering, total, kind, given, result)
    else:
        _write(lowering, node, reduction, name, result)


def _write(lowering: Lowering, node: ir.Node, reduction: _Reduction, name: str, result: str) -> None:
    operator, axes, dimensions = reduction.operator, reduction.axes, rank(node.inputs[0])
    if dimensions > 4 or (lowering.is_arm and not _has_kernel(operator, axes, dimensions)):
        _one_run_after_another(lowering, node, reduction, name, result)
        return
    attributes = {
        "dim": ints(axes),
        "keep_dim": attr(bool(g.int_attribute(node, "keepdims", 1))),
        "reduce_all": attr(len(axes) == dimensions),
    }
    lowering.emit(operator, {"X": [name]}, {"Out": [result]}, attributes, dtype=reduction.dtype)


def _has_kernel(operator: str, axes: Sequence[int], dimensions: int) -> bool:
    """Whether ARM's kernel reduces these axes of at most four at once; elsewhere it aborts, or reduces other axes."""
    if operator == "reduce_sum" and len(axes) == dimensions:
        return True
    if operator == "reduce_prod" and dimensions != 4:
        return False
    if len(axes) > 2:
        return False
    if len(axes) == 2:
        adjacent = axes[1] == axes[0] + 1
        return adjacent and (dimensions == 4 or (dimensions == 3 and operator in ("reduce_mean", "reduce_sum")))
    return True


def _one_run_after_another(lowering: Lowering, node: ir.Node, reduction: _Reduction, name: str, result: str) -> None:
    """Neighbouring axes at once, as the second of four dimensions: every kernel can do that, and none reduces five correctly."""
    source, value = node.inputs[0], node.outputs[0]
    assert source is not None
    axes, sizes, kind = list(reduction.axes), list(dims(source)), var_type(np.dtype(reduction.dtype))
    while axes:
        first = last = axes.pop()
        while axes and axes[-1] == first - 1:
            first = axes.pop()
        flat = (_product(sizes[:first]), _product(sizes[first : last + 1]), _product(sizes[last + 1 :]), 1)
        sizes[first : last + 1] = [1] * (last + 1 - first)
        if flat.count(-1) > 1:
            raise Unsupported("a reduction of unknown dimensions", "give --inputShape")
        middle = lowering.temporary(f"{value.name}.rows", flat, dtype=kind)
        reduced = lowering.temporary(f"{value.name}.reduced", (flat[0], *flat[2:]), dtype=kind)
        reshape(lowering, name, middle, flat)
        attributes = {"dim": ints((1,)), "keep_dim": attr(False), "reduce_all": attr(False)}
        lowering.emit(reduction.operator, {"X": [middle]}, {"Out": [reduced]}, attributes, dtype=reduction.dtype)
        name = reduced
    wanted = dims(value)
    if wanted.count(-1) > 1:
        raise Unsupported("a reduction of unknown dimensions", "give --inputShape")
    reshape(lowering, name, result, wanted)


def _product(sizes: list[int]) -> int:
    return -1 if -1 in sizes else math.prod(sizes)


def _reduce_l2(lowering: Lowering, node: ir.Node) -> None:
    """The norm over several axes is the norm of norms: one axis at a time, from the last."""
    _refuse_integers(node)
    sizes, keep = list(dims(node.inputs[0])), bool(g.int_attribute(node, "keepdims", 1))
    named = _axes(node, len(sizes))
    if not sizes:
        raise Unsupported("ReduceL2 of an unknown rank", "give --inputShape")
    if _reduces_nothing(node, named):
        _of_each(lowering, node, "abs")
        return
    axes = sorted(named or range(len(sizes)), reverse=True)
    name = lowering.tensor(node.inputs[0])
    for axis in axes:
        sizes[axis : axis + 1] = [1] if keep else []
        is_last = axis == axes[-1]
        result = (
            lowering.result(node.outputs[0])
            if is_last
            else lowering.temporary(f"{node.outputs[0].name}.norm{axis}", tuple(sizes))
        )
        attributes = {
            "axis": attr(axis),
            "porder": attr(2.0),
            "epsilon": attr(1e-12),
            "keepdim": attr(keep),
            "asvector": attr(False),
        }
        lowering.emit("p_norm", {"X": [name]}, {"Out": [result]}, attributes)
        name = result


def _reduce_l1(lowering: Lowering, node: ir.Node) -> None:
    if lowering.absorbs:
        _refuse_integers(node)
    dimensions = rank(node.inputs[0])
    if _reduces_nothing(node, _axes(node, dimensions)):
        _of_each(lowering, node, "abs")
        return
    positive = lowering.temporary(f"{node.outputs[0].name}.abs", dims(node.inputs[0]))
    lowering.emit("abs", {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [positive]})
    _emit(lowering, node, "reduce_sum", positive, _axes(node, dimensions), dimensions)


def _reduce_sum_square(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    name, dtype = lowering.tensor(node.inputs[0]), dtype_name(node.inputs[0])
    if _reduces_nothing(node, _axes(node, dimensions)):
        if dtype != "float32":
            raise Unsupported(f"ReduceSumSquare of {dtype} over no axis", "write Mul")
        _of_each(lowering, node, "square")
        return
    kind = var_type(np.dtype(dtype))
    squares = lowering.temporary(f"{node.outputs[0].name}.square", dims(node.inputs[0]), dtype=kind)
    if dtype == "float32":
        lowering.emit("square", {"X": [name]}, {"Out": [squares]})
    else:  # the kernel of that name knows floats only
        sides = {"X": [name], "Y": [name]}
        lowering.emit("elementwise_mul", sides, {"Out": [squares]}, {"axis": attr(-1)}, dtype=dtype)
    _emit(lowering, node, "reduce_sum", squares, _axes(node, dimensions), dimensions)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ReduceL2": _reduce_l2,
    "ReduceL1": _reduce_l1,
    "ReduceSumSquare": _reduce_sum_square,
}
