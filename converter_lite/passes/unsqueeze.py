"""Several Unsqueezes in a row."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.graph import add_initializer, input_at
from converter_lite.passes.rewrite import for_each, int_values, is_op

Axes = list[int]


@for_each("Unsqueeze")
def merge_unsqueezes(graph: ir.Graph, node: ir.Node) -> bool:
    """Insert all axes at once.

    ::

        x (N) ─ Unsqueeze(1) ─ Unsqueeze(0) ─ y       becomes      x ─ Unsqueeze(0, 2) ─ y

    Refused: axes that are computed, an unknown number of axes where one is counted from the end, operator sets below 13 (axes
    as attributes).
    """
    source = node.inputs[0]
    first = source.producer() if source is not None else None
    if first is None or not is_op(first, "Unsqueeze") or first.graph is not node.graph:
        return False
    inner, outer = _axes(first), _axes(node)
    if inner is None or outer is None:
        return False
    rank = max([*inner, -1]) + 1 + max([*outer, -1]) + 1 + len(inner) + len(outer)
    kept = [axis for axis in range(rank) if axis not in outer]
    merged = np.array(sorted({*outer, *(kept[axis] for axis in inner)}), np.int64)
    node.replace_input_with(0, first.inputs[0])
    node.replace_input_with(1, add_initializer(graph, f"{node.name}_axes", merged))
    return True


def _axes(node: ir.Node) -> Axes | None:
    """Where it inserts, counted from the front of its result."""
    axes, shape = int_values(input_at(node, 1)), node.outputs[0].shape
    if axes is None or (shape is None and min(axes, default=0) < 0):
        return None
    return [axis + len(shape) if axis < 0 and shape is not None else axis for axis in axes]
