"""Picking by index."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.counting import counted
from converter_lite.passes.spelled_out.inserting import insert, reshaped

GATHERS = ("Gather", "GatherElements", "GatherND")
WHOLE = (ir.DataType.INT32, ir.DataType.INT64)


@for_each("ReverseSequence")
def spell_out_reversal(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a ReverseSequence whose sequences have one constant length by a Gather along the axis of time.

    Refused: unknown sizes, lengths that are not constant, or differ.
    """
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


@for_each("GatherND")
def spell_out_batched_gather(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a GatherND with ``batch_dims`` by one without: positions in the batch become indices, beside those given.

    Refused: computed indices of unknown sizes.
    """
    batch, data, picks = g.int_attribute(node, "batch_dims", 0), node.inputs[0], node.inputs[1]
    indices, shape = g.constant(picks), g.static_shape(picks)
    if not batch or data is None or picks is None or shape is None:
        return False
    kind = (picks.dtype or ir.DataType.INT64).numpy()
    positions = np.stack(np.meshgrid(*map(np.arange, shape[:-1]), indexing="ij"), axis=-1)[..., :batch].astype(kind)
    if indices is None:
        stored = g.add_initializer(graph, f"{node.name}_positions", positions)
        whole = insert(graph, node, "Concat", [stored, picks], (*shape[:-1], batch + shape[-1]), axis=-1)
        whole.type = picks.type
    else:
        whole = g.add_initializer(graph, f"{node.name}_indices", np.concatenate([positions, indices], axis=-1))
    replace([node], ir.node("GatherND", [data, whole]))
    return True


@for_each("GatherElements")
def spell_out_gather_elements(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a GatherElements by a Gather from all elements in a row.

    ::

        indices * stride of the axis + position in the other axes ─ Gather(elements in a row) ─ y

    Refused: unknown sizes, and truth values.
    """
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
    picks = counted(graph, node, picks, [shape[axis]])
    found = g.constant(picks)
    if found is not None:
        whole = found.astype(np.int64) * strides[axis] + others
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


@for_each(*GATHERS)
def spell_out_negative_indices(graph: ir.Graph, node: ir.Node) -> bool:
    """Count indices of a Gather, GatherElements or GatherND from the front, constant ones and computed ones.

    Inputs of the model that are looked up in a table, as numbers of words are, count from the front as they are.
    """
    data, picks = node.inputs[0], node.inputs[1]
    if data is None or data.shape is None or picks is None:
        return False
    if node.op_type == "GatherND":
        wanted, batch = g.static_shape(picks), g.int_attribute(node, "batch_dims", 0)
        sizes = list(data.shape[batch : batch + wanted[-1]]) if wanted else [None]
    else:
        sizes = [data.shape[g.int_attribute(node, "axis", 0)]]
    if not all(isinstance(size, int) for size in sizes):
        return False
    is_look_up = node.op_type == "Gather"
    whole = counted(graph, node, picks, sizes, trusted_inputs=is_look_up)  # type: ignore[arg-type]
    node.replace_input_with(1, whole)
    return whole is not picks


@for_each("OneHot")
def spell_out_negative_classes(graph: ir.Graph, node: ir.Node) -> bool:
    """Count computed classes of a OneHot from the front; those beyond its depth stay beyond it."""
    picks, depth = node.inputs[0], g.scalar(node.inputs[1])
    if picks is None or g.is_constant(picks) or depth is None or picks.dtype not in WHOLE:
        return False
    whole = counted(graph, node, picks, [int(depth)])
    node.replace_input_with(0, whole)
    return whole is not picks
