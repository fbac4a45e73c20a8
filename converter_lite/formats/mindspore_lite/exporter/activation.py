"""Activation functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import ActivationType as Kind
from converter_lite.formats.mindspore_lite.enums import DataType
from converter_lite.formats.mindspore_lite.exporter.clamps import inner_activation
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    activation,
    as_image,
    elementwise,
    pointwise,
    refuse_whole_numbers,
    required,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.graph import FLOAT_MAX, clamp_bounds, float_attribute, input_at, text_attribute


def _clip(ctx: Lowering, node: ir.Node) -> None:
    """The runtime's HARD_TANH ends the run where the lower bound is not below the upper one, which then is the result."""
    bounds = clamp_bounds(node)
    x = required(node, 0)
    if bounds is None or ctx.dtype(x) is not DataType.FLOAT32 or bounds[0] >= bounds[1]:
        _clip_by_comparison(ctx, node)
        return
    inner = inner_activation(node)
    if inner:
        elementwise(ctx, node, "Activation", activation_type=int(inner))
        return
    low, high = max(bounds[0], -FLOAT_MAX), min(bounds[1], FLOAT_MAX)
    elementwise(ctx, node, "Activation", activation_type=int(Kind.HARD_TANH), min_val=low, max_val=high)


def _clip_by_comparison(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    index, dims = ctx.use(x), ctx.shape(x)
    for place, op in ((1, "Maximum"), (2, "Minimum")):
        bound = input_at(node, place)
        if bound is not None:
            index = ctx.emit(op, [index, ctx.operand(bound, rank, pm.identity(rank))], dims)
    if index == ctx.use(x):  # no bounds
        ctx.alias(out, x, pm.identity(rank))
        return
    ctx.bind(out, index)


def _plain(kind: Kind) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        elementwise(ctx, node, "Activation", activation_type=int(kind))

    return lower


def _with_alpha(kind: Kind, default: float) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        alpha = float_attribute(node, "alpha", default)
        elementwise(ctx, node, "Activation", activation_type=int(kind), alpha=alpha)

    return lower


def _hard_sigmoid(ctx: Lowering, node: ir.Node) -> None:
    """The runtime's HSIGMOID is relu6(x + 3) / 6; other slopes are computed as a line that is clipped."""
    alpha = float_attribute(node, "alpha", 0.2)
    beta = float_attribute(node, "beta", 0.5)
    if abs(alpha - 1 / 6) < 1e-6 and beta == 0.5:
        elementwise(ctx, node, "Activation", activation_type=int(Kind.HSIGMOID))
        return
    _clipped_line(ctx, node)


@pointwise
def _clipped_line(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    alpha, beta = float_attribute(node, "alpha", 0.2), float_attribute(node, "beta", 0.5)
    scaled = ctx.emit("MulFusion", [x, ctx.float_constant(alpha)], dims, activation_type=0)
    line = ctx.emit("AddFusion", [scaled, ctx.float_constant(beta)], dims, activation_type=0)
    return activation(ctx, line, Kind.HARD_TANH, min_val=0.0, max_val=1.0)


def _gelu(ctx: Lowering, node: ir.Node) -> None:
    approximate = text_attribute(node, "approximate", "none") == "tanh"
    elementwise(ctx, node, "Activation", activation_type=int(Kind.GELU), approximate=approximate)


def _prelu(ctx: Lowering, node: ir.Node) -> None:
    """PReLUFusion takes one slope per channel of an NHWC image; other slopes are max(x, 0) + slope * min(x, 0)."""
    x, slope, out = required(node, 0), required(node, 1), node.outputs[0]
    refuse_whole_numbers(ctx, x)
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    values = np.asarray(ctx.array(slope, "the slope"), np.float32)
    if rank == 4 and values.size == shape[1] and ctx.shape(slope)[-2:] == (1, 1):
        slopes = ctx.add_constant(values.reshape(-1), slope.name or "slope")
        index = ctx.emit("PReLUFusion", [as_image(ctx, x), slopes], pm.permute(shape, pm.NHWC))
        ctx.bind(out, index, pm.NHWC)
        return
    perm = ctx.best_perm([x], rank)
    dims, source = pm.permute(shape, perm), ctx.use(x, perm)
    positive = activation(ctx, source, Kind.RELU)
    negative = ctx.emit("Minimum", [source, ctx.float_constant(0.0)], dims)
    scaled = ctx.emit("MulFusion", [negative, ctx.operand(slope, rank, perm)], dims, activation_type=0)
    ctx.bind(out, ctx.emit("AddFusion", [positive, scaled], dims, activation_type=0), perm)


@pointwise
def _softsign(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    size = ctx.emit("AddFusion", [ctx.emit("Abs", [x], dims), ctx.float_constant(1.0)], dims, activation_type=0)
    return ctx.emit("DivFusion", [x, size], dims, activation_type=0)


@pointwise
def _selu(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    elu = activation(ctx, x, Kind.ELU, alpha=float_attribute(node, "alpha", 1.6732632))
    gamma = ctx.float_constant(float_attribute(node, "gamma", 1.0507010))
    return ctx.emit("MulFusion", [elu, gamma], dims, activation_type=0)


@pointwise
def _swish(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    """The input times the sigmoid of alpha times the input."""
    alpha, line = float_attribute(node, "alpha", 1.0), x
    if alpha != 1.0:
        line = ctx.emit("MulFusion", [x, ctx.float_constant(alpha)], dims, activation_type=0)
    return ctx.emit("MulFusion", [x, activation(ctx, line, Kind.SIGMOID)], dims, activation_type=0)


@pointwise
def _mish(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    gate = activation(ctx, activation(ctx, x, Kind.SOFTPLUS), Kind.TANH)
    return ctx.emit("MulFusion", [x, gate], dims, activation_type=0)


@pointwise
def _softplus(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    """The runtime's result stays at 88 above 88, where Softplus is its input."""
    return ctx.emit("Maximum", [activation(ctx, x, Kind.SOFTPLUS), x], dims)


@pointwise
def _thresholded(ctx: Lowering, node: ir.Node, x: int, dims: Sequence[int]) -> int:
    alpha = ctx.float_constant(float_attribute(node, "alpha", 1.0))
    above = ctx.emit("Greater", [x, alpha], dims, dtype=DataType.BOOL)
    return ctx.emit("MulFusion", [x, ctx.cast(above, DataType.FLOAT32)], dims, activation_type=0)


TABLE: dict[str, Lower] = {
    "Relu": _plain(Kind.RELU),
    "Sigmoid": _plain(Kind.SIGMOID),
    "Tanh": _plain(Kind.TANH),
    "Softplus": _softplus,
    "HardSwish": _plain(Kind.HSWISH),
    "Swish": _swish,
    "HardSigmoid": _hard_sigmoid,
    "Elu": _with_alpha(Kind.ELU, 1.0),
    "LeakyRelu": _with_alpha(Kind.LEAKY_RELU, 0.01),
    "Selu": _selu,
    "Softsign": _softsign,
    "Mish": _mish,
    "ThresholdedRelu": _thresholded,
    "Gelu": _gelu,
    "Clip": _clip,
    "PRelu": _prelu,
}
