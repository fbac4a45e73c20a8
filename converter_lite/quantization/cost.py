"""How much a node computes: the measure of cost in searches and checks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.targets.operands import is_recurrent, stored_weight, stored_weights


def multiplications(node: ir.Node, results: int | None = None) -> float:
    """Multiplications per sample; open sizes count as 1, unless the number of ``results`` is given."""
    sizes = [size for size in (node.outputs[0].shape or ()) if isinstance(size, int)]
    return float(np.prod(sizes) if results is None else results) * _per_output(node)


def _per_output(node: ir.Node) -> float:
    """Multiplications for one number of the result."""
    if is_recurrent(node):
        shapes = [shape for value in stored_weights(node) if (shape := g.static_shape(value)) is not None]
        hidden = shapes[-1][-1] if shapes else 1
        return sum(float(np.prod(shape[1:])) for shape in shapes) / max(hidden, 1)
    weight = stored_weight(node)
    shape = g.static_shape(weight) if weight is not None and node.op_type != "Gather" else None
    if shape is None or len(shape) < 2:
        return 1.0
    return float(np.prod(shape[1:]) if node.op_type == "Conv" else shape[0])
