"""Parts of tensors: cut out, cut into, and overwritten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import constant_list, constant_number, integers, known, list_of
from converter_lite.formats.paddle.program import Operator, numpy_type

END = 2**31 - 1
"""The end of a dimension, whatever its size."""


def _slice(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("Input"))
    axes, dropped = [int(axis) for axis in op.get("axes", ())], [int(axis) for axis in op.get("decrease_axis", ())]
    slots = {"starts": ("StartsTensor", "StartsTensorList"), "ends": ("EndsTensor", "EndsTensorList")}
    if any(op.inputs.get(slot) for names in slots.values() for slot in names):
        bounds = [list_of(importer, op, key, *names) for key, names in slots.items()]
    else:
        starts, ends = (list(op.get(key, ())) for key in slots)
        ends = [
            END if (start, end) == (-1, 0) and a in dropped else end
            for a, start, end in zip(axes, starts, ends, strict=True)
        ]
        bounds = [integers(importer, starts, "starts"), integers(importer, ends, "ends")]
    inputs = [value, *bounds, integers(importer, axes, "axes")]
    if op.type == "strided_slice":
        inputs.append(list_of(importer, op, "strides", "StridesTensor", "StridesTensorList"))
        inputs[2] = _backwards(importer, inputs[2], inputs[4])
    if not dropped:
        importer.finish(output(op), "Slice", *inputs)
        return
    part = importer.compute("Slice", *inputs)
    if len(dropped) == importer.rank(part) and not importer.has_scalars:
        importer.finish(output(op), "Reshape", part, importer.add_constant("shape", [1]))
    else:
        importer.finish(output(op), "Squeeze", part, integers(importer, dropped, "axes"))


def _backwards(importer: Importer, ends: ir.Value, strides: ir.Value) -> ir.Value:
    """Ends as ONNX counts them: -1 of a slice that runs backwards is the place before the first, not the last place."""
    found = [g.constant(value) for value in (ends, strides)]
    if found[0] is None or found[1] is None or not np.any((found[0] == -1) & (found[1] < 0)):
        return ends
    return integers(importer, np.where((found[0] == -1) & (found[1] < 0), -END - 1, found[0]), "ends")


def _split(importer: Importer, op: Operator) -> None:
    names, value = op.outputs.get("Out", []), importer.value(op.input("X"))
    axis = constant_number(importer, op, "axis", "AxisTensor", 0)
    sections = constant_list(importer, op, "sections", "SectionsTensorList", "SectionsTensor")
    if sections and not int(op.get("num", 0)):
        sections = _without_rest(sections, (importer.shape(value) or [])[axis:][:1])
        if -1 in sections:
            _split_around_rest(importer, value, sections, axis, names)
            return
        made = importer.node("Split", [value, integers(importer, sections, "sections")], {"axis": axis}, names=names)
    else:
        made = importer.node("Split", [value], {"axis": axis, "num_outputs": len(names)}, names=names)
    for name, part in zip(names, made, strict=True):
        importer.bind(name, part)


def _without_rest(sections: list[int], size: list[int]) -> list[int]:
    """Section -1 is what the others leave."""
    if sections.count(-1) != 1 or not size or size[0] < 0:
        return sections
    rest = size[0] - sum(section for section in sections if section != -1)
    if rest < 0:
        raise ModelError(f"sections {sections} of {size[0]} elements")
    return [rest if section == -1 else section for section in sections]


def _split_around_rest(
    importer: Importer, value: ir.Value, sections: list[int], axis: int, names: Sequence[str]
) -> None:
    """Sections of a dimension whose size is not known: those before the rest count from its start, others from its end."""
    if sections.count(-1) != 1 or len(sections) != len(names):
        raise ModelError(f"sections {sections}")
    rest = sections.index(-1)
    starts = [sum(sections[:place]) for place in range(rest + 1)]
    ends = [-sum(sections[place + 1 :]) or END for place in range(rest, len(sections))]
    bounds = [*zip(starts, [*starts[1:], ends[0]], strict=True), *pairwise(ends)]
    for name, (start, end) in zip(names, bounds, strict=True):
        limits = (
            importer.add_constant(hint, [number]) for hint, number in (("start", start), ("end", end), ("axes", axis))
        )
        importer.finish(name, "Slice", value, *limits)


def _crop(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    shape = constant_list(importer, op, "shape", "Shape", "ShapeTensor")
    offsets = constant_list(importer, op, "offsets", "Offsets", "OffsetsTensor") or [0] * len(shape)
    ends = [END if size == -1 else start + size for start, size in zip(offsets, shape, strict=True)]
    lists = (integers(importer, numbers, "crop") for numbers in (offsets, ends, range(len(shape))))
    importer.finish(output(op), "Slice", value, *lists)


def _flip(importer: Importer, op: Operator) -> None:
    axes = [int(axis) for axis in op.get("axis", ())]
    lists = [[-1] * len(axes), [-END - 1] * len(axes), axes, [-1] * len(axes)]
    constants = (importer.add_constant("slice", numbers) for numbers in lists)
    importer.finish(output(op), "Slice", importer.value(op.input("X")), *constants)


def _roll(importer: Importer, op: Operator) -> None:
    """The end of each axis in front of its beginning."""
    value, axes = importer.value(op.input("X")), [int(axis) for axis in op.get("axis", ())]
    shifts = constant_list(importer, op, "shifts", "ShiftsTensor")
    shape = known(importer, value)
    if not axes:
        value = importer.compute("Reshape", value, importer.add_constant("shape", [-1]))
    for axis, shift in zip(axes or [0], shifts, strict=True):
        size = shape[axis_of(axis, len(shape))] if axes else math.prod(shape)
        if size > 0 and not shift % size:
            continue
        first, last, along = (importer.add_constant("place", [number]) for number in (0, END, axis))
        place = importer.add_constant("place", [-(shift % size) if size > 0 else -shift])
        if size <= 0:
            length = importer.compute(
                "Shape", value, start=axis_of(axis, len(shape)), end=axis_of(axis, len(shape)) + 1
            )
            place = importer.compute("Mod", place, importer.compute("Max", length, importer.add_constant("one", [1])))
        end = importer.compute("Slice", value, place, last, along)
        beginning = importer.compute("Slice", value, first, place, along)
        value = importer.compute("Concat", end, beginning, axis=axis)
    if axes:
        importer.finish(output(op), "Identity", value)
    elif any(size < 0 for size in shape):
        raise ModelError("its size is not known")
    else:
        importer.finish(output(op), "Reshape", value, integers(importer, shape, "shape"))


def _set_value(importer: Importer, op: Operator) -> None:
    """``x[starts:ends:steps] = value``: where a mask says so, the value at the place that a table of positions says."""
    value = importer.value(op.input("Input"))
    shape, axes = known(importer, value), [int(axis) for axis in op.get("axes", ())]
    axes = [axis_of(axis, len(shape)) for axis in axes]
    limits = [
        constant_list(importer, op, key, f"{key.capitalize()}Tensor", f"{key.capitalize()}TensorList")
        for key in ("starts", "ends", "steps")
    ]
    places = {a: _places(shape[a], *bounds) for a, *bounds in zip(axes, *limits, strict=True)}
    given = _region(importer, op, value, len(shape))
    mask = np.ones((), np.bool_)
    for axis, (inside, position) in places.items():
        importer.filled_left -= check_filled(importer, [inside.size])
        mask = mask & inside.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        importer.filled_left -= check_filled(importer, mask.shape)
        if (importer.shape(given) or [])[axis] != 1:
            given = importer.compute("Gather", given, importer.initializer("position", position), axis=axis)
    if mask.all():
        whole = importer.compute("Shape", value)
        importer.finish(output(op), "Expand", given, whole)
    else:
        importer.finish(output(op), "Where", importer.initializer("mask", mask), given, value)


def _places(size: int, start: int, end: int, step: int) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """For each place of an axis, whether it is overwritten, and by which element of the value."""
    if size < 0:
        raise ModelError("it overwrites part of a dimension whose size is not known")
    chosen = np.arange(size)[slice(start, None if step < 0 and end < -size else end, step)]
    inside, position = np.zeros(size, np.bool_), np.zeros(size, np.int64)
    inside[chosen], position[chosen] = True, np.arange(chosen.size)
    return inside, position


def _region(importer: Importer, op: Operator, target: ir.Value, rank: int) -> ir.Value:
    """What is written, with as many dimensions as what it is written into."""
    name = op.input("ValueTensor")
    if name is not None:
        given = importer.value(name)
    else:
        given = importer.initializer("values", _listed(op, target))
    if given.dtype != target.dtype:
        given = importer.compute("Cast", given, to=int(target.dtype or ir.DataType.FLOAT))
    dropped = [axis_of(int(axis), rank) for axis in op.get("decrease_axes", ())]
    if op.get("none_axes", ()):
        raise ModelError("it overwrites a part with a new axis")
    missing = rank - len(dropped) - importer.rank(given)
    if missing < 0:
        given = importer.compute("Squeeze", given, importer.add_constant("axes", list(range(-missing))))
    elif missing:
        given = importer.compute("Unsqueeze", given, importer.add_constant("axes", list(range(missing))))
    if dropped:
        given = importer.compute("Unsqueeze", given, integers(importer, sorted(dropped), "axes"))
    return given


def _listed(op: Operator, target: ir.Value) -> NDArray[Any]:
    keys = ("values", "fp32_values", "int32_values", "int64_values", "bool_values", "fp64_values")
    numbers = next((op.get(key) for key in keys if op.get(key)), ())
    kind = int(op.get("dtype", -1))
    dtype = (
        numpy_type(kind) if kind >= 0 else np.dtype(target.dtype.numpy() if target.dtype is not None else np.float32)
    )
    return np.asarray(numbers, dtype).reshape([int(size) for size in op.get("shape", (1,))])


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("slice", "strided_slice"), _slice),
    "split": _split,
    "crop_tensor": _crop,
    "flip": _flip,
    "roll": _roll,
    "set_value": _set_value,
}
