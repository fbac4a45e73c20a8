"""Operators of two tensors that one tensor and a number say as well."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert


@for_each("Div")
def spell_out_repeated_dividends(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace ``a / b`` by ``a * (1 / b)`` where b is larger than a, whose elements are repeated.

    Refused: other types than float32, and unknown shapes.
    """
    a, b = node.inputs
    if a is None or b is None or a.shape is None or b.shape is None or b.dtype is not ir.DataType.FLOAT:
        return False
    if list(a.shape) == list(b.shape) or list(a.shape) == list(node.outputs[0].shape or ()):
        return False
    array = g.constant(a)
    if array is not None and a.shape.rank() <= b.shape.rank() and array.size == 1 and array.reshape(()) == 1:
        replace([node], ir.node("Reciprocal", [b]))
        return True
    inverse = insert(graph, node, "Reciprocal", [b], None)
    inverse.shape = b.shape
    replace([node], ir.node("Mul", [a, inverse]))
    return True


@for_each("PRelu")
def spell_out_single_slopes(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a PRelu whose slopes are all one number by a LeakyRelu.

    Refused: other types than float32.
    """
    del graph
    slopes = g.constant(node.inputs[1])
    if slopes is None or slopes.dtype != np.float32 or slopes.size == 0 or np.any(slopes != slopes.flat[0]):
        return False
    replace([node], ir.node("LeakyRelu", [node.inputs[0]], attributes={"alpha": float(slopes.flat[0])}))
    return True
