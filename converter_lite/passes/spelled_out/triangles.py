"""Triangles of matrices by a choice between the matrix and zero."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace


@for_each("Trilu")
def spell_out_triangles(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace Trilu by Where with a constant mask, so that infinite values outside become zero, too.

    Refused: matrices whose size is open, a diagonal that is computed.
    """
    x, shape, offset = node.inputs[0], g.static_shape(node.inputs[0]), g.input_at(node, 1)
    diagonal = 0.0 if offset is None else g.scalar(offset)
    if x is None or x.dtype is None or shape is None or diagonal is None:
        return False
    rows, columns = shape[-2:]
    diagonal = min(max(int(diagonal), -rows), columns)  # farther ones keep everything or nothing, too
    everywhere, is_upper = np.ones((rows, columns), np.bool_), g.int_attribute(node, "upper", 1)
    kept = np.triu(everywhere, diagonal) if is_upper else np.tril(everywhere, diagonal)
    mask = g.add_initializer(graph, f"{node.name}_kept", kept)
    zero = g.add_initializer(graph, f"{node.name}_zero", np.zeros((), x.dtype.numpy()))
    replace([node], ir.node("Where", [mask, x, zero]))
    return True
