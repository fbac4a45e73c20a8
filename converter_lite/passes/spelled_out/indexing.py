"""Picking by index."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped


def spell_out_reversal(model: ir.Model) -> int:
    """Replace a ReverseSequence whose sequences have one constant length by a Gather along the axis of time.

    Refused: unknown sizes, lengths that are not constant, or differ.
    """
    return sum(_reversal(model.graph, node) for node in list(model.graph) if is_op(node, "ReverseSequence"))


def _reversal(graph: ir.Graph, node: ir.Node) -> bool:
    x, lengths, axis = node.inputs[0], g.constant(node.inputs[1]), g.int_attribute(node, "time_axis", 0)
    shape = g.static_shape(x)
    if x is None or shape is None or lengths is None or not lengths.size or np.any(lengths != lengths.flat[0]):
        return False
    length = int(lengths.flat[0])
    order = np.arange(shape[axis])
    order[:length] = order[:length][::-1]
    index = g.add_initializer(graph, f"{node.name}_order", order)
    replace([node], ir.node("Gather", [x, index], attributes={"axis": axis}))
    return True


def coordinates(places: NDArray[np.generic], axis: int) -> NDArray[np.int64]:
    """Whole coordinates of elements of which ``places`` gives one axis; shape ``(*places.shape, rank)``."""
    grid = np.stack(np.meshgrid(*map(np.arange, places.shape), indexing="ij"), axis=-1)
    grid[..., axis] = places
    return grid.astype(np.int64)


def spell_out_batched_gather(model: ir.Model) -> int:
    """Replace a GatherND with ``batch_dims`` and constant indices by one without: batch positions become indices."""
    return sum(_batched_gather(model.graph, node) for node in list(model.graph) if is_op(node, "GatherND"))


def _batched_gather(graph: ir.Graph, node: ir.Node) -> bool:
    batch, data, indices = g.int_attribute(node, "batch_dims", 0), node.inputs[0], g.constant(node.inputs[1])
    if not batch or data is None or indices is None:
        return False
    positions = np.stack(np.meshgrid(*map(np.arange, indices.shape[:-1]), indexing="ij"), axis=-1)[..., :batch]
    whole = np.concatenate([positions.astype(np.int64), indices.astype(np.int64)], axis=-1)
    replace([node], ir.node("GatherND", [data, g.add_initializer(graph, f"{node.name}_indices", whole)]))
    return True


def spell_out_gather_elements(model: ir.Model) -> int:
    """Replace a GatherElements by a Gather from all elements in a row.

    ::

        indices * stride of the axis + position in the other axes ─ Gather(elements in a row) ─ y

    Constant indices may count from the end; computed ones are taken as they are. Refused: unknown sizes, and truth values.
    """
    return sum(_gather_elements(model.graph, node) for node in list(model.graph) if is_op(node, "GatherElements"))


def _gather_elements(graph: ir.Graph, node: ir.Node) -> bool:
    data, picks = node.inputs[0], node.inputs[1]
    shape, wanted = g.static_shape(data), g.static_shape(picks)
    if data is None or picks is None or not shape or wanted is None or data.dtype is ir.DataType.BOOL:
        return False
    axis = g.int_attribute(node, "axis", 0) % len(shape)
    index = whole_index(graph, node, picks, shape, axis)
    row = reshaped(graph, node, data, (math.prod(shape),))
    replace([node], ir.node("Gather", [row, index], attributes={"axis": 0}))
    return True


def whole_index(graph: ir.Graph, node: ir.Node, picks: ir.Value, shape: tuple[int, ...], axis: int) -> ir.Value:
    """Places in a row of all elements of a tensor, of which ``picks`` gives one axis and has the others."""
    strides = [math.prod(shape[place + 1 :]) for place in range(len(shape))]
    others = coordinates(np.zeros(g.static_shape(picks) or (), np.int64), axis) @ np.array(strides, np.int64)
    found = g.constant(picks)
    if found is not None:
        signed = found.astype(np.int64)
        whole = np.where(signed < 0, signed + shape[axis], signed) * strides[axis] + others
        return g.add_initializer(graph, f"{node.name}_elements", whole.astype(found.dtype))
    assert picks.dtype is not None
    for op_type, operand, needed in (
        ("Mul", np.array(strides[axis]), strides[axis] != 1),
        ("Add", others, others.any()),
    ):
        if needed:
            stored = g.add_initializer(graph, f"{node.name}_{op_type.lower()}", operand.astype(picks.dtype.numpy()))
            made = insert(graph, node, op_type, [picks, stored], others.shape)
            made.type = picks.type
            picks = made
    return picks


def spell_out_negative_indices(model: ir.Model) -> int:
    """Count constant indices of a Gather or a GatherND from the front."""
    return sum(_from_front(model.graph, node) for node in list(model.graph) if node.op_type in ("Gather", "GatherND"))


def _from_front(graph: ir.Graph, node: ir.Node) -> bool:
    shape, indices = g.static_shape(node.inputs[0]), g.constant(node.inputs[1])
    if shape is None or indices is None or not (indices < 0).any():
        return False
    if node.op_type == "Gather":
        size = np.array(shape[g.int_attribute(node, "axis", 0)])
    else:
        batch = g.int_attribute(node, "batch_dims", 0)
        size = np.array(shape[batch : batch + indices.shape[-1]])
    positive = np.where(indices < 0, indices + size, indices).astype(indices.dtype)
    node.replace_input_with(1, g.add_initializer(graph, f"{node.name}_from_front", positive))
    return True


def spell_out_padding(model: ir.Model) -> int:
    """Replace a Pad that repeats elements by such a Pad of a picture for each axis, and what negative pads cut off by a Slice.

    A Pad that goes round becomes a Concat of what is repeated; integers, and what goes round more than once, are gathered by
    index.

    Refused: unknown sizes, pads or axes that are not constant.
    """
    return sum(_pad(model.graph, node) for node in list(model.graph) if is_op(node, "Pad"))


def _pad(graph: ir.Graph, node: ir.Node) -> bool:
    mode = g.attribute(node, "mode", "constant")
    name = mode.decode() if isinstance(mode, bytes) else str(mode)
    shape, found = g.static_shape(node.inputs[0]), g.constant(g.input_at(node, 1))
    if shape is None or found is None or node.inputs[0] is None:
        return False
    axes = g.constant(g.input_at(node, 3)) if g.input_at(node, 3) is not None else np.arange(len(shape))
    if axes is None:
        return False
    begins, ends = found[: len(axes)], found[len(axes) :]
    pads = {int(axis) % len(shape): (int(b), int(e)) for axis, b, e in zip(axes, begins, ends, strict=True) if b or e}
    cuts = {axis: both for axis, both in pads.items() if min(both) < 0}
    if cuts:
        return _cut(graph, node, found, shape, cuts)
    is_picture = len(shape) == 4 and all(axis > 1 for axis in pads) and name != "wrap"
    if is_picture or name == "constant":
        return False
    value, sizes, is_float = node.inputs[0], list(shape), node.inputs[0].dtype in (ir.DataType.FLOAT, None)
    for axis, (begin, end) in pads.items():
        size = sizes[axis]
        sizes[axis] = begin + size + end
        if name != "wrap" and is_float:
            value = _pad_as_picture(graph, node, value, axis, (begin, end), tuple(sizes))
        elif max(begin, end) <= size and name == "wrap":
            before = [_sliced(graph, node, value, {axis: (size - begin, size)})] if begin else []
            after = [_sliced(graph, node, value, {axis: (0, end)})] if end else []
            value = insert(graph, node, "Concat", [*before, value, *after], tuple(sizes), axis=axis)
        else:
            index = np.pad(np.arange(size), (begin, end), mode=name)  # type: ignore[call-overload]
            picks = g.add_initializer(graph, f"{node.name}_axis_{axis}", index.astype(np.int64))
            value = insert(graph, node, "Gather", [value, picks], tuple(sizes), axis=axis)
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


def _sliced(graph: ir.Graph, node: ir.Node, value: ir.Value, ranges: Mapping[int, tuple[int, int]]) -> ir.Value:
    """Along each axis the elements from the first number to in front of the second."""
    sizes = list(g.static_shape(value) or ())
    for axis, (start, stop) in ranges.items():
        sizes[axis] = stop - start
    starts, stops = zip(*ranges.values(), strict=True)
    bounds = {"starts": starts, "stops": stops, "axes": tuple(ranges)}
    stored = [g.add_initializer(graph, f"{node.name}_{name}", np.array(b, np.int64)) for name, b in bounds.items()]
    return insert(graph, node, "Slice", [value, *stored], tuple(sizes))


def _cut(
    graph: ir.Graph, node: ir.Node, pads: NDArray[np.int64], shape: tuple[int, ...], cuts: Mapping[int, tuple[int, int]]
) -> bool:
    """Put a Slice for negative pads in front of a Pad, which keeps the others and repeats what is left (as onnxruntime does)."""
    kept = {axis: (max(-begin, 0), shape[axis] - max(-end, 0)) for axis, (begin, end) in cuts.items()}
    if node.inputs[0] is None or 0 in shape or any(stop <= start for start, stop in kept.values()):
        return False
    value, left = _sliced(graph, node, node.inputs[0], kept), np.maximum(pads, 0)
    if left.any():
        node.replace_input_with(0, value)
        node.replace_input_with(1, g.add_initializer(graph, f"{node.name}_pads", left))
    else:
        replace([node], ir.node("Identity", [value]))
    return True
