"""Nodes in front of the one that is spelled out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g


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


def split(graph: ir.Graph, node: ir.Node, x: ir.Value, sizes: list[int]) -> ir.Node:
    """A Split along axis 1; sizes are an input since operator set 13."""
    count = len(sizes)
    if graph.opset_imports.get("", 1) < 13:
        return ir.node("Split", [x], attributes={"axis": 1, "split": sizes}, num_outputs=count)
    stored = g.add_initializer(graph, f"{node.name}_sizes", np.array(sizes, np.int64))
    return ir.node("Split", [x, stored], attributes={"axis": 1}, num_outputs=count)
