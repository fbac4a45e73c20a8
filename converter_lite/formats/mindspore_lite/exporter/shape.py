"""Operators that move, split and join elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, Format, QuantType
from converter_lite.formats.mindspore_lite.exporter.arithmetic import expanded
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    as_image,
    axis_of,
    gather_axis,
    required,
    strided_slice,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.permutation import Perm
from converter_lite.graph import input_at, int_attribute, ints_attribute, is_constant, scalar, text_attribute


def _relabel(ctx: Lowering, node: ir.Node) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze, in an axis order in which no byte moves if there is one."""
    x, out = required(node, 0), node.outputs[0]
    before, after = ctx.shape(x), ctx.shape(out)
    integer = not is_constant(x) and ctx.computes_integers(node, [x], out)
    perm, result = _still_order(ctx, x, before, after)
    source = ctx.use(x, perm, integer=integer)
    index = ctx.reshape(source, pm.permute(after, result))
    if integer:
        ctx.bind_same_grid(out, index, result, x)
    else:
        ctx.bind(out, index, result)


def _still_order(ctx: Lowering, x: ir.Value, before: Sequence[int], after: Sequence[int]) -> tuple[Perm, Perm]:
    """Axis orders of input and output of a reshape; those of ONNX if bytes have to move anyway."""
    for form in ctx.forms(x):
        result = pm.reshaped(before, after, form.perm)
        if result is not None:
            return form.perm, result
    if len(after) == 4 and not any(form.perm == pm.identity(len(before)) for form in ctx.forms(x)):
        order = pm.reshaped(after, before, pm.NHWC)
        if order is not None:
            return order, pm.NHWC
    return pm.identity(len(before)), pm.identity(len(after))


def _transpose(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    ctx.alias(out, x, ints_attribute(node, "perm", tuple(reversed(range(rank)))))


def _identity(ctx: Lowering, node: ir.Node) -> None:
    x = required(node, 0)
    ctx.alias(node.outputs[0], x, pm.identity(len(ctx.shape(x))))


def _dropout(ctx: Lowering, node: ir.Node) -> None:
    training = input_at(node, 2)
    if training is not None and scalar(training) != 0:
        raise Unsupported("dropout for training")
    _identity(ctx, node)


def _concat(ctx: Lowering, node: ir.Node) -> None:
    values = [required(node, i) for i in range(len(node.inputs))]
    out = node.outputs[0]
    shape = ctx.shape(out)
    values = [v for v in values if 0 not in ctx.shape(v)]
    axis = axis_of(node, len(shape), 0)
    perm = ctx.best_perm(values, len(shape))
    integer = not any(is_constant(v) for v in values) and ctx.computes_integers(node, values, out)
    out = ctx.saturated(out) if integer else out
    index = ctx.emit(
        "Concat",
        [ctx.use(v, perm, integer=integer) for v in values],
        pm.permute(shape, perm),
        dtype=DataType.INT8 if integer else ctx.dtype(out),
        quant=ctx.activation_quant(out) if integer else None,
        quant_type=QuantType.ALL if integer else QuantType.NONE,
        axis=perm.index(axis),
    )
    ctx.bind(out, index, perm, integer=integer)


def _split(ctx: Lowering, node: ir.Node) -> None:
    x = required(node, 0)
    rank = len(ctx.shape(x))
    axis = axis_of(node, rank, 0)
    perm = ctx.best_perm([x], rank)
    sizes = [ctx.shape(out)[axis] for out in node.outputs]
    indices = ctx.emit_many(
        "Split",
        [ctx.use(x, perm)],
        [(pm.permute(ctx.shape(out), perm), ctx.dtype(out)) for out in node.outputs],
        output_num=len(sizes),
        size_splits=sizes,
        axis=perm.index(axis),
    )
    for out, index in zip(node.outputs, indices, strict=True):
        ctx.bind(out, index, perm)


def _slice(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    starts, ends, axes, steps = _slice_ranges(ctx, node, rank)
    perm = ctx.best_perm([x], rank)
    index = ctx.use(x, perm)
    forward: list[tuple[int, int, int, int]] = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        begin, stop, stride = slice(start, end, step).indices(shape[axis])
        begin = max(begin, 0)  # backwards from in front of the first element, ONNX begins at the first one
        place = perm.index(axis)
        if stride > 0:
            forward.append((begin, max(stop, begin), place, stride))
        else:
            index = gather_axis(ctx, index, place, list(range(begin, stop, stride)))
    if forward:
        index = strided_slice(ctx, index, forward)
    if not starts:
        ctx.alias(out, x, pm.identity(rank))
        return
    ctx.bind(out, index, perm)


def _slice_ranges(ctx: Lowering, node: ir.Node, rank: int) -> tuple[list[int], list[int], list[int], list[int]]:
    starts, ends = ctx.ints(node.inputs[1], "starts"), ctx.ints(node.inputs[2], "ends")
    axes_value, steps_value = input_at(node, 3), input_at(node, 4)
    axes = list(range(len(starts))) if axes_value is None else ctx.ints(axes_value, "axes")
    steps = [1] * len(starts) if steps_value is None else ctx.ints(steps_value, "steps")
    return starts, ends, [a % rank for a in axes], steps


def _expand(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    shape = ctx.shape(out)
    perm = ctx.best_perm([x], len(shape))
    source = ctx.operand(x, len(shape), perm)
    if ctx.ms.tensors[source].dims == pm.permute(shape, perm):
        ctx.alias(out, x, pm.identity(len(shape)))
        return
    ctx.bind(out, expanded(ctx, source, pm.permute(shape, perm)), perm)


def _tile(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    repeats = ctx.ints(required(node, 1), "repeats")
    perm = ctx.best_perm([x], rank)
    moved = [repeats[a] for a in perm]
    inputs = [ctx.use(x, perm), ctx.int_constant(moved, "multiples")]
    ctx.bind(out, ctx.emit("TileFusion", inputs, pm.permute(ctx.shape(out), perm), dims=list(range(rank))), perm)


def _cast(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    source_type, target = ctx.dtype(x), ctx.dtype(out)
    rank = len(ctx.shape(x))
    if source_type is target and not is_constant(x):
        ctx.alias(out, x, pm.identity(rank))
        return
    perm = ctx.best_perm([x], rank)
    source = ctx.use(x, perm)
    if target is DataType.BOOL:
        zero = ctx.float_constant(0.0) if source_type is DataType.FLOAT32 else ctx.int_constant([0], "zero")
        index = ctx.emit("NotEqual", [source, zero], ctx.ms.tensors[source].dims, dtype=DataType.BOOL)
    elif target is DataType.UINT8:  # no kernel makes it of whole numbers
        index = ctx.cast(ctx.cast(source, DataType.FLOAT32), target)
    else:
        index = ctx.cast(source, target)
    ctx.bind(out, index, perm)


def _shape(ctx: Lowering, node: ir.Node) -> None:
    shape = ctx.shape(required(node, 0))
    start, end = int_attribute(node, "start", 0), int_attribute(node, "end", len(shape))
    ctx.bind(node.outputs[0], ctx.add_constant(np.array(shape[start:end], np.int32), node.outputs[0].name or "shape"))


def _size(ctx: Lowering, node: ir.Node) -> None:
    count = int(np.prod(ctx.shape(required(node, 0))))
    ctx.bind(node.outputs[0], ctx.add_constant(np.array(count, np.int32), node.outputs[0].name or "size"))


def _constant_of_shape(ctx: Lowering, node: ir.Node) -> None:
    value = node.attributes.get("value")
    fill = np.zeros(1, np.float32) if value is None else value.as_tensor().numpy()
    array = np.full(ctx.shape(node.outputs[0]), fill.reshape(-1)[0], fill.dtype)
    ctx.bind(node.outputs[0], ctx.add_constant(array, node.outputs[0].name or "fill"))


def _range(ctx: Lowering, node: ir.Node) -> None:
    start, limit, delta = (ctx.array(node.inputs[i], "a bound").reshape(-1)[0] for i in range(3))
    ctx.bind(node.outputs[0], ctx.add_constant(np.arange(start, limit, delta), node.outputs[0].name or "range"))


def _depth_to_space(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    block = int_attribute(node, "blocksize", 2)
    if block == 1:
        _identity(ctx, node)  # the runtime refuses blocks of one
        return
    dims, mode = pm.permute(ctx.shape(out), pm.NHWC), text_attribute(node, "mode", "DCR")
    index = ctx.emit("DepthToSpace", [as_image(ctx, x)], dims, block_size=block, format=int(Format.NHWC), mode=mode)
    ctx.bind(out, index, pm.NHWC)


def _space_to_depth(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    block = int_attribute(node, "blocksize", 2)
    if text_attribute(node, "mode", "DCR") != "DCR":
        raise Unsupported("mode CRD")
    if block == 1:
        _identity(ctx, node)
        return
    dims = pm.permute(ctx.shape(out), pm.NHWC)
    index = ctx.emit("SpaceToDepth", [as_image(ctx, x)], dims, block_size=block, format=int(Format.NHWC))
    ctx.bind(out, index, pm.NHWC)


TABLE: dict[str, Lower] = {
    "Reshape": _relabel,
    "Flatten": _relabel,
    "Squeeze": _relabel,
    "Unsqueeze": _relabel,
    "Transpose": _transpose,
    "Identity": _identity,
    "Dropout": _dropout,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Expand": _expand,
    "Tile": _tile,
    "Cast": _cast,
    "Shape": _shape,
    "Size": _size,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
}
