"""Tests of numbers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.inserting import insert

FIRST_OPSET = 12
"""The first operator set with LessOrEqual."""


def spell_out_is_nan(model: ir.Model) -> int:
    """Replace IsNaN, which current exporters put behind a softmax whose rows may be empty, by "not at most infinite".

    (A comparison with itself, which differs only for NaN, is true for NaN in Paddle-Lite.)
    """
    if model.graph.opset_imports.get("", 1) < FIRST_OPSET:
        return 0
    return sum(_is_nan(model.graph, node) for node in list(model.graph) if is_op(node, "IsNaN"))


def _is_nan(graph: ir.Graph, node: ir.Node) -> bool:
    x = node.inputs[0]
    if x is None or x.dtype is None:
        return False
    infinity = g.add_initializer(graph, f"{node.name}_infinity", np.array(np.inf, x.dtype.numpy()))
    numbers = insert(graph, node, "LessOrEqual", [x, infinity], g.static_shape(x))
    replace([node], ir.node("Not", [numbers]))
    return True
