"""Operators that only change the shape: Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    integers,
    rank,
    shape,
)
from converter_lite.formats.paddle.program import VarType, attr, ints

MOST_DIMENSIONS = 6
"""Dimensions that ``unsqueeze2`` makes."""


def reshape(lowering: Lowering, name: str, result: str, to: Sequence[int]) -> None:
    """``reshape2``: one dimension may be -1; a dimension of 0 copies."""
    outputs = {"Out": [result], "XShape": [lowering.temporary(f"{result}.xshape")]}
    lowering.emit("reshape2", {"X": [name]}, outputs, {"shape": ints(to)})


def with_axes(lowering: Lowering, operator: str, name: str, result: str, axes: Sequence[int]) -> None:
    """``squeeze2`` or ``unsqueeze2``."""
    outputs = {"Out": [result], "XShape": [lowering.temporary(f"{result}.xshape")]}
    lowering.emit(operator, {"X": [name]}, outputs, {"axes": ints(axes)})


def copy(lowering: Lowering, node: ir.Node) -> None:
    """The output is the input: another name where possible, ``assign`` for graph outputs."""
    source, value = node.inputs[0], node.outputs[0]
    assert source is not None
    if not value.is_graph_output():
        lowering.alias(value, source)
        return
    lowering.emit("assign", {"X": [lowering.tensor(source)]}, {"Out": [lowering.result(value)]})


def _dropout(lowering: Lowering, node: ir.Node) -> None:
    training = g.input_at(node, 2)
    if training is not None and g.scalar(training) != 0:
        raise Unsupported("dropout for training")
    if len(node.outputs) > 1 and g.is_read(node.outputs[1]):
        raise Unsupported("the mask of a dropout")
    copy(lowering, node)


def _reshape(lowering: Lowering, node: ir.Node) -> None:
    source, value = node.inputs[0], node.outputs[0]
    assert source is not None
    name, result = lowering.tensor(source), lowering.result(value)
    if g.constant(g.input_at(node, 1)) is None and g.input_at(node, 1) is not None:
        _dynamic_reshape(lowering, node, name, result)
        return
    wanted = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "shape"))
    if g.int_attribute(node, "allowzero", 0) and 0 in wanted:
        raise Unsupported("a reshape to an empty tensor")
    reshape(lowering, name, result, wanted or [1])  # a scalar is stored with one dimension


def _dynamic_reshape(lowering: Lowering, node: ir.Node, name: str, result: str) -> None:
    known = dims(node.outputs[0])
    if known and sum(d == -1 for d in known) <= 1:
        reshape(lowering, name, result, known)
        return
    narrow = cast(lowering, lowering.tensor(node.inputs[1]), VarType.INT64, VarType.INT32)
    outputs = {"Out": [result], "XShape": [lowering.temporary(f"{result}.xshape")]}
    lowering.emit("reshape2", {"X": [name], "Shape": [narrow]}, outputs, {"shape": ints(known)})


def cast(lowering: Lowering, name: str, source: VarType, to: VarType, result: str | None = None) -> str:
    """Variable ``name`` in another element type."""
    made = result or lowering.like(name, to.name.lower(), dtype=to)
    attributes = {"in_dtype": attr(int(source)), "out_dtype": attr(int(to))}
    lowering.emit("cast", {"X": [name]}, {"Out": [made]}, attributes, dtype="any")
    return made


def _flatten(lowering: Lowering, node: ir.Node) -> None:
    source, value = node.inputs[0], node.outputs[0]
    dimensions = rank(source)
    axis = g.int_attribute(node, "axis", 1)
    axis = axis + dimensions if axis < 0 else axis
    outputs = {"Out": [lowering.result(value)], "XShape": [lowering.temporary(f"{value.name}.xshape")]}
    inputs = {"X": [lowering.tensor(source)]}
    if axis == 1 and dimensions > 1:
        attributes = {"start_axis": attr(1), "stop_axis": attr(dimensions - 1)}
        lowering.emit("flatten_contiguous_range", inputs, outputs, attributes)
    elif not lowering.absorbs:  # Paddle's older operator lacks element types
        known = dims(source)
        rows, columns = (-1 if -1 in sizes else math.prod(sizes) for sizes in (known[:axis], known[axis:]))
        reshape(lowering, inputs["X"][0], outputs["Out"][0], (rows, -1) if rows > 0 else (-1, columns))
    else:
        lowering.emit("flatten2", inputs, outputs, {"axis": attr(axis)})


def _squeeze(lowering: Lowering, node: ir.Node) -> None:
    dimensions = rank(node.inputs[0])
    axes = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "axes"))
    if not axes:
        axes = [axis for axis, size in enumerate(shape(node.inputs[0])) if size == 1]
    axes = [axis % dimensions for axis in axes]
    result = lowering.result(node.outputs[0])
    if len(axes) == dimensions:
        reshape(lowering, lowering.tensor(node.inputs[0]), result, [1])
        return
    with_axes(lowering, "squeeze2", lowering.tensor(node.inputs[0]), result, axes)


def _unsqueeze(lowering: Lowering, node: ir.Node) -> None:
    axes = integers(g.input_at(node, 1)) or list(g.ints_attribute(node, "axes"))
    dimensions = rank(node.inputs[0])
    total = dimensions + len(axes)
    if total > MOST_DIMENSIONS:
        raise Unsupported(f"a tensor of {total} dimensions; the library makes at most {MOST_DIMENSIONS}")
    axes = sorted(axis % total for axis in axes)
    result = lowering.result(node.outputs[0])
    if dimensions == 0:  # a scalar is stored with one dimension already
        reshape(lowering, lowering.tensor(node.inputs[0]), result, [1] * total)
        return
    with_axes(lowering, "unsqueeze2", lowering.tensor(node.inputs[0]), result, axes)


HANDLERS: dict[str, Handler] = {
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Identity": copy,
    "Dropout": _dropout,
}
