"""Pads that runtimes lack."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped, sliced


@for_each("Pad")
def spell_out_padding(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Pad that repeats elements by such a Pad of a picture for each axis, and what negative pads cut off by a Slice.

    A Pad that goes round becomes a Concat of what is repeated; integers, what goes round more than once, and borders as wide as
    the picture, at which Paddle-Lite ends the process, are gathered by index.

    Refused: unknown sizes, pads or axes that are not constant.
    """
    return _pad(graph, node)


def _pad(graph: ir.Graph, node: ir.Node) -> bool:
    name, shape, pads, found = _mode(node), g.static_shape(node.inputs[0]), _pads(node), g.constant(g.input_at(node, 1))
    if shape is None or pads is None or found is None or node.inputs[0] is None:
        return False
    cuts = {axis: both for axis, both in pads.items() if min(both) < 0}
    if cuts:
        is_cut = _cut(graph, node, found, shape, cuts)
        if is_cut and node.graph is not None:
            _pad(graph, node)
        return is_cut
    is_far = name == "edge" and any(max(both) >= shape[axis] for axis, both in pads.items())
    value, sizes, is_float = node.inputs[0], list(shape), node.inputs[0].dtype in (ir.DataType.FLOAT, None)
    is_picture = len(shape) == 4 and all(axis > 1 for axis in pads) and name != "wrap" and not is_far
    if (is_picture and is_float) or name == "constant":
        return False
    for axis, (begin, end) in pads.items():
        size = sizes[axis]
        sizes[axis] = begin + size + end
        if name != "wrap" and is_float and not is_far:
            value = _pad_as_picture(graph, node, value, axis, (begin, end), tuple(sizes))
        elif max(begin, end) <= size and name == "wrap":
            before = [sliced(graph, node, value, {axis: (size - begin, size)})] if begin else []
            after = [sliced(graph, node, value, {axis: (0, end)})] if end else []
            value = insert(graph, node, "Concat", [*before, value, *after], tuple(sizes), axis=axis)
        else:
            index = np.pad(np.arange(size), (begin, end), mode=name)  # type: ignore[call-overload]
            picks = g.add_initializer(graph, f"{node.name}_axis_{axis}", index.astype(np.int64))
            value = insert(graph, node, "Gather", [value, picks], tuple(sizes), axis=axis)
    replace([node], ir.node("Identity", [value]))
    return True


def _mode(node: ir.Node) -> str:
    return g.text_attribute(node, "mode", "constant")


def _pads(node: ir.Node) -> dict[int, tuple[int, int]] | None:
    """Axis -> what a Pad adds in front and behind, if that is constant."""
    shape, found = g.static_shape(node.inputs[0]), g.constant(g.input_at(node, 1))
    axes = g.constant(g.input_at(node, 3)) if g.input_at(node, 3) is not None else np.arange(len(shape or ()))
    if shape is None or found is None or axes is None:
        return None
    begins, ends = found[: len(axes)], found[len(axes) :]
    return {int(axis) % len(shape): (int(b), int(e)) for axis, b, e in zip(axes, begins, ends, strict=True) if b or e}


@for_each("Pad")
def spell_out_integer_padding(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Pad of whole numbers by a Concat along each axis, with constants.

    What is cut off is sliced before. Refused: unknown sizes, and pads, axes or numbers that are not constant.
    """
    value, shape, pads, filled = node.inputs[0], g.static_shape(node.inputs[0]), _pads(node), g.input_at(node, 2)
    fill = np.zeros(1) if filled is None else g.constant(filled)
    if value is None or value.dtype is None or not value.dtype.is_integer() or _mode(node) != "constant":
        return False
    if shape is None or pads is None or fill is None:
        return False
    kept = _kept(shape, {axis: both for axis, both in pads.items() if min(both) < 0})
    if kept is None:
        return False
    kind, value = value.dtype.numpy(), sliced(graph, node, value, kept) if kept else value
    sizes = list(g.static_shape(value) or ())
    for axis, both in pads.items():
        counts = [max(count, 0) for count in both]
        blocks = [np.full([*sizes[:axis], count, *sizes[axis + 1 :]], fill.item(), kind) for count in counts]
        before, after = (
            [g.add_initializer(graph, f"{node.name}_{axis}_{side}", block)] if block.shape[axis] else []
            for side, block in zip(("before", "after"), blocks, strict=True)
        )
        sizes[axis] += sum(counts)
        if before or after:
            value = insert(graph, node, "Concat", [*before, value, *after], tuple(sizes), axis=axis)
    replace([node], ir.node("Identity", [value]))
    return True


def _pad_as_picture(
    graph: ir.Graph, node: ir.Node, value: ir.Value, axis: int, both: tuple[int, int], sizes: tuple[int, ...]
) -> ir.Value:
    """Pad an axis as the height of a picture that has the axes before it as channels, and those behind it as width."""
    before, after, (begin, end) = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :]), both
    size = sizes[axis] - begin - end
    picture = reshaped(graph, node, value, (1, before, size, after))
    pads = g.add_initializer(graph, f"{node.name}_pads_{axis}", np.array([0, 0, begin, 0, 0, 0, end, 0], np.int64))
    mode = node.attributes["mode"].as_string()
    padded = insert(graph, node, "Pad", [picture, pads], (1, before, sizes[axis], after), mode=mode)
    return reshaped(graph, node, padded, sizes)


def _cut(
    graph: ir.Graph, node: ir.Node, pads: NDArray[np.int64], shape: tuple[int, ...], cuts: Mapping[int, tuple[int, int]]
) -> bool:
    """Put a Slice for negative pads in front of a Pad, which keeps the others and repeats what is left (as onnxruntime does)."""
    kept = _kept(shape, cuts)
    if node.inputs[0] is None or kept is None:
        return False
    value, left = sliced(graph, node, node.inputs[0], kept), np.maximum(pads, 0)
    if left.any():
        node.replace_input_with(0, value)
        node.replace_input_with(1, g.add_initializer(graph, f"{node.name}_pads", left))
    else:
        replace([node], ir.node("Identity", [value]))
    return True


def _kept(shape: tuple[int, ...], cuts: Mapping[int, tuple[int, int]]) -> dict[int, tuple[int, int]] | None:
    """Axis -> the first element that negative pads leave, and the first one behind; ``None`` if nothing is left."""
    kept = {axis: (max(-begin, 0), shape[axis] - max(-end, 0)) for axis, (begin, end) in cuts.items()}
    return None if 0 in shape or any(stop <= start for start, stop in kept.values()) else kept
