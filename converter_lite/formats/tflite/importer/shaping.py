"""Operators that change the shape of a tensor, or the order of its axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.graph_builder import axis_of, rank_of
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer import folding
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.elementwise import aligned
from converter_lite.formats.tflite.importer.folding import Size


def place_of(order: Perm | None, axis: int) -> int:
    """Where a value in this order has an axis of the tensor."""
    return order.index(axis) if order else axis


def _reshape(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    sizes: Sequence[Size] | None = ctx.sizes(op.inputs[1]) if op.has(1) else [int(n) for n in op.get("new_shape", ())]
    if sizes is None:
        ctx.bind(op.outputs[0], ctx.add("Reshape", [ctx.value(op.inputs[0]), ctx.as_int64(op.inputs[1])]))
        return
    if not op.has(1) and not sizes:
        raise ModelError("it has no shape to give")
    if not op.has(1) and sizes == [0]:
        sizes = []  # how old converters wrote a scalar
    if 0 in sizes:
        raise ModelError("its result has no elements")
    ctx.bind(op.outputs[0], ctx.flattened(op.inputs[0], sizes, lambda: ctx.as_int64(op.inputs[1])))


def _squeeze(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    shape = ctx.shape(source)
    axes = sorted({axis_of(int(axis), len(shape)) for axis in op.get("squeeze_dims", ())})
    if not axes:
        if -1 in shape:
            raise ModelError(
                "it takes away all axes of size 1, and some sizes are open",
                hint="give the inputs fixed sizes with --inputShape",
            )
        axes = [axis for axis, size in enumerate(shape) if size == 1]
    order, value = ctx.order(source), ctx.any_value(source)
    value, order = squeezed(ctx, value, order, axes)
    ctx.bind(op.outputs[0], value, order)


def squeezed(ctx: Importer, value: ir.Value, order: Perm, axes: Sequence[int]) -> tuple[ir.Value, Perm]:
    """A value without some axes of size 1, and the order of the others."""
    order = order or pm.identity(rank_of(value))
    if axes:
        places = sorted(order.index(axis) for axis in axes)
        value = ctx.add("Squeeze", [value, ctx.int64(places, "axes")])
    return value, pm.without(order, axes)


def _expand_dims(ctx: Importer, op: Operator) -> None:
    """In front where the order of axes is another one: no Transpose is needed for it."""
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    rank, order = ctx.rank(source), ctx.order(source)
    axis = axis_of(ctx.ints(op.inputs[1])[0], rank + 1)
    place = 0 if order else axis
    value = ctx.add("Unsqueeze", [ctx.any_value(source), ctx.int64([place], "axes")])
    wider = (axis, *(each + (each >= axis) for each in order)) if order else None
    ctx.bind(op.outputs[0], value, wider)


def _transpose(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    ctx.reorder(op.outputs[0], op.inputs[0], ctx.ints(op.inputs[1]))


def _shape(ctx: Importer, op: Operator) -> None:
    source = op.inputs[0]
    order, value = ctx.order(source), ctx.any_value(source)
    sizes = ctx.add("Shape", [value])
    if order:
        sizes = ctx.add("Gather", [sizes, ctx.int64(pm.between(order, pm.identity(len(order))), "axes")])
    kind = ir.DataType.INT64 if op.get("out_type", TensorType.INT32) == TensorType.INT64 else ir.DataType.INT32
    ctx.bind(op.outputs[0], ctx.add("Cast", [sizes], to=kind.value))


def _rank(ctx: Importer, op: Operator) -> None:
    ctx.bind(op.outputs[0], ctx.builder.constant(ctx.rank(op.inputs[0]), np.int32))


def _concatenation(ctx: Importer, op: Operator) -> None:
    axis = axis_of(int(op.get("axis")), ctx.rank(op.inputs[0]))
    given = [index for index in op.inputs if ctx.shape(index)[axis] != 0] or list(op.inputs[:1])
    if op.get("activation"):
        raise ModelError("a fused activation, which the runtime does not compute")
    if len(given) == 1:
        ctx.same(op.outputs[0], given[0])
        return
    values, order = aligned(ctx, given)
    ctx.bind(op.outputs[0], concatenated(ctx, values, place_of(order, axis)), order)


def concatenated(ctx: Importer, values: Sequence[ir.Value], place: int) -> ir.Value:
    """Values behind one another; those that are concatenations themselves are taken apart."""
    parts = [part for value in values for part in pieces(ctx, value, place) or [value]]
    numbers = folding.computed("Concat", parts, {"axis": place})
    if numbers is not None:
        return ctx.add("Concat", parts, axis=place)
    return parts[0] if len(parts) == 1 else ctx.builder.join(parts, place)


def pieces(ctx: Importer, value: ir.Value, place: int) -> tuple[ir.Value, ...]:
    """What a value is a concatenation of along an axis; nothing if it is none, or rounded to a grid of its own."""
    join = ctx.builder.parts(value)
    is_whole = join is not None and join.axis == place and value.name not in ctx.builder.plan.activations
    return join.parts if join is not None and is_whole else ()


def _pack(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op)
    axis = axis_of(int(op.get("axis")), ctx.rank(op.inputs[0]) + 1)
    axes = ctx.int64([axis], "axes")
    parts = [ctx.add("Unsqueeze", [ctx.value(index), axes]) for index in op.inputs]
    ctx.bind(op.outputs[0], parts[0] if len(parts) == 1 else ctx.add("Concat", parts, axis=axis))


def _unpack(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op)
    source = op.inputs[0]
    axis = axis_of(int(op.get("axis")), ctx.rank(source))
    for index, part in zip(op.outputs, _parts(ctx, op, source, axis, [1] * len(op.outputs)), strict=True):
        value, order = squeezed(ctx, part, ctx.order(source), [axis])
        ctx.bind(index, value, order)


def _parts(ctx: Importer, op: Operator, source: int, axis: int, sizes: list[int] | None) -> list[ir.Value]:
    """A tensor in pieces along an axis; pieces of equal size without ``sizes``."""
    value, place = ctx.any_value(source), place_of(ctx.order(source), axis)
    known = ctx.shape(source)[axis]
    if len(op.outputs) == 1:
        return [value]
    if sizes is None and known > 0 and known % len(op.outputs) == 0:
        sizes = [known // len(op.outputs)] * len(op.outputs)
    if sizes is None:
        return ctx.add_many("Split", [value], len(op.outputs), axis=place, num_outputs=len(op.outputs))
    if len(sizes) != len(op.outputs) or (known >= 0 and sum(sizes) != known):
        raise ModelError(f"{known} elements cannot be split into {sizes}")
    return ctx.add_many("Split", [value, ctx.int64(sizes, "sizes")], len(sizes), axis=place)


def _bind_parts(ctx: Importer, op: Operator, source: int, parts: Sequence[ir.Value]) -> None:
    order = ctx.order(source) or None
    for index, part in zip(op.outputs, parts, strict=True):
        if len(parts) == 1:
            ctx.same(index, source)
        else:
            ctx.bind(index, part, order)


def _split(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 1)
    source = op.inputs[1]
    axis = axis_of(ctx.ints(op.inputs[0])[0], ctx.rank(source))
    _bind_parts(ctx, op, source, _parts(ctx, op, source, axis, None))


def _split_v(ctx: Importer, op: Operator) -> None:
    """One of the sizes may be left to what is there."""
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    axis, sizes = axis_of(ctx.ints(op.inputs[2])[0], ctx.rank(source)), ctx.ints(op.inputs[1])
    if -1 in sizes:
        known = ctx.shape(source)[axis]
        if known < 0 or sizes.count(-1) > 1:
            raise ModelError("the size of a part is open")
        sizes = [known - sum(sizes) - 1 if size == -1 else size for size in sizes]
    _bind_parts(ctx, op, source, _parts(ctx, op, source, axis, sizes))


def _fill(ctx: Importer, op: Operator) -> None:
    ctx.bind(op.outputs[0], ctx.add("Expand", [ctx.value(op.inputs[1]), ctx.as_int64(op.inputs[0])]))


def _range(ctx: Importer, op: Operator) -> None:
    values = [ctx.value(index) for index in op.inputs[:3]]
    ctx.bind(op.outputs[0], ctx.add("Range", values))


def _tile(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    order, value = ctx.order(source), ctx.any_value(source)
    repeats = ctx.as_int64(op.inputs[1])
    if order:
        repeats = ctx.add("Gather", [repeats, ctx.int64(order, "axes")])
    ctx.bind(op.outputs[0], ctx.add("Tile", [value, repeats]), order or None)


def _broadcast_to(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    ctx.bind(op.outputs[0], ctx.add("Expand", [ctx.value(op.inputs[0]), ctx.as_int64(op.inputs[1])]))


def _broadcast_args(ctx: Importer, op: Operator) -> None:
    """The shape that two shapes broadcast to."""
    values = [ctx.value(index) for index in op.inputs[:2]]
    lengths = [ctx.shape(index)[0] for index in op.inputs[:2]]
    if -1 in lengths:
        raise ModelError("the number of axes is open")
    kind = np.int64 if values[0].dtype == ir.DataType.INT64 else np.int32
    wide = [
        value if length == max(lengths) else ctx.add("Concat", [_ones(ctx, max(lengths) - length, kind), value], axis=0)
        for value, length in zip(values, lengths, strict=True)
    ]
    ctx.bind(op.outputs[0], ctx.add("Max", wide))


def _ones(ctx: Importer, count: int, kind: type[np.signedinteger]) -> ir.Value:
    return ctx.builder.constant(np.ones(count, kind), kind, "ones")


HANDLERS: dict[str, Handler] = {
    "RESHAPE": _reshape,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "TRANSPOSE": _transpose,
    "SHAPE": _shape,
    "RANK": _rank,
    "CONCATENATION": _concatenation,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "FILL": _fill,
    "RANGE": _range,
    "TILE": _tile,
    "BROADCAST_TO": _broadcast_to,
    "BROADCAST_ARGS": _broadcast_args,
}
