"""What keeps graph optimizers from seeing a pattern: a Max with the lowest number, which changes nothing."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g

LOWEST = np.array(np.finfo(np.float32).min, np.float32)

NAME = "lowest_float"


def guard(graph: ir.Graph, value: ir.Value, names: g.Names) -> ir.Node:
    """A node that returns its input unchanged; it is not in the graph yet, its constant is (once for all guards)."""
    lowest = graph.initializers.get(NAME)
    if lowest is None or g.scalar(lowest) != LOWEST:
        lowest = g.add_initializer(graph, NAME, LOWEST, names=names)
    node = ir.node("Max", [value, lowest], name=names.unique(f"{value.name}_guard"))
    made = node.outputs[0]
    made.name, made.shape = names.unique(f"{value.name}_guarded"), value.shape
    made.dtype = value.dtype or ir.DataType.FLOAT
    return node


def is_guard(node: ir.Node) -> bool:
    """Whether a node is one."""
    return node.op_type == "Max" and len(node.inputs) == 2 and g.scalar(node.inputs[1]) == float(LOWEST)
