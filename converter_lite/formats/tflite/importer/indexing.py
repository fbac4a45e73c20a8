"""Picking, placing and ordering elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.graph_builder import axis_of, rank_of
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.shaping import place_of
from converter_lite.formats.tflite.importer.slicing import FIRST, LAST
from converter_lite.formats.tflite.importer.values import check_count
from converter_lite.formats.tflite.importer.weights import product_mode

LOWEST, HIGHEST = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)


def _gather(ctx: Importer, op: Operator) -> None:
    """Along an axis, for each place in the first axes that data and indices share."""
    ctx.check_same_grid(op, 0)
    source, indices = op.inputs[:2]
    rank, places = ctx.rank(source), ctx.rank(indices)
    axis, shared = axis_of(int(op.get("axis")), rank), int(op.get("batch_dims"))
    shared = shared + places if shared < 0 else shared
    if shared == 0:
        ctx.bind(op.outputs[0], ctx.add("Gather", [ctx.value(source), ctx.value(indices)], axis=axis))
        return
    if not shared <= min(axis, places):
        raise ModelError(f"{shared} shared axes before axis {axis}")
    front = (*range(shared), axis, *(each for each in range(shared, rank) if each != axis))
    found = ctx.add(
        "GatherND",
        [ctx.value(source, front), ctx.add("Unsqueeze", [ctx.as_int64(indices), ctx.int64([-1])])],
        batch_dims=shared,
    )
    between, chosen = axis - shared, places - shared
    after = (*range(shared), *range(places, places + between), *range(shared, shared + chosen))
    order = (*after, *range(places + between, places + rank - shared - 1))
    if order != pm.identity(len(order)):
        found = ctx.add("Transpose", [found], perm=list(order))
    ctx.bind(op.outputs[0], found)


def _embedding_lookup(ctx: Importer, op: Operator) -> None:
    """Rows of a table, which may hold integers."""
    indices, table = op.inputs[:2]
    rows = ctx.weight(table, pm.identity(ctx.rank(table))) if ctx.is_constant(table) else ctx.value(table)
    found = ctx.add("Gather", [rows, ctx.value(indices)], axis=0, decision=product_mode(ctx, rows))
    ctx.bind(op.outputs[0], found)


def _gather_nd(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    ctx.bind(op.outputs[0], ctx.add("GatherND", [ctx.value(op.inputs[0]), ctx.as_int64(op.inputs[1])]))


def filled(ctx: Importer, shape: ir.Value, number: float, like: ir.Value) -> ir.Value:
    """A tensor of one number, of the type of another one."""
    kind = like.dtype.numpy() if like.dtype is not None else np.float32
    return ctx.add("ConstantOfShape", [shape], value=ir.Tensor(np.full(1, number, kind), name="number"))


def _scatter_nd(ctx: Importer, op: Operator) -> None:
    """Zeros with updates, which are added where they meet."""
    ctx.check_same_grid(op, 1)
    indices, updates = ctx.as_int64(op.inputs[0]), ctx.value(op.inputs[1])
    zeros = filled(ctx, ctx.as_int64(op.inputs[2]), 0, updates)
    ctx.bind(op.outputs[0], _scattered(ctx, zeros, indices, updates))


def _scattered(ctx: Importer, data: ir.Value, indices: ir.Value, updates: ir.Value, reduction: str = "add") -> ir.Value:
    """Updates at places; without a reduction where these are known to differ."""
    array = g.constant(indices)
    if array is not None and array.ndim and reduction == "add":
        flat = array.reshape(-1, array.shape[-1])
        reduction = "none" if len(np.unique(flat, axis=0)) == len(flat) else reduction
    given = None if reduction == "none" else reduction
    return ctx.add("ScatterND", [data, indices, updates], reduction=given)


def _sparse_to_dense(ctx: Importer, op: Operator) -> None:
    """One number everywhere, and values at places."""
    indices, values = ctx.as_int64(op.inputs[0]), ctx.value(op.inputs[2])
    if rank_of(indices) < 2:
        indices = ctx.add("Reshape", [indices, ctx.int64([-1, 1])])
    if rank_of(values) == 0:
        count = ctx.add("Gather", [ctx.add("Shape", [indices]), ctx.int64([0])])
        values = ctx.add("Expand", [values, count])
    data = ctx.add("Expand", [ctx.value(op.inputs[3]), ctx.as_int64(op.inputs[1])])
    ctx.bind(op.outputs[0], _scattered(ctx, data, indices, values, "none"))


def _one_hot(ctx: Importer, op: Operator) -> None:
    """Numbers outside of the range are nowhere; ONNX counts negative ones from behind."""
    indices, depth = ctx.value(op.inputs[0]), ctx.ints(op.inputs[1])[0]
    rank = rank_of(indices) + 1
    axis = axis_of(int(op.get("axis")), rank)
    shape = [depth if place == axis else 1 for place in range(rank)]
    kind = indices.dtype.numpy() if indices.dtype is not None else np.int32
    numbers = ctx.builder.constant(np.arange(check_count(depth)).reshape(shape), kind, "numbers")
    wide = ctx.add("Unsqueeze", [indices, ctx.int64([axis])])
    found = ctx.add("Equal", [wide, numbers])
    ctx.bind(op.outputs[0], ctx.add("Where", [found, ctx.value(op.inputs[2]), ctx.value(op.inputs[3])]))


def _top_k(ctx: Importer, op: Operator) -> None:
    count = ctx.add("Reshape", [ctx.as_int64(op.inputs[1]), ctx.int64([1])])
    values, places = ctx.add_many("TopK", [ctx.value(op.inputs[0]), count], 2, axis=-1)
    ctx.bind(op.outputs[0], values)
    ctx.bind(op.outputs[1], ctx.add("Cast", [places], to=ctx.element_type(op.outputs[1]).value))


def _arg(op_type: str) -> Handler:
    def handler(ctx: Importer, op: Operator) -> None:
        source = op.inputs[0]
        axis, order = axis_of(ctx.ints(op.inputs[1])[0], ctx.rank(source)), ctx.order(source)
        found = ctx.add(op_type, [ctx.any_value(source)], axis=place_of(order, axis), keepdims=0)
        kind = ctx.element_type(op.outputs[0])
        if kind != ir.DataType.INT64:
            found = ctx.add("Cast", [found], to=kind.value)
        ctx.bind(op.outputs[0], found, pm.without(order or pm.identity(ctx.rank(source)), [axis]))

    return handler


def _reverse(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    order = ctx.order(source)
    places = [place_of(order, axis_of(axis, ctx.rank(source))) for axis in ctx.ints(op.inputs[1])]
    lists = [[LAST] * len(places), [FIRST] * len(places), places, [-1] * len(places)]
    value = ctx.add("Slice", [ctx.any_value(source), *map(ctx.int64, lists)])
    ctx.bind(op.outputs[0], value, order or None)


def _reverse_sequence(ctx: Importer, op: Operator) -> None:
    """ONNX wants sequence and batch in the first two axes."""
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    rank = ctx.rank(source)
    time, batch = axis_of(int(op.get("seq_dim")), rank), axis_of(int(op.get("batch_dim")), rank)
    if time == batch:
        raise ModelError("sequence and batch are the same axis")
    order = (batch, time, *(axis for axis in range(rank) if axis not in (batch, time)))
    value, lengths = ctx.value(source, order), ctx.as_int64(op.inputs[1])
    ctx.bind(op.outputs[0], ctx.add("ReverseSequence", [value, lengths], batch_axis=0, time_axis=1), order)


def _cumsum(ctx: Importer, op: Operator) -> None:
    source = op.inputs[0]
    order = ctx.order(source)
    place = place_of(order, axis_of(ctx.ints(op.inputs[1])[0], ctx.rank(source)))
    flags = {name: int(bool(op.get(name))) for name in ("exclusive", "reverse")}
    axis = ctx.builder.constant(place, np.int64, "axis")
    ctx.bind(op.outputs[0], ctx.add("CumSum", [ctx.any_value(source), axis], **flags), order or None)


def _where(ctx: Importer, op: Operator) -> None:
    """Coordinates of what is true, one in a row."""
    found = ctx.add("NonZero", [ctx.value(op.inputs[0])])
    ctx.bind(op.outputs[0], ctx.add("Transpose", [found], perm=[1, 0]))


def _unique(ctx: Importer, op: Operator) -> None:
    """In the order in which they come first; with the place of each element among them."""
    value, kind = ctx.value(op.inputs[0]), ctx.element_type(op.outputs[0])
    narrow = kind not in (ir.DataType.FLOAT, ir.DataType.INT64)  # onnxruntime has it for these two
    value = ctx.add("Cast", [value], to=ir.DataType.INT64.value) if narrow else value
    values, _, places = ctx.add_many("Unique", [value], 3, sorted=0)
    ctx.bind(op.outputs[0], ctx.add("Cast", [values], to=kind.value) if narrow else values)
    ctx.bind(op.outputs[1], ctx.add("Cast", [places], to=ctx.element_type(op.outputs[1]).value))


def _dynamic_update_slice(ctx: Importer, op: Operator) -> None:
    """Part of a tensor is replaced, at a place that is moved so that it stays inside."""
    source, update = op.inputs[:2]
    shape, part = ctx.shape(source), ctx.shape(update)
    if len(shape) != len(part) or any(n < 0 for n in (*shape, *part)):
        raise ModelError("a size is open", hint="give the inputs fixed sizes with --inputShape")
    value, new = ctx.value(source), ctx.value(update)
    axes = [axis for axis, (whole, some) in enumerate(zip(shape, part, strict=True)) if whole != some]
    if not axes:
        ctx.same(op.outputs[0], update)
        return
    starts = ctx.add("Gather", [ctx.as_int64(op.inputs[2]), ctx.int64(axes)])
    room = ctx.int64([shape[axis] - part[axis] for axis in axes])
    starts = ctx.add("Min", [ctx.add("Max", [starts, ctx.int64([0])]), room])
    pads = ctx.add("Concat", [starts, ctx.add("Sub", [room, starts])], axis=0)
    kind = value.dtype.numpy() if value.dtype is not None else np.float32
    wide = ctx.add("Pad", [new, pads, ctx.builder.constant(0, kind), ctx.int64(axes)], mode="constant")
    inside = _inside(ctx, starts, axes, shape, part)
    ctx.bind(op.outputs[0], ctx.add("Where", [inside, wide, value]))


def _inside(
    ctx: Importer, starts: ir.Value, axes: Sequence[int], shape: Sequence[int], part: Sequence[int]
) -> ir.Value:
    """Where the part is that is replaced."""
    found = None
    for number, axis in enumerate(axes):
        start = ctx.add("Gather", [starts, ctx.int64([number])])
        stop = ctx.add("Add", [start, ctx.int64([part[axis]])])
        places = np.arange(check_count(shape[axis])).reshape([-1 if each == axis else 1 for each in range(len(shape))])
        numbers = ctx.builder.constant(places, np.int64, "places")
        here = ctx.add("And", [ctx.add("GreaterOrEqual", [numbers, start]), ctx.add("Less", [numbers, stop])])
        found = here if found is None else ctx.add("And", [found, here])
    assert found is not None
    return found


def _diagonal(ctx: Importer, rows: int, columns: int) -> ir.Value:
    if min(rows, columns) < 1:
        raise ModelError("a size is open", hint="give the inputs fixed sizes with --inputShape")
    check_count(rows * columns)
    return ctx.builder.constant(np.eye(rows, columns), np.bool_, "diagonal")


def _matrix_diag(ctx: Importer, op: Operator) -> None:
    value, size = ctx.value(op.inputs[0]), ctx.shape(op.inputs[0])[-1]
    kind = value.dtype.numpy() if value.dtype is not None else np.float32
    wide = ctx.add("Unsqueeze", [value, ctx.int64([-1])])
    zero = ctx.builder.constant(0, kind)
    ctx.bind(op.outputs[0], ctx.add("Where", [_diagonal(ctx, size, size), wide, zero]))


def _matrix_set_diag(ctx: Importer, op: Operator) -> None:
    rows, columns = ctx.shape(op.inputs[0])[-2:]
    wide = ctx.add("Unsqueeze", [ctx.value(op.inputs[1]), ctx.int64([-1 if rows <= columns else -2])])
    values = [_diagonal(ctx, rows, columns), wide, ctx.value(op.inputs[0])]
    ctx.bind(op.outputs[0], ctx.add("Where", values))


def _segment_sum(ctx: Importer, op: Operator) -> None:
    """Rows are added up by numbers, which grow from row to row."""
    data, ids = ctx.value(op.inputs[0]), ctx.as_int64(op.inputs[1])
    last = ctx.add("Slice", [ids, ctx.int64([-1]), ctx.int64([LAST]), ctx.int64([0])])
    count = ctx.add("Add", [last, ctx.int64([1])])
    ctx.bind(op.outputs[0], _by_number(ctx, data, ids, count, "add", 0.0))


def _by_number(ctx: Importer, data: ir.Value, ids: ir.Value, count: ir.Value, reduction: str, first: float) -> ir.Value:
    axes = ctx.int64(range(rank_of(ids), rank_of(data)))
    shape = ctx.add("Concat", [count, ctx.add("Gather", [ctx.add("Shape", [data]), axes])], axis=0)
    places = ctx.add("Unsqueeze", [ids, ctx.int64([-1])])
    return _scattered(ctx, filled(ctx, shape, first, data), places, data, reduction)


def _unsorted_segment(reduction: str, first: float) -> Handler:
    """The same in any order; what has a negative number is left out, by way of a row that is cut off."""

    def handler(ctx: Importer, op: Operator) -> None:
        data, ids = ctx.value(op.inputs[0]), ctx.as_int64(op.inputs[1])
        if data.dtype not in (ir.DataType.FLOAT, None) and abs(first) > 1:
            raise ModelError("only of float32")
        count = ctx.add("Reshape", [ctx.as_int64(op.inputs[2]), ctx.int64([1])])
        ids = ctx.add("Where", [ctx.add("Less", [ids, ctx.int64([0])]), count, ids])
        more = ctx.add("Add", [count, ctx.int64([1])])
        found = _by_number(ctx, data, ids, more, reduction, first)
        lists = [ctx.int64([0]), count, ctx.int64([0])]
        ctx.bind(op.outputs[0], ctx.add("Slice", [found, *lists]))

    return handler


def _bucketize(ctx: Importer, op: Operator) -> None:
    """How many boundaries are not above a number."""
    value = ctx.value(op.inputs[0])
    kind = value.dtype.numpy() if value.dtype is not None else np.float32
    bounds = ctx.builder.constant(np.asarray(op.get("boundaries", ()), np.float32), kind, "boundaries")
    wide = ctx.add("Unsqueeze", [value, ctx.int64([-1])])
    above = ctx.add("Cast", [ctx.add("GreaterOrEqual", [wide, bounds])], to=ir.DataType.INT32.value)
    ctx.bind(op.outputs[0], ctx.add("ReduceSum", [above, ctx.int64([-1])], keepdims=0))


HANDLERS: dict[str, Handler] = {
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "SCATTER_ND": _scatter_nd,
    "SPARSE_TO_DENSE": _sparse_to_dense,
    "ONE_HOT": _one_hot,
    "TOPK_V2": _top_k,
    "ARG_MAX": _arg("ArgMax"),
    "ARG_MIN": _arg("ArgMin"),
    "REVERSE_V2": _reverse,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "CUMSUM": _cumsum,
    "WHERE": _where,
    "UNIQUE": _unique,
    "DYNAMIC_UPDATE_SLICE": _dynamic_update_slice,
    "MATRIX_DIAG": _matrix_diag,
    "MATRIX_SET_DIAG": _matrix_set_diag,
    "SEGMENT_SUM": _segment_sum,
    "UNSORTED_SEGMENT_SUM": _unsorted_segment("add", 0.0),
    "UNSORTED_SEGMENT_PROD": _unsorted_segment("mul", 1.0),
    "UNSORTED_SEGMENT_MAX": _unsorted_segment("max", LOWEST),
    "UNSORTED_SEGMENT_MIN": _unsorted_segment("min", HIGHEST),
    "BUCKETIZE": _bucketize,
}
