"""Operators that pick elements by index, or put them there."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower, axis_of, required
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.weights import weight
from converter_lite.graph import constant, int_attribute, is_constant, text_attribute

_MAX_PICKS = 1 << 20
"""Indices up to which GatherElements is written out; each takes four bytes per axis."""

_SCATTERS = {"none": "ScatterNdUpdate", "add": "TensorScatterAdd"}
"""Reduction of a ScatterND -> operator."""

_MAX_ONE_HOT = 4096
"""Classes up to which OneHot is a look-up in a table of classes x classes."""


def _gather(ctx: Lowering, node: ir.Node) -> None:
    data, picks, out = required(node, 0), required(node, 1), node.outputs[0]
    rank, pick_rank = len(ctx.shape(data)), len(ctx.shape(picks))
    axis = axis_of(node, rank, 0)
    mark = QuantType.NONE
    perm = ctx.best_perm([data], rank) if pick_rank == 1 else pm.identity(rank)
    if is_constant(data):
        perm = pm.identity(rank)
        stored = weight(ctx, node, data, perm, axis=axis)
        source = stored.index
        mark = QuantType.WEIGHT if stored.mark is QuantType.DYNAMIC else stored.mark
    else:
        source = ctx.use(data, perm)
    place = perm.index(axis)
    indices = _indices(ctx, picks)
    inputs = [source, indices, ctx.int_constant([place], "axis")]
    result = perm if pick_rank == 1 else pm.identity(len(ctx.shape(out)))
    dims = pm.permute(ctx.shape(out), result)
    ctx.bind(out, ctx.emit("Gather", inputs, dims, dtype=ctx.dtype(out), quant_type=mark), result)


def _indices(ctx: Lowering, picks: ir.Value) -> int:
    """Indices of 32 bits; they count from the front already."""
    array = constant(picks)
    if array is None:
        return ctx.cast(ctx.use(picks), DataType.INT32)
    return ctx.cached((picks, "indices"), lambda: ctx.add_constant(array.astype(np.int32), picks.name or "indices"))


def _gather_nd(ctx: Lowering, node: ir.Node) -> None:
    if int_attribute(node, "batch_dims", 0):
        raise Unsupported("batch_dims")
    data, picks, out = required(node, 0), required(node, 1), node.outputs[0]
    inputs = [ctx.use(data), _indices(ctx, picks)]
    ctx.bind(out, ctx.emit("GatherNd", inputs, ctx.shape(out), dtype=ctx.dtype(out)))


def _scatter_nd(ctx: Lowering, node: ir.Node) -> None:
    data, places, updates = (required(node, place) for place in range(3))
    reduction = text_attribute(node, "reduction", "none")
    if reduction not in _SCATTERS:
        raise Unsupported(f"reduction={reduction}")
    out = node.outputs[0]
    inputs = [ctx.use(data), _indices(ctx, places), ctx.use(updates)]
    ctx.bind(out, ctx.emit(_SCATTERS[reduction], inputs, ctx.shape(out), dtype=ctx.dtype(out)))


def _one_hot(ctx: Lowering, node: ir.Node) -> None:
    """A look-up in a table that holds the encoded row of every class.

    The runtime counts rows below zero from the end, and finds zeros beyond the table. Where others are wanted, two rows
    between the classes and the same classes from the end hold them.
    """
    picks, out = required(node, 0), node.outputs[0]
    depth = ctx.ints(required(node, 1), "depth")[0]
    off, on = ctx.array(required(node, 2), "values").reshape(-1)
    if depth > _MAX_ONE_HOT:
        raise Unsupported(f"{depth} classes (at most {_MAX_ONE_HOT})")
    table = np.full((depth, depth), off)
    np.fill_diagonal(table, on)
    rank = len(ctx.shape(out))
    axis = axis_of(node, rank, -1)
    indices = ctx.cast(ctx.use(picks), DataType.INT32)
    if off:
        table = np.concatenate([table, np.full((2, depth), off), table])
        for op, bound in (("Maximum", -depth - 1), ("Minimum", depth)):
            indices = ctx.emit(
                op, [indices, ctx.int_constant([bound], "class")], ctx.shape(picks), dtype=DataType.INT32
            )
    rows = ctx.add_constant(table, f"{node.name}_table")
    dims = (*ctx.shape(picks), depth)
    index = ctx.emit("Gather", [rows, indices, ctx.int_constant([0], "axis")], dims, dtype=ctx.dtype(out))
    ctx.bind(out, index, (*(a for a in range(rank) if a != axis), axis))


def _gather_elements(ctx: Lowering, node: ir.Node) -> None:
    """One GatherNd with all coordinates: those of the other axes are constants."""
    data, picks, out = required(node, 0), required(node, 1), node.outputs[0]
    shape, rank = ctx.shape(picks), len(ctx.shape(data))
    axis = axis_of(node, rank, 0)
    if int(np.prod(shape)) > _MAX_PICKS:
        raise Unsupported(f"{int(np.prod(shape))} indices (at most {_MAX_PICKS})")
    grid = np.stack(np.meshgrid(*(np.arange(d) for d in shape), indexing="ij"), axis=-1).astype(np.int32)
    lead, tail = grid[..., :axis], grid[..., axis + 1 :]
    column = ctx.reshape(_indices(ctx, picks), (*shape, 1))
    parts = [ctx.add_constant(lead, "coordinates")] if axis else []
    parts += [column] + ([ctx.add_constant(tail, "coordinates")] if axis + 1 < rank else [])
    index = column if rank == 1 else ctx.emit("Concat", parts, (*shape, rank), dtype=DataType.INT32, axis=rank)
    ctx.bind(out, ctx.emit("GatherNd", [ctx.use(data), index], shape, dtype=ctx.dtype(out)))


TABLE: dict[str, Lower] = {
    "Gather": _gather,
    "GatherND": _gather_nd,
    "GatherElements": _gather_elements,
    "ScatterND": _scatter_nd,
    "OneHot": _one_hot,
}
