"""Averages that onnxruntime's integer kernel computes otherwise than with floats (rule 11 of :mod:`.materialize`)."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op


def has_other_integers(node: ir.Node) -> bool:
    """Whether a node is an average that onnxruntime (1.32) does not compute in integers as the standard says.

    1. With dilations: its operator does not know them, and the file is not loaded.
    2. Where a window ends behind the picture and its padding, which is counted: it divides by all elements of the window.
    """
    if not is_op(node, "AveragePool"):
        return False
    return "dilations" in node.attributes or _counts_beyond(node)


def _counts_beyond(pool: ir.Node) -> bool:
    """Whether padding is counted and a window ends behind it; where the size is not known, one may."""
    if not (g.int_attribute(pool, "ceil_mode", 0) and g.int_attribute(pool, "count_include_pad", 0)):
        return False
    kernel, source = g.ints_attribute(pool, "kernel_shape"), pool.inputs[0]
    known = source.shape[2:] if source is not None and source.shape is not None else ()
    size, ones = [n for n in known if isinstance(n, int)], (1,) * len(kernel)
    if len(size) != len(kernel):
        return True
    strides = g.ints_attribute(pool, "strides", ones)
    pads = g.window_pads(pool, size, kernel, strides, ones)
    windows = zip(size, kernel, strides, pads[: len(kernel)], pads[len(kernel) :], strict=True)
    return any(_ends_behind(*window) for window in windows)


def _ends_behind(size: int, kernel: int, stride: int, begin: int, end: int) -> bool:
    """Whether the last window of an axis ends behind the padding; one that begins there is left out."""
    last = -(-(size + begin + end - kernel) // stride) * stride
    return last < size + begin and last + kernel > size + begin + end
