"""Matrix products."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped


@for_each("Gemm")
def spell_out_turned_gemm(graph: ir.Graph, node: ir.Node) -> bool:
    """Transpose the first matrix of a Gemm in front of it (``transA``)."""
    x, shape = node.inputs[0], g.static_shape(node.inputs[0])
    if not g.int_attribute(node, "transA", 0) or x is None or shape is None:
        return False
    turned = insert(graph, node, "Transpose", [x], shape[::-1], perm=[1, 0])
    node.replace_input_with(0, turned)
    node.attributes["transA"] = ir.AttrInt64("transA", 0)
    return True


@for_each("MatMul")
def spell_out_vector_products(graph: ir.Graph, node: ir.Node) -> bool:
    """Make a vector in a MatMul a matrix of one row or column; the result loses that axis again.

    Refused: unknown sizes.
    """
    a, b = node.inputs[0], node.inputs[1]
    left, right, result = g.static_shape(a), g.static_shape(b), g.static_shape(node.outputs[0])
    if a is None or b is None or left is None or right is None or result is None or 1 not in (len(left), len(right)):
        return False
    if len(left) == 1:
        a, result = reshaped(graph, node, a, (1, *left)), (*result[: len(right) - 2], 1, *result[len(right) - 2 :])
    if len(right) == 1:
        b, result = reshaped(graph, node, b, (*right, 1)), (*result, 1)
    product = insert(graph, node, "MatMul", [a, b], result)
    shape = g.static_shape(node.outputs[0]) or (1,)
    target = g.add_initializer(graph, f"{node.name}_shape", np.array(shape if node.outputs[0].shape else [], np.int64))
    replace([node], ir.node("Reshape", [product, target]))
    return True
