"""What ONNX operators compute, in PyTorch, with gradients.

Of operator set 13 and newer. Each function takes the node and its inputs (``None`` where one is left out) and gives one tensor,
or a list of them.

Source: ONNX operator specification.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g

Inputs = Sequence[Any]
"""Tensors, or ``None``."""

Operator = Callable[[ir.Node, Inputs], Any]

_PLACE = "coordinate_transformation_mode"

_Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Kernel, strides, dilations, pads."""


def _conv(node: ir.Node, inputs: Inputs) -> Tensor:
    x, weight, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    spatial = weight.dim() - 2
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    pads = g.window_pads(node, tuple(x.shape[2:]), tuple(weight.shape[2:]), strides, dilations)
    x, padding = _padded(x, pads)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    return convolve(x, weight, bias, strides, padding, dilations, g.int_attribute(node, "group", 1))


def _conv_transpose(node: ir.Node, inputs: Inputs) -> Tensor:
    x, weight, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    spatial = weight.dim() - 2
    none = (0,) * spatial
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    pads = g.ints_attribute(node, "pads", none * 2)
    extra = g.ints_attribute(node, "output_padding", none)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
    if "output_shape" in node.attributes or g.attribute(node, "auto_pad", "NOTSET") not in ("NOTSET", ""):
        raise ValueError("the size of its output is given")
    result = convolve(x, weight, bias, strides, none, extra, g.int_attribute(node, "group", 1), dilations)
    ends = [size - end for size, end in zip(result.shape[2:], pads[spatial:], strict=True)]
    cut = (slice(None), slice(None), *(slice(start, end) for start, end in zip(pads, ends, strict=False)))
    return result[cut]


def _padded(x: Tensor, pads: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """The tensor, padded where the padding is not the same at both ends, and the padding that is left to do."""
    count = len(pads) // 2
    if tuple(pads[:count]) == tuple(pads[count:]):
        return x, tuple(pads[:count])
    return F.pad(x, _both_ends(pads)), (0,) * count


def _window(node: ir.Node, x: Tensor) -> _Window:
    kernel = g.ints_attribute(node, "kernel_shape")
    strides = g.ints_attribute(node, "strides", (1,) * len(kernel))
    dilations = g.ints_attribute(node, "dilations", (1,) * len(kernel))
    return kernel, strides, dilations, g.window_pads(node, tuple(x.shape[2:]), kernel, strides, dilations)


def _both_ends(pads: Sequence[int]) -> list[int]:
    """Padding in the order of PyTorch: the last axis first, begin and end of each."""
    count = len(pads) // 2
    return [p for i in reversed(range(count)) for p in (pads[i], pads[count + i])]


def _ends_of_ceiling(x: Tensor, window: _Window) -> list[int]:
    """How much more padding at the end ``ceil_mode`` asks for."""
    kernel, strides, dilations, pads = window
    count, more = len(kernel), []
    for i in range(count):
        span = x.shape[2 + i] + pads[i] + pads[count + i] - (kernel[i] - 1) * dilations[i] - 1
        steps = -(-span // strides[i])
        if steps * strides[i] >= x.shape[2 + i] + pads[i]:
            steps -= 1  # a window that begins in the padding at the end is left out
        more.append(max(steps * strides[i] - span, 0))
    return more


def _max_pool(node: ir.Node, inputs: Inputs) -> Tensor:
    x = inputs[0]
    window = kernel, strides, dilations, pads = _window(node, x)
    if g.int_attribute(node, "ceil_mode", 0):
        more = _ends_of_ceiling(x, window)
        pads = (*pads[: len(kernel)], *(end + extra for end, extra in zip(pads[len(kernel) :], more, strict=True)))
    x = F.pad(x, _both_ends(pads), value=-math.inf) if any(pads) else x
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    return pool(x, kernel, strides, 0, dilations)


def _average_pool(node: ir.Node, inputs: Inputs) -> Tensor:
    x = inputs[0]
    kernel, strides, dilations, pads = _window(node, x)
    if any(d != 1 for d in dilations) or g.int_attribute(node, "ceil_mode", 0):
        raise ValueError("it is dilated, or rounds sizes up")
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    both = _both_ends(pads)
    means = pool(F.pad(x, both), kernel, strides)
    if not any(pads) or g.int_attribute(node, "count_include_pad", 0):
        return means
    return means / pool(F.pad(torch.ones_like(x[:1, :1]), both), kernel, strides)


def _gemm(node: ir.Node, inputs: Inputs) -> Tensor:
    a = inputs[0].T if g.int_attribute(node, "transA", 0) else inputs[0]
    b = inputs[1].T if g.int_attribute(node, "transB", 0) else inputs[1]
    product = a @ b * _float(node, "alpha", 1.0)
    return product if len(inputs) < 3 or inputs[2] is None else product + inputs[2] * _float(node, "beta", 1.0)


def _float(node: ir.Node, name: str, default: float) -> float:
    attribute = node.attributes.get(name)
    return default if attribute is None else float(attribute.as_float())


def _clip(node: ir.Node, inputs: Inputs) -> Tensor:
    bounds = g.clamp_bounds(node)
    if bounds is None:
        raise ValueError("its bounds are computed")
    return inputs[0].clamp(*bounds)


def _axes(node: ir.Node, inputs: Inputs, position: int = 1) -> list[int]:
    """Axes from an attribute or, in newer operator sets, from an input; empty if they are not given."""
    given = inputs[position] if len(inputs) > position else None
    return list(g.ints_attribute(node, "axes")) if given is None else [int(axis) for axis in given.reshape(-1)]


def _reduce(function: Callable[..., Tensor]) -> Operator:
    def reduce(node: ir.Node, inputs: Inputs) -> Tensor:
        axes = _axes(node, inputs) or list(range(inputs[0].dim()))
        return function(inputs[0], axes, bool(g.int_attribute(node, "keepdims", 1)))

    return reduce


def _reshape(node: ir.Node, inputs: Inputs) -> Tensor:
    x, shape = inputs[0], [int(size) for size in inputs[1]]
    if not g.int_attribute(node, "allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return x.reshape(shape)


def _flatten(node: ir.Node, inputs: Inputs) -> Tensor:
    axis = g.int_attribute(node, "axis", 1)
    axis = axis if axis >= 0 else axis + inputs[0].dim()
    return inputs[0].reshape(math.prod(inputs[0].shape[:axis]), -1)


def _squeeze(node: ir.Node, inputs: Inputs) -> Tensor:
    axes = _axes(node, inputs)
    return inputs[0].squeeze(tuple(axes)) if axes else inputs[0].squeeze()


def _unsqueeze(node: ir.Node, inputs: Inputs) -> Tensor:
    axes, x = _axes(node, inputs), inputs[0]
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _slice(node: ir.Node, inputs: Inputs) -> Tensor:
    x = inputs[0]
    parts = [None if value is None else [int(i) for i in value] for value in (*inputs[1:], None, None)]
    starts, ends = parts[0] or (), parts[1] or ()
    axes, steps = parts[2] or range(len(starts)), parts[3] or (1,) * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(x.shape[axis])[slice(start, None if end < -x.shape[axis] else end, step)]
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(chosen.start, chosen.stop, step),)]
        else:
            x = x.index_select(axis, torch.tensor(chosen))
    return x


def _split(node: ir.Node, inputs: Inputs) -> list[Tensor]:
    x, axis = inputs[0], g.int_attribute(node, "axis", 0)
    given = inputs[1] if len(inputs) > 1 else None
    sizes = [int(i) for i in given] if given is not None else []
    return list(x.split(sizes or -(-x.shape[axis] // len(node.outputs)), axis))


def _gather(node: ir.Node, inputs: Inputs) -> Tensor:
    x, index = inputs[0], inputs[1]
    axis = g.int_attribute(node, "axis", 0) % x.dim()
    index = torch.where(index < 0, index + x.shape[axis], index)
    found = x.index_select(axis, index.reshape(-1))
    return found.reshape((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def _layer_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    x, scale, bias = inputs[0], inputs[1], inputs[2] if len(inputs) > 2 else None
    axis = g.int_attribute(node, "axis", -1) % x.dim()
    shape = tuple(x.shape[axis:])
    normal = F.layer_norm(x, shape, eps=_float(node, "epsilon", 1e-5)) * scale
    return normal if bias is None else normal + bias


def _batch_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    x, scale, bias, mean, variance = inputs[:5]
    return F.batch_norm(x, mean, variance, scale, bias, eps=_float(node, "epsilon", 1e-5))


def _instance_norm(node: ir.Node, inputs: Inputs) -> Tensor:
    return F.instance_norm(inputs[0], weight=inputs[1], bias=inputs[2], eps=_float(node, "epsilon", 1e-5))


def _pad(node: ir.Node, inputs: Inputs) -> Tensor:
    x, mode = inputs[0], g.attribute(node, "mode", "constant")
    given = [int(i) for i in inputs[1]]
    axes = _axes(node, inputs, 3) or list(range(x.dim()))
    ends = dict(zip((axis % x.dim() for axis in axes), zip(given, given[len(axes) :], strict=False), strict=True))
    both = [size for axis in reversed(range(x.dim())) for size in ends.get(axis, (0, 0))]
    value = inputs[2] if len(inputs) > 2 else None
    if mode == "constant":
        return F.pad(x, both, value=0.0 if value is None else float(value))
    while both and both[-2:] == [0, 0]:
        both = both[:-2]
    return F.pad(x, both, mode={"edge": "replicate"}.get(str(mode), str(mode)))


def _resize(node: ir.Node, inputs: Inputs) -> Tensor:
    x = inputs[0]
    scales, sizes = (inputs[i] if len(inputs) > i else None for i in (2, 3))
    if sizes is not None and sizes.numel():
        target = [int(i) for i in sizes]
    else:
        target = [int(n * float(s)) for n, s in zip(x.shape, scales if scales is not None else (), strict=True)]
    mode, place = (str(g.attribute(node, n, d)) for n, d in (("mode", "nearest"), (_PLACE, "half_pixel")))
    if target[:2] == list(x.shape[:2]):
        if mode == "nearest" and _copies_blocks(node, x.shape[2:], target[2:]):
            return F.interpolate(x, target[2:], mode="nearest")
        if mode == "linear" and x.dim() == 4 and place in ("half_pixel", "pytorch_half_pixel", "align_corners"):
            return F.interpolate(x, target[2:], mode="bilinear", align_corners=place == "align_corners")
    raise ValueError(f"mode {mode} with {place} coordinates")


def _copies_blocks(node: ir.Node, sizes: Sequence[int], target: Sequence[int]) -> bool:
    """Whether every element becomes a block of equal ones."""
    place = g.attribute(node, _PLACE, "half_pixel")
    is_floor = g.attribute(node, "nearest_mode", "round_prefer_floor") == "floor"
    return (place == "half_pixel" or is_floor) and all(to % size == 0 for size, to in zip(sizes, target, strict=True))


def _cast(node: ir.Node, inputs: Inputs) -> Tensor:
    wanted = ir.DataType(g.int_attribute(node, "to", 1)).numpy()
    return inputs[0].to(torch.from_numpy(np.zeros((), wanted)).dtype)


def _constant_of_shape(node: ir.Node, inputs: Inputs) -> Tensor:
    value = node.attributes.get("value")
    filled = torch.zeros(1) if value is None else torch.from_numpy(value.as_tensor().numpy().copy())
    return filled.reshape(-1)[0].expand([int(i) for i in inputs[0]]).clone()


def _expand(node: ir.Node, inputs: Inputs) -> Tensor:
    del node
    shape = torch.broadcast_shapes(tuple(inputs[0].shape), tuple(int(i) for i in inputs[1]))
    return inputs[0].expand(shape)


def _hard_sigmoid(node: ir.Node, inputs: Inputs) -> Tensor:
    return (inputs[0] * _float(node, "alpha", 0.2) + _float(node, "beta", 0.5)).clamp(0, 1)


def _divide(node: ir.Node, inputs: Inputs) -> Tensor:
    del node
    if inputs[0].is_floating_point():
        return inputs[0] / inputs[1]
    return torch.div(inputs[0], inputs[1], rounding_mode="trunc")


def _depth_to_space(node: ir.Node, inputs: Inputs) -> Tensor:
    x, block = inputs[0], g.int_attribute(node, "blocksize", 1)
    n, c, h, w = x.shape
    if g.attribute(node, "mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, block)
    parts = x.reshape(n, block, block, c // block**2, h, w)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(n, c // block**2, h * block, w * block)


def _space_to_depth(node: ir.Node, inputs: Inputs) -> Tensor:
    x, block = inputs[0], g.int_attribute(node, "blocksize", 1)
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(n, c * block**2, h // block, w // block)


def _shape(node: ir.Node, inputs: Inputs) -> Tensor:
    sizes = list(inputs[0].shape)
    start = g.int_attribute(node, "start", 0)
    return torch.tensor(sizes[start : node.attributes["end"].as_int() if "end" in node.attributes else None])


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


OPERATORS: Mapping[str, Operator] = {
    "Abs": _plain(torch.abs),
    "Add": _plain(torch.add),
    "And": _plain(torch.logical_and),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "Ceil": _plain(torch.ceil),
    "Clip": _clip,
    "Concat": lambda node, inputs: torch.cat(list(inputs), g.int_attribute(node, "axis", 0)),
    "ConstantOfShape": _constant_of_shape,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Cos": _plain(torch.cos),
    "DepthToSpace": _depth_to_space,
    "Div": _divide,
    "Dropout": lambda node, inputs: inputs[0],
    "Elu": lambda node, inputs: F.elu(inputs[0], _float(node, "alpha", 1.0)),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Expand": _expand,
    "Flatten": _flatten,
    "Floor": _plain(torch.floor),
    "Gather": _gather,
    "Gelu": lambda node, inputs: F.gelu(inputs[0], approximate=str(g.attribute(node, "approximate", "none"))),
    "Gemm": _gemm,
    "GlobalAveragePool": _all_spatial(torch.mean),
    "GlobalMaxPool": _all_spatial(torch.amax),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _plain(F.hardswish),
    "Identity": _plain(lambda x: x),
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LeakyRelu": lambda node, inputs: F.leaky_relu(inputs[0], _float(node, "alpha", 0.01)),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "Log": _plain(torch.log),
    "LogSoftmax": lambda node, inputs: F.log_softmax(inputs[0], g.int_attribute(node, "axis", -1)),
    "MatMul": _plain(torch.matmul),
    "Max": _folded(torch.maximum),
    "MaxPool": _max_pool,
    "Min": _folded(torch.minimum),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Not": _plain(torch.logical_not),
    "Or": _plain(torch.logical_or),
    "PRelu": _plain(lambda x, slope: torch.where(x < 0, x * slope, x)),
    "Pad": _pad,
    "Pow": _plain(torch.pow),
    "Range": _plain(lambda start, limit, delta: torch.arange(start.item(), limit.item(), delta.item())),
    "Reciprocal": _plain(torch.reciprocal),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape,
    "Sigmoid": _plain(torch.sigmoid),
    "Sin": _plain(torch.sin),
    "Slice": _slice,
    "Softmax": lambda node, inputs: F.softmax(inputs[0], g.int_attribute(node, "axis", -1)),
    "Softplus": _plain(F.softplus),
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Sqrt": _plain(torch.sqrt),
    "Squeeze": _squeeze,
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Tanh": _plain(torch.tanh),
    "Tile": _plain(lambda x, repeats: x.repeat([int(i) for i in repeats])),
    "Transpose": lambda node, inputs: inputs[0].permute(
        g.ints_attribute(node, "perm", tuple(reversed(range(inputs[0].dim()))))
    ),
    "Unsqueeze": _unsqueeze,
    "Where": _plain(torch.where),
}
"""ONNX operator -> its function."""
