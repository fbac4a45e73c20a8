"""What ONNX operators compute, in PyTorch, with gradients.

Of operator set 13 and newer. Operators that ONNX defines by others are known if these are
(:func:`~converter_lite.passes.definitions.inline_definitions`).

Source: ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g
from converter_lite.learning.operators import indexing, recurrent, resampling, shaping, windows
from converter_lite.learning.operators.common import (
    Inputs,
    Operator,
    axes_of,
    given,
    integers,
)


def _gemm(node: ir.Node, inputs: Inputs) -> Tensor:
    a = inputs[0].T if g.int_attribute(node, "transA", 0) else inputs[0]
    b = inputs[1].T if g.int_attribute(node, "transB", 0) else inputs[1]
    product, c = a @ b * g.float_attribute(node, "alpha", 1.0), given(inputs, 2)
    return product if c is None else product + c * g.float_attribute(node, "beta", 1.0)


def _clip(node: ir.Node, inputs: Inputs) -> Tensor:
    del node
    least, most = (None if value is None else value.item() for value in (given(inputs, 1), given(inputs, 2)))
    return inputs[0] if least is None and most is None else inputs[0].clamp(least, most)


def _reduce(function: Callable[..., Tensor]) -> Operator:
    """A reduction; its function takes the tensor, the axes (none: nothing is reduced), and whether these stay with size 1."""

    def reduce(node: ir.Node, inputs: Inputs) -> Tensor:
        x = inputs[0]
        axes = [axis % max(x.dim(), 1) for axis in axes_of(node, inputs)]
        if not axes and not g.int_attribute(node, "noop_with_empty_axes", 0):
            axes = list(range(x.dim()))
        return function(x, axes, bool(g.int_attribute(node, "keepdims", 1)))

    return reduce


def _sum(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
    return x.sum(axes, keeps, dtype=x.dtype) if axes else x


def _mean(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
    return x.mean(axes, keeps) if axes else x


def _product(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keeps, dtype=x.dtype)
    return x


def _extreme(function: Callable[..., Tensor], of_none: float) -> Callable[..., Tensor]:
    """The largest or least element; ``of_none`` where there is no element."""

    def extreme(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
        if not axes:
            return x
        if x.numel():
            return function(x, axes, keeps)
        return torch.full_like(x.sum(axes, keeps), of_none)

    return extreme


def _log_sum_exp(x: Tensor, axes: list[int], keeps: bool) -> Tensor:
    return x.logsumexp(axes, keeps) if axes else x


def _layer_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    x, scale, bias = inputs[0], inputs[1], given(inputs, 2)
    axis = g.int_attribute(node, "axis", -1) % x.dim()
    shape = tuple(x.shape[axis:])
    normal = F.layer_norm(x, shape, eps=g.float_attribute(node, "epsilon", 1e-5)) * scale
    return normal if bias is None else normal + bias


def _batch_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    x, scale, bias, mean, variance = inputs[:5]
    return F.batch_norm(x, mean, variance, scale, bias, eps=g.float_attribute(node, "epsilon", 1e-5))


def _instance_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    return F.instance_norm(inputs[0], weight=inputs[1], bias=inputs[2], eps=g.float_attribute(node, "epsilon", 1e-5))


def _local_response(node: ir.Node, inputs: Inputs) -> Tensor:
    size = g.int_attribute(node, "size", 1)
    squares = F.pad(inputs[0].square().movedim(1, -1), ((size - 1) // 2, size // 2))
    sums = squares.unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    bottom = g.float_attribute(node, "bias", 1.0) + g.float_attribute(node, "alpha", 1e-4) / size * sums
    return inputs[0] / bottom ** g.float_attribute(node, "beta", 0.75)


def _lp_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    x, axis = inputs[0], g.int_attribute(node, "axis", -1)
    length = torch.linalg.vector_norm(x, g.int_attribute(node, "p", 2), axis, keepdim=True)
    return x / torch.where(length == 0, 1.0, length)


def _root(x: Tensor) -> Tensor:
    """The square root, whose slope at 0 counts as 0: an infinite one would make gradients in front of it NaN."""
    is_zero = x == 0
    return torch.where(is_zero, 0.0, torch.where(is_zero, 1.0, x).sqrt())


def _power(x: Tensor, exponent: Tensor) -> Tensor:
    is_steep = (x == 0) & (exponent > 0) & (exponent < 1)
    return torch.where(is_steep, 0, torch.pow(torch.where(is_steep, 1, x), exponent).to(x.dtype))


def _hard_sigmoid(node: ir.Node, inputs: Inputs) -> Tensor:
    return (inputs[0] * g.float_attribute(node, "alpha", 0.2) + g.float_attribute(node, "beta", 0.5)).clamp(0, 1)


def _divide(node: ir.Node, inputs: Inputs) -> Tensor:
    del node
    if inputs[0].is_floating_point():
        return inputs[0] / inputs[1]
    return torch.div(inputs[0], inputs[1], rounding_mode="trunc")


def _mod(node: ir.Node, inputs: Inputs) -> Tensor:
    return (torch.fmod if g.int_attribute(node, "fmod", 0) else torch.remainder)(inputs[0], inputs[1])


def _selu(node: ir.Node, inputs: Inputs) -> Tensor:
    alpha, gamma = (
        g.float_attribute(node, "alpha", 1.67326319217681884765625),
        g.float_attribute(node, "gamma", 1.05070102214813232421875),
    )
    return gamma * F.elu(inputs[0], alpha)


def _shrink(node: ir.Node, inputs: Inputs) -> Tensor:
    x, border, bias = inputs[0], g.float_attribute(node, "lambd", 0.5), g.float_attribute(node, "bias", 0.0)
    return torch.where(x < -border, x + bias, torch.where(x > border, x - bias, torch.zeros_like(x)))


def _threshold(node: ir.Node, inputs: Inputs) -> Tensor:
    return torch.where(inputs[0] > g.float_attribute(node, "alpha", 1.0), inputs[0], torch.zeros_like(inputs[0]))


def _is_infinite(node: ir.Node, inputs: Inputs) -> Tensor:
    x = inputs[0]
    below, above = (bool(g.int_attribute(node, name, 1)) for name in ("detect_negative", "detect_positive"))
    return torch.isinf(x) & (((x < 0) & below) | ((x > 0) & above))


def _einsum(node: ir.Node, inputs: Inputs) -> Tensor:
    return torch.einsum(g.text_attribute(node, "equation", "").replace(" ", ""), *inputs)


def _range(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


def _dropout(node: ir.Node, inputs: Inputs) -> list[Tensor]:
    if (integers(inputs, 2) or [0])[0]:
        raise ValueError("it drops elements, as in training")
    return [inputs[0], torch.ones_like(inputs[0], dtype=torch.bool)]


def _plain(function: Callable[..., Any]) -> Operator:
    """An operator that is a function of its inputs alone."""
    return lambda node, inputs: function(*inputs)


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    """An operator of any number of inputs."""

    def fold(node: ir.Node, inputs: Inputs) -> Tensor:
        result: Tensor = inputs[0]
        for value in inputs[1:]:
            result = function(result, value)
        return result

    return fold


def _all_spatial(function: Callable[..., Tensor]) -> Operator:
    return lambda node, inputs: function(inputs[0], tuple(range(2, inputs[0].dim())), keepdim=True)


def _with(function: Callable[..., Any], **settings: tuple[str, float]) -> Operator:
    """A function of one input and of float attributes, each given as its name and default."""
    return lambda node, inputs: function(
        inputs[0],
        **{name: g.float_attribute(node, attribute, default) for name, (attribute, default) in settings.items()},
    )


OPERATORS: Mapping[str, Operator] = {
    "Abs": _plain(torch.abs),
    "Acos": _plain(torch.acos),
    "Acosh": _plain(torch.acosh),
    "Add": _plain(torch.add),
    "And": _plain(torch.logical_and),
    "ArgMax": indexing.arg_of(torch.argmax),
    "ArgMin": indexing.arg_of(torch.argmin),
    "Asin": _plain(torch.asin),
    "Asinh": _plain(torch.asinh),
    "Atan": _plain(torch.atan),
    "Atanh": _plain(torch.atanh),
    "AveragePool": windows.average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": shaping.cast,
    "CastLike": _plain(lambda x, like: x.to(like.dtype)),
    "Ceil": _plain(torch.ceil),
    "Celu": _with(F.celu, alpha=("alpha", 1.0)),
    "Clip": _clip,
    "Concat": shaping.concatenated,
    "ConstantOfShape": shaping.constant_of_shape,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "Cos": _plain(torch.cos),
    "Cosh": _plain(torch.cosh),
    "CumSum": shaping.cumulated,
    "DepthToSpace": shaping.depth_to_space,
    "Det": _plain(torch.linalg.det),
    "Div": _divide,
    "Dropout": _dropout,
    "Einsum": _einsum,
    "Elu": _with(F.elu, alpha=("alpha", 1.0)),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Expand": shaping.expand,
    "EyeLike": shaping.eye_like,
    "Flatten": shaping.flatten,
    "Floor": _plain(torch.floor),
    "Gather": indexing.gather,
    "GatherElements": indexing.gather_elements,
    "GatherND": indexing.gather_nd,
    "GRU": recurrent.recurrent("GRU"),
    "Gelu": lambda node, inputs: F.gelu(inputs[0], approximate=g.text_attribute(node, "approximate", "none")),
    "Gemm": _gemm,
    "GlobalAveragePool": _all_spatial(torch.mean),
    "GlobalMaxPool": _all_spatial(torch.amax),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "GridSample": resampling.grid_sample,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(lambda x: x),
    "InstanceNormalization": _instance_norm,
    "IsInf": _is_infinite,
    "IsNaN": _plain(torch.isnan),
    "LRN": _local_response,
    "LSTM": recurrent.recurrent("LSTM"),
    "LayerNormalization": _layer_norm,
    "LeakyRelu": _with(F.leaky_relu, negative_slope=("alpha", 0.01)),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "Log": _plain(torch.log),
    "LogSoftmax": lambda node, inputs: F.log_softmax(inputs[0], g.int_attribute(node, "axis", -1)),
    "LpNormalization": _lp_norm,
    "MatMul": _plain(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": windows.max_pool,
    "Mean": lambda node, inputs: _folded(torch.add)(node, inputs) / len(inputs),
    "Min": _folded(torch.minimum),
    "Mish": _plain(F.mish),
    "Mod": _mod,
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "NonZero": indexing.non_zero,
    "Not": _plain(torch.logical_not),
    "OneHot": shaping.one_hot,
    "Or": _plain(torch.logical_or),
    "PRelu": _plain(lambda x, slope: torch.where(x < 0, x * slope, x)),
    "Pad": shaping.pad,
    "Pow": _plain(_power),
    "RNN": recurrent.recurrent("RNN"),
    "Range": _plain(_range),
    "Reciprocal": _plain(torch.reciprocal),
    "ReduceL1": _reduce(lambda x, axes, keeps: _sum(x.abs(), axes, keeps)),
    "ReduceL2": _reduce(lambda x, axes, keeps: _root(_sum(x.square(), axes, keeps))),
    "ReduceLogSum": _reduce(lambda x, axes, keeps: _sum(x, axes, keeps).log()),
    "ReduceLogSumExp": _reduce(_log_sum_exp),
    "ReduceMax": _reduce(_extreme(torch.amax, -torch.inf)),
    "ReduceMean": _reduce(_mean),
    "ReduceMin": _reduce(_extreme(torch.amin, torch.inf)),
    "ReduceProd": _reduce(_product),
    "ReduceSum": _reduce(_sum),
    "ReduceSumSquare": _reduce(lambda x, axes, keeps: _sum(x.square(), axes, keeps)),
    "Relu": _plain(torch.relu),
    "Reshape": shaping.reshape,
    "Resize": resampling.resize,
    "ReverseSequence": shaping.reverse_sequence,
    "Round": _plain(torch.round),
    "ScatterElements": indexing.scatter_elements,
    "ScatterND": indexing.scatter_nd,
    "Selu": _selu,
    "Shape": shaping.shape_of,
    "Shrink": _shrink,
    "Sigmoid": _plain(torch.sigmoid),
    "Sign": _plain(torch.sign),
    "Sin": _plain(torch.sin),
    "Sinh": _plain(torch.sinh),
    "Size": _plain(lambda x: torch.tensor(x.numel())),
    "Slice": shaping.slice_of,
    "Softmax": lambda node, inputs: F.softmax(inputs[0], g.int_attribute(node, "axis", -1)),
    "Softplus": _plain(F.softplus),
    "Softsign": _plain(F.softsign),
    "SpaceToDepth": shaping.space_to_depth,
    "Split": shaping.split,
    "Sqrt": _plain(_root),
    "Squeeze": shaping.squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Tan": _plain(torch.tan),
    "Tanh": _plain(torch.tanh),
    "ThresholdedRelu": _threshold,
    "Tile": _plain(lambda x, repeats: x.repeat([int(i) for i in repeats])),
    "TopK": indexing.top_k,
    "Transpose": shaping.transposed,
    "Trilu": shaping.triangle,
    "Unsqueeze": shaping.unsqueeze,
    "Where": _plain(torch.where),
    "Xor": _plain(torch.logical_xor),
}
"""ONNX operator -> its function."""
