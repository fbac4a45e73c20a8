"""Normalizations; those that the runtime lacks or computes wrongly are written with reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, ReduceMode
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    as_image,
    axis_of,
    moved_axes,
    required,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.reduce import reduce_tensor
from converter_lite.graph import float_attribute, input_at, int_attribute, ints_attribute

_LAYER_NORM_RANK = 4
"""Axes of the largest tensor that the runtime's LayerNormFusion takes."""

SMALLEST_NORM = 1e-30
"""What a smaller norm is taken for, so that a row of zeros stays one."""


def _batch_norm(ctx: Lowering, node: ir.Node) -> None:
    if int_attribute(node, "training_mode", 0):
        raise Unsupported("batch normalization for training")
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    gamma, beta, mean, var = (np.asarray(ctx.array(required(node, i), "a parameter"), np.float64) for i in range(1, 5))
    scale = gamma / np.sqrt(var + float_attribute(node, "epsilon", 1e-5))
    offset = beta - mean * scale
    if rank == 4:
        inputs = [as_image(ctx, x), _named(ctx, node, "scale", scale), _named(ctx, node, "offset", offset)]
        ctx.bind(out, ctx.emit("ScaleFusion", inputs, pm.permute(shape, pm.NHWC), axis=-1), pm.NHWC)
        return
    perm = ctx.best_perm([x], rank)
    column = [shape[1] if a == 1 else 1 for a in perm]
    dims = pm.permute(shape, perm)
    scaled = ctx.emit("MulFusion", [ctx.use(x, perm), _named(ctx, node, "scale", scale.reshape(column))], dims)
    ctx.bind(out, ctx.emit("AddFusion", [scaled, _named(ctx, node, "offset", offset.reshape(column))], dims), perm)


def _named(ctx: Lowering, node: ir.Node, role: str, array: NDArray[Any]) -> int:
    return ctx.add_constant(np.asarray(array, np.float32), f"{node.name}_{role}")


def _layer_norm(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    if any(o.uses() for o in node.outputs[1:]):
        raise Unsupported("the mean or deviation outputs are used")
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    axis = axis_of(node, rank, -1)
    tail = shape[axis:]
    gamma = np.broadcast_to(ctx.array(required(node, 1), "the scale"), tail)
    bias = input_at(node, 2)
    beta = np.zeros(tail) if bias is None else np.broadcast_to(ctx.array(bias, "the bias"), tail)
    source, dims = ctx.use(x), shape
    if rank > _LAYER_NORM_RANK:
        axis, dims = 1, (int(np.prod(shape[:axis])), int(np.prod(tail)))
        source, gamma, beta = ctx.reshape(source, dims), gamma.reshape(-1), beta.reshape(-1)
    inputs = [source, _named(ctx, node, "gamma", gamma), _named(ctx, node, "beta", beta)]
    if np.prod(tail) == 1:  # the kernel takes the squared mean from the mean of squares: the root of less than nothing
        index = ctx.emit("MulFusion", [source, ctx.float_constant(0.0)], dims)
        index = ctx.emit("AddFusion", [index, inputs[2]], dims)
    else:
        index = ctx.emit(
            "LayerNormFusion",
            inputs,
            dims,
            begin_norm_axis=axis,
            begin_params_axis=axis,
            epsilon=float_attribute(node, "epsilon", 1e-5),
            elementwise_affine=True,
        )
    ctx.bind(out, ctx.reshape(index, shape) if dims != shape else index)


def _instance_norm(ctx: Lowering, node: ir.Node) -> None:
    x = required(node, 0)
    rank, channels = len(ctx.shape(x)), ctx.shape(x)[1]
    scale = np.asarray(ctx.array(required(node, 1), "the scale"))
    bias = np.asarray(ctx.array(required(node, 2), "the bias"))
    perm = ctx.best_perm([x], rank)
    index = _normalized(ctx, ctx.use(x, perm), moved_axes(perm, range(2, rank)), float_attribute(node, "epsilon", 1e-5))
    dims = ctx.ms.tensors[index].dims
    column = [channels if a == 1 else 1 for a in perm]
    index = ctx.emit("MulFusion", [index, _named(ctx, node, "scale", scale.reshape(column))], dims)
    index = ctx.emit("AddFusion", [index, _named(ctx, node, "bias", bias.reshape(column))], dims)
    ctx.bind(node.outputs[0], index, perm)


def _normalized(ctx: Lowering, index: int, axes: list[int], epsilon: float) -> int:
    """(x - mean) / sqrt(variance + epsilon) over axes of a tensor."""
    dims = ctx.ms.tensors[index].dims
    mean = reduce_tensor(ctx, index, ReduceMode.MEAN, axes, keep_dims=True)
    centred = ctx.emit("SubFusion", [index, mean], dims)
    return ctx.emit("DivFusion", [centred, _deviation(ctx, centred, axes, epsilon)], dims)


def _deviation(ctx: Lowering, index: int, axes: list[int], epsilon: float) -> int:
    square = ctx.emit("Square", [index], ctx.ms.tensors[index].dims)
    variance = reduce_tensor(ctx, square, ReduceMode.MEAN, axes, keep_dims=True)
    dims = ctx.ms.tensors[variance].dims
    lifted = ctx.emit("AddFusion", [variance, ctx.float_constant(epsilon)], dims)
    return ctx.emit("Sqrt", [lifted], dims)


def _group_norm(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    groups = int_attribute(node, "num_groups", 1)
    per_group = (shape[0], groups, int(np.prod(shape[1:])) // groups)
    flat = ctx.emit("Reshape", [ctx.use(x), ctx.int_constant(per_group, "shape")], per_group)
    index = _normalized(ctx, flat, [2], float_attribute(node, "epsilon", 1e-5))
    index = ctx.emit("Reshape", [index, ctx.int_constant(shape, "shape")], shape)
    for place, op in ((1, "MulFusion"), (2, "AddFusion")):
        values = np.asarray(ctx.array(required(node, place), "a parameter"))
        values = np.repeat(values, shape[1] // values.size).reshape((-1,) + (1,) * (rank - 2))
        index = ctx.emit(op, [index, _named(ctx, node, op, values[None])], shape)
    ctx.bind(out, index)


def _rms_norm(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    axes = list(range(axis_of(node, rank, -1), rank))
    index = ctx.use(x)
    index = ctx.emit("DivFusion", [index, _deviation(ctx, index, axes, float_attribute(node, "epsilon", 1e-5))], shape)
    scale = ctx.operand(required(node, 1), rank, pm.identity(rank))
    ctx.bind(out, ctx.emit("MulFusion", [index, scale], shape))


def _mean_variance(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    perm = ctx.best_perm([x], rank)
    axes = moved_axes(perm, [a % rank for a in ints_attribute(node, "axes", (0, 2, 3))])
    ctx.bind(out, _normalized(ctx, ctx.use(x, perm), axes, 1e-9), perm)


def _lp_norm(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    order, axis = int_attribute(node, "p", 2), axis_of(node, rank, -1)
    perm = ctx.best_perm([x], rank)
    source, dims = ctx.use(x, perm), pm.permute(shape, perm)
    if order == 2:
        norm = reduce_tensor(ctx, source, ReduceMode.L2, [perm.index(axis)], keep_dims=True)
    else:
        norm = reduce_tensor(ctx, ctx.emit("Abs", [source], dims), ReduceMode.SUM, [perm.index(axis)], keep_dims=True)
    least = ctx.emit("Maximum", [norm, ctx.float_constant(SMALLEST_NORM)], ctx.ms.tensors[norm].dims)
    ctx.bind(out, ctx.emit("DivFusion", [source, least], dims), perm)


def _lrn(ctx: Lowering, node: ir.Node) -> None:
    """The runtime's alpha is per element, ONNX divides by the size of the window."""
    x, out = required(node, 0), node.outputs[0]
    if len(ctx.shape(x)) != 4:
        raise Unsupported(f"a tensor of {len(ctx.shape(x))} axes, where it takes pictures")
    size, channels = int_attribute(node, "size", 1), ctx.shape(x)[1]
    if size % 2 == 0:
        raise Unsupported("a window of even size")
    if size in (1, channels):
        ctx.bind(out, _lrn_by_product(ctx, node, size, channels), pm.NHWC)
        return
    index = ctx.emit(
        "LRN",
        [as_image(ctx, x)],
        pm.permute(ctx.shape(x), pm.NHWC),
        dtype=DataType.FLOAT32,
        depth_radius=size // 2,
        bias=float_attribute(node, "bias", 1.0),
        alpha=float_attribute(node, "alpha", 1e-4) / size,
        beta=float_attribute(node, "beta", 0.75),
        norm_region="ACROSS_CHANNELS",
    )
    ctx.bind(out, index, pm.NHWC)


def _lrn_by_product(ctx: Lowering, node: ir.Node, size: int, channels: int) -> int:
    """Windows that the runtime refuses, or miscounts where one holds all channels: sums of squares by a matrix of ones."""
    x = required(node, 0)
    image, dims = as_image(ctx, x), pm.permute(ctx.shape(x), pm.NHWC)
    steps = np.arange(channels)[:, None] - np.arange(channels)
    share = (np.abs(steps) <= size // 2) * (float_attribute(node, "alpha", 1e-4) / size)
    sums = ctx.emit("MatMulFusion", [ctx.emit("Square", [image], dims), _named(ctx, node, "windows", share)], dims)
    lifted = ctx.emit("AddFusion", [sums, ctx.float_constant(float_attribute(node, "bias", 1.0))], dims)
    power = ctx.emit("PowFusion", [lifted, ctx.float_constant(-float_attribute(node, "beta", 0.75))], dims)
    return ctx.emit("MulFusion", [image, power], dims)


TABLE: dict[str, Lower] = {
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "RMSNormalization": _rms_norm,
    "MeanVarianceNormalization": _mean_variance,
    "LpNormalization": _lp_norm,
    "LRN": _lrn,
}
