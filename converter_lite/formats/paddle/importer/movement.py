"""Operators that change shapes: dimensions, copies, margins."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.contents import numbers_of, open_as_rest
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import (
    as_vector,
    constant_list,
    constant_number,
    integers,
    known,
    list_of,
    sizes,
)
from converter_lite.formats.paddle.program import Operator


def _reshape(importer: Importer, op: Operator) -> None:
    shape = list_of(importer, op, "shape", "Shape", "ShapeTensor")
    found = numbers_of(shape, importer.contents)
    rest = open_as_rest(found) if found is not None and shape.const_value is None else None
    if rest is not None:
        shape = integers(importer, rest, "shape")
    importer.finish(output(op), "Reshape", importer.value(op.input("X")), shape)


def _flatten(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    if op.type in ("flatten", "flatten2"):
        importer.finish(output(op), "Flatten", value, axis=int(op.get("axis", 1)))
        return
    rank = importer.rank(value)
    if rank < 2:
        importer.finish(output(op), "Reshape", value, integers(importer, [-1], "shape"))
        return
    start, stop = axis_of(int(op.get("start_axis", 1)), rank), axis_of(int(op.get("stop_axis", -1)), rank)
    behind = (importer.shape(value) or [])[stop + 1 :]
    if start == 1 and stop == rank - 1:
        importer.finish(output(op), "Flatten", value, axis=1)
    elif all(size > 0 for size in behind):
        importer.finish(output(op), "Reshape", value, integers(importer, [0] * start + [-1, *behind], "shape"))
    else:
        parts = [sizes(importer, value, 0, start), integers(importer, [-1], "rest"), sizes(importer, value, stop + 1)]
        shape = importer.compute("Concat", *(parts if start else parts[1:]), axis=0)
        importer.finish(output(op), "Reshape", value, shape)


def _axes(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    if op.type.startswith("un"):
        axes = constant_list(importer, op, "axes", "AxesTensor", "AxesTensorList")
        importer.finish(
            output(op), "Unsqueeze", value, integers(importer, _one_by_one(axes, importer.rank(value)), "axes")
        )
        return
    axes = [int(axis) for axis in op.get("axes", ())]  # Paddle 2.6 and 3.3 do not look at a tensor of them
    shape, given = importer.shape(value), bool(axes)
    if shape is not None:  # what is larger than 1 stays
        axes = [axis for axis in axes if shape[axis_of(axis, len(shape))] in (1, -1)]
        if not axes and given:
            importer.finish(output(op), "Identity", value)
            return
    if axes:
        importer.finish(output(op), "Squeeze", value, integers(importer, axes, "axes"))
    else:
        importer.finish(output(op), "Squeeze", value)


def _one_by_one(axes: list[int], rank: int) -> list[int]:
    """Axes that are inserted one after another, as places in the result: negative ones count from the end so far."""
    places: list[int] = []
    for count, axis in enumerate(axes):
        place = axis_of(axis, rank + count + 1)
        places = [other + (other >= place) for other in places] + [place]
    return places if any(axis < 0 for axis in axes) or places != sorted(set(places)) else axes


def _transpose(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Transpose", importer.value(op.input("X")), perm=list(op.get("axis", ())))


def _concat(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    axis = constant_number(importer, op, "axis", "AxisTensor", 0)
    importer.finish(output(op), "Concat", *values, axis=axis)


def _stack(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    axis = int(op.get("axis", 0))
    axes = importer.add_constant("axes", [axis])
    parts = [importer.compute("Unsqueeze", value, axes) for value in values]
    importer.finish(output(op, "Y"), "Concat", *parts, axis=axis)


def _expand(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    shape = list_of(importer, op, "shape", "Shape", "expand_shapes_tensor")
    importer.finish(output(op), "Expand", value, _open_as_one(importer, shape))


def _open_as_one(importer: Importer, shape: ir.Value) -> ir.Value:
    """A shape with 1 for -1: the size stays."""
    if shape.const_value is not None:
        return integers(importer, [1 if size == -1 else size for size in shape.const_value.numpy()], "shape")
    return importer.compute("Max", shape, importer.add_constant("one", [1]))


def _expand_as(importer: Importer, op: Operator) -> None:
    value, other = importer.value(op.input("X")), op.input("Y")
    shape = sizes(importer, importer.value(other)) if other else list_of(importer, op, "target_shape")
    importer.finish(output(op), "Expand", value, shape)


def _tile(importer: Importer, op: Operator) -> None:
    value, rank = importer.value(op.input("X")), importer.rank(importer.value(op.input("X")))
    slots = ("RepeatTimes", "repeat_times_tensor")
    key = "repeat_times" if "repeat_times" in op.attributes else "expand_times"
    repeats = list_of(importer, op, key, *slots)
    length = (importer.shape(repeats) or [-1])[0]
    if length < 0:
        raise ModelError("the number of its repetitions is not known")
    if length > rank:
        value = importer.compute("Unsqueeze", value, importer.add_constant("axes", list(range(length - rank))))
    elif length < rank:
        ones = [1] * (rank - length)
        if repeats.const_value is not None:
            repeats = integers(importer, [*ones, *repeats.const_value.numpy()], "repeats")
        else:
            repeats = importer.compute("Concat", importer.add_constant("ones", ones), repeats, axis=0)
    importer.finish(output(op), "Tile", value, repeats)


def _shape(importer: Importer, op: Operator) -> None:
    """Paddle 3 gives int64, older ones int32."""
    value = importer.value(op.input("Input"))
    if op.get("wide", False):
        importer.finish(output(op), "Shape", value)
    else:
        size = importer.compute("Shape", value)
        importer.finish(output(op), "Cast", size, to=int(ir.DataType.INT32))


def _size(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Size", importer.value(op.input("Input")))


def _pad(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    given, rank = constant_list(importer, op, "paddings", "Paddings"), importer.rank(value)
    mode, layout = str(op.get("mode", "constant")), str(op.get("data_format", "NCHW"))
    if op.type == "pad":
        begin, end = given[0::2], given[1::2]
    else:
        pairs = [given[place : place + 2] for place in range(0, len(given), 2)]
        pairs = pairs if op.type == "pad2d" else pairs[::-1]  # pad3d begins with the last dimension
        pairs = [[0, 0], *pairs, [0, 0]] if layout.endswith("C") else [[0, 0], [0, 0], *pairs]
        begin, end = [pair[0] for pair in pairs], [pair[-1] for pair in pairs]
    if len(begin) != rank or len(end) != rank:
        raise ModelError(f"its paddings do not fit {rank} dimensions")
    dtype = value.dtype.numpy().type if value.dtype is not None else np.float32
    fill = importer.add_constant("fill", float(op.get("pad_value", op.get("value", 0.0))), dtype)
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    importer.finish(output(op), "Pad", value, integers(importer, begin + end, "pads"), fill, mode=mode)


def _trilu(importer: Importer, op: Operator) -> None:
    diagonal = importer.add_constant("diagonal", int(op.get("diagonal", 0)))
    upper = int(not op.get("lower", True))
    importer.finish(output(op), "Trilu", importer.value(op.input("X")), diagonal, upper=upper)


def _unbind(importer: Importer, op: Operator) -> None:
    value, slot = importer.value(op.input("X")), "Y" if op.type == "unstack" else "Out"
    names, axis = op.outputs.get(slot, []), int(op.get("axis", 0))
    axes = importer.add_constant("axes", [axis])
    inside = [f"{name}.part" for name in names]
    parts = importer.node("Split", [value], {"axis": axis, "num_outputs": len(names)}, names=inside)
    for name, part in zip(names, parts, strict=True):
        importer.finish(name, "Squeeze", part, axes)


def _meshgrid(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    lengths = [as_vector(importer, importer.compute("Size", value)) for value in values]
    lengths = [
        importer.add_constant("length", importer.shape(value)) if _is_fixed(importer.shape(value)) else length
        for value, length in zip(values, lengths, strict=True)
    ]
    whole = importer.compute("Concat", *lengths, axis=0)
    for place, (name, value) in enumerate(zip(op.outputs.get("Out", ()), values, strict=True)):
        shape = [1] * len(values)
        shape[place] = -1
        turned = importer.compute("Reshape", value, importer.add_constant("shape", shape))
        importer.finish(name, "Expand", turned, whole)


def _is_fixed(shape: list[int] | None) -> bool:
    return shape is not None and len(shape) == 1 and shape[0] > 0


def _broadcast(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("X", ())]
    shapes = [known(importer, value) for value in values]
    try:
        target = np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    except ValueError:
        raise ModelError("their common shape is not known") from None
    if any(size < 0 for shape in shapes for size in shape):
        raise ModelError("their common shape is not known")
    for name, value in zip(op.outputs.get("Out", ()), values, strict=True):
        importer.finish(name, "Expand", value, integers(importer, target, "shape"))


def _repeat(importer: Importer, op: Operator) -> None:
    """Each element several times in a row: an axis behind it, copied, and joined with it."""
    value, times = importer.value(op.input("X")), int(op.get("Repeats", 1))
    rank = importer.rank(value)
    axis = axis_of(int(op.get("dim", 0)), rank)
    if op.input("RepeatsTensor") is not None:
        counts = constant_list(importer, op, "Repeats", "RepeatsTensor")
        importer.filled_left -= check_filled(importer, [sum(counts)])
        places = np.repeat(np.arange(len(counts)), counts)
        importer.finish(output(op), "Gather", value, integers(importer, places.tolist(), "places"), axis=axis)
        return
    wide = importer.compute("Unsqueeze", value, importer.add_constant("axes", [axis + 1]))
    copies = importer.add_constant("repeats", [1] * (axis + 1) + [times] + [1] * (rank - axis - 1))
    tiled = importer.compute("Tile", wide, copies)
    shape = known(importer, value)
    if all(size > 0 for size in shape[axis + 1 :]):
        target = importer.add_constant("shape", [0] * axis + [-1, *shape[axis + 1 :]])
    else:
        behind = sizes(importer, value, axis + 1)
        target = importer.compute("Concat", importer.add_constant("shape", [0] * axis + [-1]), behind, axis=0)
    importer.finish(output(op), "Reshape", tiled, target)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("reshape", "reshape2"), _reshape),
    **dict.fromkeys(("flatten", "flatten2", "flatten_contiguous_range"), _flatten),
    **dict.fromkeys(("squeeze", "squeeze2", "unsqueeze", "unsqueeze2"), _axes),
    **dict.fromkeys(("transpose", "transpose2"), _transpose),
    "concat": _concat,
    "stack": _stack,
    **dict.fromkeys(("unbind", "unstack"), _unbind),
    "meshgrid": _meshgrid,
    "broadcast_tensors": _broadcast,
    "repeat_interleave": _repeat,
    "expand_v2": _expand,
    "expand_as_v2": _expand_as,
    "tile": _tile,
    "shape": _shape,
    "size": _size,
    **dict.fromkeys(("pad", "pad2d", "pad3d"), _pad),
    "tril_triu": _trilu,
}
