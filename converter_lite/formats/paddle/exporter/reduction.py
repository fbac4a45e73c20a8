"""Reductions over axes."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    integers,
    optional,
    rank,
)
from converter_lite.formats.paddle.exporter.reshaping import copy
from converter_lite.formats.paddle.program import attr, ints

REDUCTIONS = {
    "ReduceMean": "reduce_mean",
    "ReduceSum": "reduce_sum",
    "ReduceMax": "reduce_max",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
}


def _axes(node: ir.Node, dimensions: int) -> list[int]:
    axes = integers(optional(node, 1)) or list(g.ints_attribute(node, "axes"))
    return sorted(axis % dimensions for axis in axes)


def _reduce(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    axes = _axes(node, dimensions)
    if not axes and g.int_attribute(node, "noop_with_empty_axes", 0):
        copy(lowering, node)
        return
    _emit(lowering, node, REDUCTIONS[node.op_type], lowering.tensor(node.inputs[0]), axes, dimensions)


def _emit(lowering: Lowering, node: ir.Node, operator: str, name: str, axes: list[int], dimensions: int) -> None:
    everything = not axes or len(axes) == dimensions
    attributes = {
        "dim": ints(axes or range(dimensions)),
        "keep_dim": attr(bool(g.int_attribute(node, "keepdims", 1))),
        "reduce_all": attr(everything),
    }
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit(operator, {"X": [name]}, outputs, attributes, dtype=dtype_name(node.inputs[0]))


def _reduce_l2(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    axes = _axes(node, dimensions)
    name = lowering.tensor(node.inputs[0])
    if len(axes) == 1:
        attributes = {
            "axis": attr(axes[0]),
            "porder": attr(2.0),
            "epsilon": attr(1e-12),
            "keepdim": attr(bool(g.int_attribute(node, "keepdims", 1))),
            "asvector": attr(False),
        }
        lowering.emit("p_norm", {"X": [name]}, {"Out": [lowering.result(node.outputs[0])]}, attributes)
        return
    raise Unsupported("ReduceL2 over several axes", "write Mul, ReduceSum, Sqrt")


def _reduce_l1(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    positive = lowering.temporary(f"{node.outputs[0].name}.abs", dims(node.inputs[0]))  # type: ignore[arg-type]
    lowering.emit("abs", {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [positive]})
    _emit(lowering, node, "reduce_sum", positive, _axes(node, dimensions), dimensions)


def _reduce_sum_square(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    squares = lowering.temporary(f"{node.outputs[0].name}.square", dims(node.inputs[0]))  # type: ignore[arg-type]
    lowering.emit("square", {"X": [lowering.tensor(node.inputs[0])]}, {"Out": [squares]})
    _emit(lowering, node, "reduce_sum", squares, _axes(node, dimensions), dimensions)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    "ReduceL2": _reduce_l2,
    "ReduceL1": _reduce_l1,
    "ReduceSumSquare": _reduce_sum_square,
}
