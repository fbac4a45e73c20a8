"""Pools whose windows have gaps."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.inserting import insert


def spell_out_dilated_pools(model: ir.Model) -> int:
    """Replace a MaxPool with dilations by the maximum over what each place of its window reads, axis by axis.

    ::

        x ─ Gather (one for each place of a window along an axis) ─ Max ─ the next axis ─ y

    Where a place is beside the tensor, another one of the same window is read again.

    Refused: unknown sizes, indices, ``auto_pad`` that keeps a size, and windows that are beside the tensor as a whole.
    """
    return sum(_dilated(model.graph, node) for node in list(model.graph) if is_op(node, "MaxPool"))


def _dilated(graph: ir.Graph, node: ir.Node) -> bool:
    x, kernel = node.inputs[0], g.ints_attribute(node, "kernel_shape")
    plain = (1,) * len(kernel)
    strides, dilations = (g.ints_attribute(node, name, plain) for name in ("strides", "dilations"))
    shape, result = g.static_shape(x), g.static_shape(node.outputs[0])
    if x is None or shape is None or result is None or dilations == plain or len(node.outputs) != 1:
        return False
    if g.text_attribute(node, "auto_pad", "NOTSET").startswith("SAME"):
        return False
    begins = g.window_pads(node, shape[2:], kernel, strides, dilations)[: len(kernel)]
    sides = zip(shape[2:], result[2:], kernel, strides, dilations, begins, strict=True)
    windows = [_reads(size, count, *window) for size, count, *window in sides]
    if any(reads is None for reads in windows):
        return False
    for axis, reads in enumerate(windows, 2):
        assert reads is not None
        x = _largest(graph, node, x, reads, axis)
    replace([node], ir.node("Identity", [x]))
    return True


def _reads(size: int, count: int, *window: int) -> NDArray[np.int64] | None:
    """What each of ``count`` windows reads along an axis, ``(places of a window, count)``; ``None``: one reads nothing."""
    taps, stride, dilation, begin = window
    reads = np.arange(taps)[:, None] * dilation + np.arange(count) * stride - begin
    inside = (reads >= 0) & (reads < size)
    if not inside.any(0).all():
        return None
    first = np.take_along_axis(reads, inside.argmax(0)[None], 0)
    return np.unique(np.where(inside, reads, first), axis=0)


def _largest(graph: ir.Graph, node: ir.Node, x: ir.Value, reads: NDArray[np.int64], axis: int) -> ir.Value:
    shape = list(g.static_shape(x) or ())
    shape[axis] = reads.shape[1]
    largest: ir.Value | None = None
    for number, places in enumerate(reads):
        index = g.add_initializer(graph, f"{node.name}_reads_{axis}_{number}", np.ascontiguousarray(places))
        part = insert(graph, node, "Gather", [x, index], shape, axis=axis)
        largest = part if largest is None else insert(graph, node, "Max", [largest, part], shape)
    assert largest is not None
    return largest
