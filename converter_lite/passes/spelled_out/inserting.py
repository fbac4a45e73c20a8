"""Nodes in front of the one that is spelled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g

SUM_AXES_AS_INPUT, AXES_AS_INPUT = 13, 18
"""The first operator sets in which the axes of ReduceSum, and of every reduction, are an input."""


def insert(
    graph: ir.Graph,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    shape: Sequence[int] | None,
    **attributes: object,
) -> ir.Value:
    """The result of a new node in front of ``node``, of the type of its first output."""
    made = ir.node(op_type, inputs, attributes=attributes)  # type: ignore[arg-type]
    made.outputs[0].shape = None if shape is None else ir.Shape(shape)
    made.outputs[0].type = node.outputs[0].type
    graph.insert_before(node, made)
    return made.outputs[0]


def reshaped(graph: ir.Graph, node: ir.Node, value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
    """A value with another shape."""
    target = g.add_initializer(graph, f"{value.name}_shape", np.array(shape, np.int64))
    return insert(graph, node, "Reshape", [value, target], shape)


def reduced(graph: ir.Graph, node: ir.Node, op_type: str, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    """A reduction, whose axes stay with size 1, as the graph's operator set has it."""
    shape = [1 if axis in axes else size for axis, size in enumerate(g.static_shape(value) or ())]
    since = SUM_AXES_AS_INPUT if op_type == "ReduceSum" else AXES_AS_INPUT
    if g.opset(graph) < since:
        return insert(graph, node, op_type, [value], shape, axes=list(axes), keepdims=1)
    stored = g.add_initializer(graph, f"{node.name}_axes", np.array(axes, np.int64))
    return insert(graph, node, op_type, [value, stored], shape, keepdims=1)


def sliced(graph: ir.Graph, node: ir.Node, value: ir.Value, ranges: Mapping[int, tuple[int, int]]) -> ir.Value:
    """Along each axis the elements from the first number to in front of the second."""
    sizes = list(g.static_shape(value) or ())
    for axis, (start, stop) in ranges.items():
        sizes[axis] = stop - start
    starts, stops = zip(*ranges.values(), strict=True)
    bounds = {"starts": starts, "stops": stops, "axes": tuple(ranges)}
    stored = [g.add_initializer(graph, f"{node.name}_{name}", np.array(b, np.int64)) for name, b in bounds.items()]
    return insert(graph, node, "Slice", [value, *stored], tuple(sizes))


def split(graph: ir.Graph, node: ir.Node, x: ir.Value, sizes: list[int]) -> ir.Node:
    """A Split along axis 1; sizes are an input since operator set 13."""
    count = len(sizes)
    if g.opset(graph) < 13:
        return ir.node("Split", [x], attributes={"axis": 1, "split": sizes}, num_outputs=count)
    stored = g.add_initializer(graph, f"{node.name}_sizes", np.array(sizes, np.int64))
    return ir.node("Split", [x, stored], attributes={"axis": 1}, num_outputs=count)
