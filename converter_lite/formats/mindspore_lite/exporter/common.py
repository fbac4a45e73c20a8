"""Attributes that several operators share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import ActivationType, DataType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.permutation import Perm
from converter_lite.graph import input_at, int_attribute

Lower = Callable[[Lowering, ir.Node], None]

Formula = Callable[[Lowering, ir.Node, int, Sequence[int]], int]
"""Takes the tensor of a node's first input, with its dimensions, and makes that of the result."""


def required(node: ir.Node, index: int) -> ir.Value:
    """An input that must be present."""
    value = input_at(node, index)
    if value is None:
        raise Unsupported(f"input {index} is absent")
    return value


def refuse_whole_numbers(ctx: Lowering, value: ir.Value) -> None:
    """For operators whose kernels take floats alone.

    Raises:
        Unsupported: The value holds whole numbers.
    """
    if ctx.dtype(value) is not DataType.FLOAT32:
        raise Unsupported(f"its kernel takes floats, and {value.name} holds whole numbers")


def axis_of(node: ir.Node, rank: int, default: int, name: str = "axis") -> int:
    """An axis attribute, counted from the front."""
    return int_attribute(node, name, default) % max(rank, 1)


def top_bottom_left_right(pads: Sequence[int]) -> list[int]:
    """``[top, left, bottom, right]`` of ONNX in the order of the file."""
    top, left, bottom, right = pads
    return [top, bottom, left, right]


def as_image(ctx: Lowering, value: ir.Value, *, integer: bool = False) -> int:
    """A 4-D value in NHWC, or a 3-D one (N, C, W) as the image (N, 1, W, C)."""
    shape = ctx.shape(value)
    if len(shape) == 4:
        return ctx.image(ctx.use(value, pm.NHWC, integer=integer))
    if any(form.perm == pm.NWC for form in ctx.forms(value)):
        source = ctx.use(value, pm.NWC, integer=integer)
        return ctx.image(ctx.reshape(source, (shape[0], 1, shape[2], shape[1])))
    flat = ctx.use(value, integer=integer)
    return ctx.transpose(ctx.reshape(flat, (shape[0], shape[1], 1, shape[2])), pm.NHWC)


def bind_image(ctx: Lowering, value: ir.Value, index: int, *, integer: bool = False) -> None:
    """The inverse of :func:`as_image` for an output."""
    shape = ctx.shape(value)
    if len(shape) == 4:
        ctx.bind(value, index, pm.NHWC, integer=integer)
        return
    ctx.bind(value, ctx.reshape(index, pm.permute(shape, pm.NWC)), pm.NWC, integer=integer)


def elementwise(ctx: Lowering, node: ir.Node, op: str, **attributes: Any) -> None:
    """An operator with one input and one output of the same shape, in whatever order the input has."""
    x, out = required(node, 0), node.outputs[0]
    perm = ctx.best_perm([x], len(ctx.shape(x)))
    index = ctx.emit(op, [ctx.use(x, perm)], pm.permute(ctx.shape(x), perm), dtype=ctx.dtype(out), **attributes)
    ctx.bind(out, index, perm)


def pointwise(formula: Formula) -> Lower:
    """An operator whose result has an element for each of the input's, in whatever order of axes the input has."""

    def lower(ctx: Lowering, node: ir.Node) -> None:
        x = required(node, 0)
        perm = ctx.best_perm([x], len(ctx.shape(x)))
        ctx.bind(node.outputs[0], formula(ctx, node, ctx.use(x, perm), pm.permute(ctx.shape(x), perm)), perm)

    return lower


def activation(ctx: Lowering, index: int, kind: ActivationType, **attributes: Any) -> int:
    """An Activation node on a tensor."""
    dims = ctx.ms.tensors[index].dims
    return ctx.emit("Activation", [index], dims, activation_type=int(kind), **attributes)


def moved_axes(perm: Perm, axes: Sequence[int]) -> list[int]:
    """Positions of the ONNX value's axes in the axis order ``perm``."""
    return [perm.index(a) for a in axes]


def strided_slice(ctx: Lowering, index: int, ranges: Sequence[tuple[int, int, int, int]]) -> int:
    """A StridedSlice; ranges are (begin, end, axis of the tensor, step > 0)."""
    dims = list(ctx.ms.tensors[index].dims)
    for begin, end, axis, step in ranges:
        dims[axis] = -(-(end - begin) // step)
    columns = [[r[i] for r in ranges] for i in range(4)]
    names = ("begin", "end", "axes", "strides")
    inputs = [ctx.int_constant(values, name) for values, name in zip(columns, names, strict=True)]
    return ctx.emit("StridedSlice", [index, *inputs], dims)


def gather_axis(ctx: Lowering, index: int, axis: int, picks: Sequence[int]) -> int:
    """Entries of one axis of a tensor, in a given order."""
    dims = list(ctx.ms.tensors[index].dims)
    dims[axis] = len(picks)
    return ctx.emit("Gather", [index, ctx.int_constant(list(picks), "indices"), ctx.int_constant([axis], "axis")], dims)
