"""Parts of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.shaping import concatenated, pieces, place_of, squeezed
from converter_lite.formats.tflite.importer.values import shape_of

LAST, FIRST = 2**31 - 1, -(2**31)
"""Beyond the end of every axis, and before its beginning."""


def sliced(
    ctx: Importer, index: int, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], steps: Sequence[int]
) -> ir.Value:
    """Part of a tensor, in the order of axes in which it exists; whole axes are left out."""
    order, value, shape = ctx.order(index), ctx.any_value(index), ctx.shape(index)
    kept = [
        (start, end, place_of(order, axis), stride)
        for start, end, axis, stride in zip(starts, ends, axes, steps, strict=True)
        if not (start == 0 and stride == 1 and (end == LAST or end == shape[axis]))
    ]
    if not kept:
        return value
    if len(kept) == 1:
        inside = _inside(ctx, value, *kept[0])
        if inside is not None:
            return inside
    lists = [ctx.int64(numbers, name) for numbers, name in zip(zip(*kept, strict=True), _NAMES, strict=True)]
    return ctx.add("Slice", [value, *lists])


def _inside(ctx: Importer, value: ir.Value, start: int, end: int, place: int, stride: int) -> ir.Value | None:
    """Some whole parts of a concatenation, which need not be put together first."""
    parts, found, at = pieces(ctx, value, place), list[ir.Value](), 0
    if not parts or start < 0 or end <= start or stride != 1:
        return None
    for part in parts:
        size = shape_of(part)[place]
        if size < 0 or at < start < at + size or at < end < at + size:
            return None
        if start <= at and at + size <= end and size:
            found.append(part)
        at += size
    return concatenated(ctx, found, place) if found else _nothing(ctx, value, place)


def _nothing(ctx: Importer, value: ir.Value, place: int) -> ir.Value | None:
    """A part without elements, which no node has to cut out; ``None`` where another size is open."""
    sizes = [0 if axis == place else size for axis, size in enumerate(shape_of(value))]
    if min(sizes) < 0 or value.dtype is None:
        return None
    return ctx.builder.constant(np.zeros(sizes), value.dtype.numpy(), "nothing")


_NAMES = ("starts", "ends", "axes", "steps")


def bind_part(ctx: Importer, index: int, source: int, value: ir.Value) -> None:
    """A tensor that has the order of axes of the one it was cut out of, and may be all of it."""
    if value is ctx.any_value(source):
        ctx.same(index, source)
    else:
        ctx.bind(index, value, ctx.order(source) or None)


def _slice(ctx: Importer, op: Operator) -> None:
    """From a beginning, so many elements; -1 takes all that are left."""
    ctx.check_same_grid(op, 0)
    source = op.inputs[0]
    if not all(ctx.is_constant(index) for index in op.inputs[1:3]):
        _slice_computed(ctx, op)
        return
    starts, sizes = ctx.ints(op.inputs[1]), ctx.ints(op.inputs[2])
    ends = [LAST if size == -1 else start + size for start, size in zip(starts, sizes, strict=True)]
    axes = range(len(starts))
    bind_part(ctx, op.outputs[0], source, sliced(ctx, source, starts, ends, axes, [1] * len(starts)))


def _slice_computed(ctx: Importer, op: Operator) -> None:
    value, rank = ctx.value(op.inputs[0]), ctx.rank(op.inputs[0])
    starts, sizes = ctx.as_int64(op.inputs[1]), ctx.as_int64(op.inputs[2])
    ends = ctx.add("Add", [starts, sizes])
    if not ctx.is_constant(op.inputs[2]) or -1 in ctx.ints(op.inputs[2]):
        rest = ctx.add("Equal", [sizes, ctx.int64([-1])])
        ends = ctx.add("Where", [rest, ctx.int64([LAST]), ends])
    ctx.bind(op.outputs[0], ctx.add("Slice", [value, starts, ends, ctx.int64(range(rank), "axes")]))


@dataclass(slots=True)
class _Part:
    """What a STRIDED_SLICE takes of each axis.

    Attributes:
        axes: Those that are cut; a position in begin, end and strides for each.
        positions: These positions.
        shrunk: Axes that disappear, of which one element is taken.
        added: Where the result has new axes.
    """

    axes: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    shrunk: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def _part(op: Operator, count: int, rank: int) -> _Part:
    """What the masks of a STRIDED_SLICE say.

    Args:
        op: The operator.
        count: Length of begin, end and strides.
        rank: Of the tensor.

    Raises:
        ModelError: They do not fit the tensor.
    """
    ellipses = [position for position in range(count) if _is_marked(op, "ellipsis", position)]
    new = [p for p in range(count) if _is_marked(op, "new_axis", p) and p not in ellipses]
    if len(ellipses) > 1 or count - len(ellipses) - len(new) > rank:
        raise ModelError(f"it names {count} axes of {rank}")
    part, axis, place = _Part(), 0, 0
    for position in range(count):
        if position in ellipses:
            skipped = rank - (count - len(ellipses) - len(new))
            axis, place = axis + skipped, place + skipped
        elif position in new:
            part.added.append(place)
            place += 1
        else:
            part.axes.append(axis)
            part.positions.append(position)
            if _is_marked(op, "shrink_axis", position):
                part.shrunk.append(axis)
            else:
                place += 1
            axis += 1
    return part


def _strided_slice(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    source, rank = op.inputs[0], ctx.rank(op.inputs[0])
    strides = ctx.ints(op.inputs[3])
    part = _part(op, len(strides), rank)
    if 0 in strides or any(strides[p] < 0 for a, p in zip(part.axes, part.positions, strict=True) if a in part.shrunk):
        raise ModelError(f"its strides are {strides}")
    if all(ctx.is_constant(index) for index in op.inputs[1:3]):
        value = _cut(ctx, op, part, strides)
    else:
        value = _cut_computed(ctx, op, part, strides)
    value, order = squeezed(ctx, value, ctx.order(source), part.shrunk)
    if part.added:
        if order != tuple(range(len(order))):
            value = ctx.add("Transpose", [value], perm=[order.index(axis) for axis in range(len(order))])
        value = ctx.add("Unsqueeze", [value, ctx.int64(part.added, "axes")])
        ctx.bind(op.outputs[0], value)
    elif value is ctx.any_value(source):
        ctx.same(op.outputs[0], source)
    else:
        ctx.bind(op.outputs[0], value, order)


def _cut(ctx: Importer, op: Operator, part: _Part, strides: Sequence[int]) -> ir.Value:
    begin, end = ctx.ints(op.inputs[1]), ctx.ints(op.inputs[2])
    if op.get("offset"):
        end = [first + length for first, length in zip(begin, end, strict=True)]
    starts, ends, steps, sizes = [], [], [], ctx.shape(op.inputs[0])
    for axis, position in zip(part.axes, part.positions, strict=True):
        start, stop, stride = begin[position], end[position], strides[position]
        if _is_marked(op, "begin", position):
            start = 0 if stride > 0 else LAST
        if axis in part.shrunk:
            stop, stride = LAST if start == -1 else start + 1, 1
        elif _is_marked(op, "end", position):
            stop = LAST if stride > 0 else FIRST
        if stride < 0 and start < -sizes[axis] <= 0:  # ONNX would begin with the first element
            start, stop, stride = 0, 0, 1
        starts.append(start)
        ends.append(stop)
        steps.append(stride)
    return sliced(ctx, op.inputs[0], starts, ends, part.axes, steps)


def _cut_computed(ctx: Importer, op: Operator, part: _Part, strides: Sequence[int]) -> ir.Value:
    """The same for bounds that only a run will tell."""
    source, positions = op.inputs[0], ctx.int64(part.positions, "positions")
    begin, end = (ctx.add("Gather", [ctx.as_int64(index), positions]) for index in op.inputs[1:3])
    if op.get("offset"):
        end = ctx.add("Add", [begin, end])
    steps = [1 if axis in part.shrunk else strides[p] for axis, p in zip(part.axes, part.positions, strict=True)]
    starts = [
        None if not _is_marked(op, "begin", p) else 0 if s > 0 else LAST
        for p, s in zip(part.positions, steps, strict=True)
    ]
    stops = [
        None if axis in part.shrunk or not _is_marked(op, "end", p) else LAST if s > 0 else FIRST
        for axis, p, s in zip(part.axes, part.positions, steps, strict=True)
    ]
    begin, end = _replaced(ctx, begin, starts), _replaced(ctx, end, stops)
    if part.shrunk:
        behind = ctx.add("Add", [begin, ctx.int64([1])])
        behind = ctx.add("Where", [ctx.add("Equal", [behind, ctx.int64([0])]), ctx.int64([LAST]), behind])
        alone = ctx.builder.constant([axis in part.shrunk for axis in part.axes], np.bool_, "shrunk")
        end = ctx.add("Where", [alone, behind, end])
    places = [place_of(ctx.order(source), axis) for axis in part.axes]
    return ctx.add("Slice", [ctx.any_value(source), begin, end, ctx.int64(places, "axes"), ctx.int64(steps, "steps")])


def _is_marked(op: Operator, mask: str, position: int) -> bool:
    return bool(int(op.get(f"{mask}_mask")) >> position & 1)


def _replaced(ctx: Importer, value: ir.Value, numbers: Sequence[int | None]) -> ir.Value:
    """A vector with some of its numbers replaced."""
    if all(number is None for number in numbers):
        return value
    mask = ctx.builder.constant([number is not None for number in numbers], np.bool_, "masked")
    return ctx.add("Where", [mask, ctx.int64([number or 0 for number in numbers]), value])


HANDLERS: dict[str, Handler] = {"SLICE": _slice, "STRIDED_SLICE": _strided_slice}
