"""Parts of tensors: slices, rows of tables, elements by their places."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step

FARTHEST = (1 << 31) - 1
"""An end behind every element."""


def _strided_slice(step: Step) -> None:
    """Python's slices; bits of the masks say where an index, a new axis or an ellipsis stands, or a limit is left out.

    Source: documentation of ``mindspore.ops.strided_slice``.
    """
    rank = step.rank("x")
    begins, ends, strides = (step.integers(name) for name in ("begin", "end", "strides"))
    masks = {name: step.integer(f"{name}_mask", 0) for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    if not len(begins) == len(ends) == len(strides):
        raise ModelError(f"begin {list(begins)}, end {list(ends)} and strides {list(strides)}")
    if masks["ellipsis"] & masks["ellipsis"] - 1:
        raise ModelError("two ellipses")
    consumed = sum(not (masks["new_axis"] | masks["ellipsis"]) >> place & 1 for place in range(len(begins)))
    axis, limits, removed, added, position = 0, list[tuple[int, int, int, int]](), list[int](), list[int](), 0
    for place, (begin, end, stride) in enumerate(zip(begins, ends, strides, strict=True)):
        bits = {name for name, mask in masks.items() if mask >> place & 1}
        if "ellipsis" in bits:
            axis, position = axis + rank - consumed, position + rank - consumed
        elif "new_axis" in bits:
            added.append(position)
            position += 1
        elif "shrink_axis" in bits:
            limits.append((axis, begin, begin + 1 if begin != -1 else FARTHEST, 1))
            removed.append(axis)
            axis += 1
        else:
            if not stride:
                raise ModelError("a stride of 0")
            outer = (0, FARTHEST) if stride > 0 else (FARTHEST, -FARTHEST)
            limits.append((axis, outer[0] if "begin" in bits else begin, outer[1] if "end" in bits else end, stride))
            axis, position = axis + 1, position + 1
    if axis > rank:
        raise ModelError(f"it slices {axis} axes of {rank}")
    _emit_slice(step, [limit for limit in limits if limit[1:] != (0, FARTHEST, 1)], removed, added)


def _emit_slice(step: Step, limits: list[tuple[int, int, int, int]], removed: list[int], added: list[int]) -> None:
    """A Slice, a Squeeze and an Unsqueeze, as far as they are needed; the last one gives the result."""
    value, todo = step.tensor("x"), list[tuple[str, tuple[ir.Value, ...]]]()
    if limits:
        axes, starts, ends, strides = zip(*limits, strict=True)
        named = zip(("starts", "ends", "axes", "steps"), (starts, ends, axes, strides), strict=True)
        todo.append(("Slice", tuple(step.ints(name, numbers) for name, numbers in named)))
    if removed:
        todo.append(("Squeeze", (step.ints("removed", removed),)))
    if added:
        todo.append(("Unsqueeze", (step.ints("added", added),)))
    for index, (name, inputs) in enumerate(todo):
        make = step.finish if index == len(todo) - 1 else step.emit
        value = make(name, value, *inputs)
    if not todo:
        step.give(value)


def _slice(step: Step) -> None:
    """A part of each axis; -1 is the rest of it."""
    begins, sizes = step.integers("begin"), step.integers("size")
    if len(begins) != len(sizes) or len(begins) != step.rank("x"):
        raise ModelError(f"begin {list(begins)} and size {list(sizes)} for {step.rank('x')} axes")
    limits = [
        (axis, begin, FARTHEST if size == -1 else begin + size, 1)
        for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True))
    ]
    _emit_slice(step, [limit for limit in limits if limit[1:] != (0, FARTHEST, 1)], [], [])


def _slice_axis(step: Step) -> None:
    """A part of one axis, by its end or by its length."""
    axis, start = step.axis("axis", step.rank("x")), step.integer("start")
    if step.operator in ("Narrow", "NarrowView"):
        end = start + step.integer("length")
        end = FARTHEST if start < 0 <= end else end
    else:
        end = step.integer("end")
    stride = step.integer("step", 1)
    if stride < 1:
        raise ModelError(f"a stride of {stride}")
    _emit_slice(step, [(axis, start, min(end, FARTHEST), stride)], [], [])


def _select(step: Step) -> None:
    """One place of an axis, which goes away."""
    axis, index = step.axis("axis", step.rank("x")), step.integer("index")
    _emit_slice(step, [(axis, index, index + 1 if index != -1 else FARTHEST, 1)], [axis], [])


def _gather(step: Step) -> None:
    if step.integer("batch_dims", 0):
        raise ModelError("batch_dims, other rows for each part of a batch")
    table, places = step.tensor("x"), _places(step, "index")
    step.finish("Gather", table, places, axis=step.axis("axis", step.rank("x"), 0))


def _places(step: Step, name: str) -> ir.Value:
    value = step.tensor(name)
    if value.dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return step.emit("Cast", value, to=int(ir.DataType.INT64))
    return value


def _embedding(step: Step) -> None:
    if step.has("max_norm"):
        raise ModelError("max_norm, rows that are scaled when they are read")
    step.finish("Gather", step.tensor("weight"), _places(step, "index"), axis=0)


def _embedding_lookup(step: Step) -> None:
    """Rows of a table whose first one has the number ``offset``."""
    if step.integer("offset", 0):
        raise ModelError(f"offset {step.integer('offset')}, a part of a table that others hold, too")
    step.finish("Gather", step.tensor("weight"), _places(step, "index"), axis=0)


def _gather_elements(step: Step) -> None:
    step.finish("GatherElements", step.tensor("x"), _places(step, "index"), axis=step.axis("axis", step.rank("x")))


def _gather_nd(step: Step) -> None:
    step.finish("GatherND", step.tensor("x"), step.converted(step.tensor("index"), ir.DataType.INT64))


def _one_hot(step: Step) -> None:
    """A new axis with one number at the place, and another one elsewhere."""
    places = step.converted(step.tensor("index"), ir.DataType.INT64)
    depth, rank = step.integer("depth"), step.rank("index")
    on, off = step.tensor("on"), step.tensor("off")
    if on.const_value is None or off.const_value is None:
        raise ModelError("its numbers are known at run time only")
    pair = np.concatenate(
        [value.const_value.numpy().reshape(-1) for value in (off, on) if value.const_value is not None]
    )
    if depth < 1 or pair.size != 2:
        raise ModelError(f"a depth of {depth} for {pair.size} numbers")
    axis = step.axis("axis", rank + 1, -1)
    step.finish("OneHot", places, step.ints("depth", depth), step.constant("values", pair, numpy_type(on)), axis=axis)


def _roll(step: Step) -> None:
    """What goes over the end of an axis comes in at its beginning."""
    shape, shifts = step.shape("x"), step.integers("shift")
    axes = step.axes("axis", len(shape), None)
    if len(axes) != len(shifts) or not axes:
        raise ModelError(f"shifts {list(shifts)} of axes {axes}")
    value = step.tensor("x")
    for index, (axis, shift) in enumerate(zip(axes, shifts, strict=True)):
        first = -shift % shape[axis]
        places = step.ints("places", np.roll(np.arange(shape[axis]), -first))
        step.importer.take(shape[axis])
        make = step.finish if index == len(axes) - 1 else step.emit
        value = make("Gather", value, places, axis=axis)


def _reverse(step: Step) -> None:
    axes = step.axes("axis", step.rank("x"))
    if not axes:
        step.give(step.tensor("x"))
        return
    _emit_slice(step, [(axis, FARTHEST, -FARTHEST, -1) for axis in axes], [], [])


def _reverse_sequence(step: Step) -> None:
    """The beginnings of sequences of different lengths, from their ends."""
    time, batch = (step.axis(name, step.rank("x"), 0) for name in ("seq_dim", "batch_dim"))
    if sorted((time, batch)) != [0, 1]:
        raise ModelError(f"sequences along axis {time}, and a batch along axis {batch}")
    lengths = step.converted(step.tensor("lengths"), ir.DataType.INT64)
    step.finish("ReverseSequence", step.tensor("x"), lengths, time_axis=time, batch_axis=batch)


KINDS: dict[str, Kind] = {
    "StridedSlice": Kind(
        _strided_slice,
        "x begin end strides begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
        "Slice, Squeeze, Unsqueeze",
    ),
    "Slice": Kind(_slice, "x begin size", "Slice"),
    "SliceExt": Kind(_slice_axis, "x axis start end step", "Slice"),
    **dict.fromkeys(("Narrow", "NarrowView"), Kind(_slice_axis, "x axis start length", "Slice")),
    **dict.fromkeys(("SelectExt", "SelectExtView"), Kind(_select, "x axis index", "Slice, Squeeze")),
    "Gather": Kind(_gather, "x index axis batch_dims", "Gather, Cast"),
    "IndexSelect": Kind(_gather, "x axis index", "Gather, Cast"),
    "Embedding": Kind(_embedding, "index weight padding_idx max_norm norm_type scale_grad_by_freq", "Gather, Cast"),
    "EmbeddingLookup": Kind(_embedding_lookup, "weight index offset", "Gather, Cast"),
    "GatherD": Kind(_gather_elements, "x axis index", "GatherElements, Cast"),
    "GatherNd": Kind(_gather_nd, "x index", "GatherND, Cast"),
    **dict.fromkeys(("OneHot", "OneHotExt"), Kind(_one_hot, "index depth on off axis", "OneHot, Cast")),
    "Roll": Kind(_roll, "x shift axis", "Gather"),
    "ReverseSequence": Kind(_reverse_sequence, "x lengths", "ReverseSequence, Cast", "seq_dim batch_dim"),
    "ReverseV2": Kind(_reverse, "x axis", "Slice"),
}
