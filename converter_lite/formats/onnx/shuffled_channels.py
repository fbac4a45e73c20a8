"""Shuffled channels between integers, in the form that onnxruntime computes fastest.

::

    DequantizeLinear ─ Reshape (N, g, c, H, W) ─ Transpose (0, 2, 1, 3, 4) ─ Reshape      becomes      DequantizeLinear ─ Gather

with or without pairs of the same grid between the three. Both move the same integers. Behind an integer convolution, whose
results have their channels last, onnxruntime makes one Transpose of that order and the first, and it moves single numbers (1.32:
368 microseconds for 64 x 48 x 48, where the Gather and two plain Transposes take 25).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace


def gather_shuffled_channels(model: ir.Model) -> int:
    """Write shuffles of dequantized channels as Gather, in place; returns how many."""
    graph, names, changed = model.graph, g.Names(model.graph), 0
    orders: dict[tuple[int, int], ir.Value] = {}
    for node in [node for node in graph if is_op(node, "Reshape")]:
        steps = _shuffle(node)
        if steps is None:
            continue
        groups, size, *_ = _sizes(steps[-1].outputs[0]) or (0, 0)
        if (groups, size) not in orders:
            order = np.arange(groups * size, dtype=np.int64).reshape(groups, size).T.ravel()
            orders[groups, size] = g.add_initializer(graph, f"channels_of_{groups}_groups", order, names=names)
        shapes = [step.inputs[1] for step in steps if is_op(step, "Reshape")]
        replace(steps[::-1], ir.node("Gather", [steps[-1].inputs[0], orders[groups, size]], {"axis": 1}))
        for shape in shapes:
            if shape is not None and shape.is_initializer() and not g.is_read(shape):
                del graph.initializers[str(shape.name)]
        changed += 1
    return changed


def _shuffle(last: ir.Node) -> list[ir.Node] | None:
    """The nodes of a shuffle from its last Reshape back to the first, if it is one of dequantized integers."""
    steps = [last]
    for kind in ("Transpose", "Reshape"):
        pair = _pair(steps[-1])
        before = (pair[-1] if pair else steps[-1]).inputs[0]
        producer = before.producer() if before is not None else None
        if producer is None or not is_op(producer, kind):
            return None
        steps += [*pair, producer]
    source = steps[-1].inputs[0]
    dequantize = source.producer() if source is not None else None
    if source is None or dequantize is None or not is_op(dequantize, "DequantizeLinear"):
        return None
    grids = {tuple(node.inputs[1:]) for node in steps if is_op(node, "QuantizeLinear", "DequantizeLinear")}
    if grids - {tuple(dequantize.inputs[1:])}:
        return None
    return steps if _is_shuffle(source, steps[-1], next(n for n in steps if is_op(n, "Transpose")), last) else None


def _pair(node: ir.Node) -> list[ir.Node]:
    """DequantizeLinear and QuantizeLinear in front of a node, in this order."""
    found: list[ir.Node] = []
    for kind in ("DequantizeLinear", "QuantizeLinear"):
        value = (found[-1] if found else node).inputs[0]
        producer = value.producer() if value is not None else None
        if producer is None or not is_op(producer, kind):
            return []
        found.append(producer)
    return found


def _is_shuffle(source: ir.Value, first: ir.Node, transpose: ir.Node, last: ir.Node) -> bool:
    """Whether channels are split into groups, turned and joined; all sizes but that of the batch have to be known."""
    before, between, after = (_sizes(value) for value in (source, first.outputs[0], last.outputs[0]))
    if before is None or between is None or after != before or len(between) != len(before) + 1:
        return False
    is_split = between[0] * between[1] == before[0] and between[2:] == before[1:]
    return is_split and g.ints_attribute(transpose, "perm") == (0, 2, 1, *range(3, len(between) + 1))


def _sizes(value: ir.Value) -> tuple[int, ...] | None:
    """All sizes of a tensor but the first."""
    sizes = tuple(value.shape)[1:] if value.shape is not None else ()
    known = tuple(size for size in sizes if isinstance(size, int))
    return known if known and len(known) == len(sizes) else None
