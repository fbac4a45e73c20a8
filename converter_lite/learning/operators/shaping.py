"""Operators that move values to other places, repeat them or leave them out."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g
from converter_lite.learning.operators.common import Inputs, axes_of, given, integers


def reshape(node: ir.Node, inputs: Inputs) -> Tensor:
    """Reshape."""
    x, shape = inputs[0], [int(size) for size in inputs[1]]
    if not g.int_attribute(node, "allowzero", 0):
        shape = [x.shape[i] if size == 0 else size for i, size in enumerate(shape)]
    return x.reshape(shape)


def flatten(node: ir.Node, inputs: Inputs) -> Tensor:
    """Flatten."""
    axis = g.int_attribute(node, "axis", 1)
    axis = axis if axis >= 0 else axis + inputs[0].dim()
    return inputs[0].reshape(math.prod(inputs[0].shape[:axis]), -1)


def squeeze(node: ir.Node, inputs: Inputs) -> Tensor:
    """Squeeze."""
    axes = axes_of(node, inputs)
    return inputs[0].squeeze(tuple(axes)) if axes else inputs[0].squeeze()


def unsqueeze(node: ir.Node, inputs: Inputs) -> Tensor:
    """Unsqueeze."""
    axes, x = axes_of(node, inputs), inputs[0]
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def slice_of(node: ir.Node, inputs: Inputs) -> Tensor:
    """Slice."""
    del node
    x = inputs[0]
    starts, ends = integers(inputs, 1) or (), integers(inputs, 2) or ()
    axes, steps = integers(inputs, 3) or range(len(starts)), integers(inputs, 4) or (1,) * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(x.shape[axis])[slice(start, None if step < 0 and end < -x.shape[axis] else end, step)]
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(chosen.start, chosen.stop, step),)]
        else:
            x = x.index_select(axis, torch.tensor(chosen))
    return x


def split(node: ir.Node, inputs: Inputs) -> list[Tensor]:
    """Split."""
    x, axis = inputs[0], g.int_attribute(node, "axis", 0)
    return list(x.split(integers(inputs, 1) or -(-x.shape[axis] // len(node.outputs)), axis))


def expand(node: ir.Node, inputs: Inputs) -> Tensor:
    """Expand."""
    del node
    shape = torch.broadcast_shapes(tuple(inputs[0].shape), tuple(int(i) for i in inputs[1]))
    return inputs[0].expand(shape)


def pad(node: ir.Node, inputs: Inputs) -> Tensor:
    """Pad."""
    x, mode = inputs[0], g.text_attribute(node, "mode", "constant")
    sizes = [int(i) for i in inputs[1]]
    axes = axes_of(node, inputs, 3) or list(range(x.dim()))
    ends = dict(zip((axis % x.dim() for axis in axes), zip(sizes, sizes[len(axes) :], strict=False), strict=True))
    both = [size for axis in reversed(range(x.dim())) for size in ends.get(axis, (0, 0))]
    value = given(inputs, 2)
    if not any(both):
        return x
    if mode == "constant":
        return F.pad(x, both, value=0.0 if value is None else float(value))
    if any(size < 0 for size in sizes):
        raise ValueError(f"mode {mode} with padding below zero")
    while both and both[-2:] == [0, 0]:
        both = both[:-2]
    kind = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    spatial = len(both) // 2
    if x.dim() in (spatial + 1, spatial + 2):
        return F.pad(x, both, mode=kind)
    front = x.reshape(1, -1, *x.shape[x.dim() - spatial :])  # PyTorch counts axes from the front as well
    return F.pad(front, both, mode=kind).reshape(
        *x.shape[: x.dim() - spatial], *(n + a + b for n, a, b in _sizes(x, both))
    )


def _sizes(x: Tensor, both: list[int]) -> list[tuple[int, int, int]]:
    """The last axes of a tensor, with the padding of both ends."""
    spatial = len(both) // 2
    pairs = [(both[2 * i], both[2 * i + 1]) for i in reversed(range(spatial))]
    return [(size, *pair) for size, pair in zip(x.shape[x.dim() - spatial :], pairs, strict=True)]


def depth_to_space(node: ir.Node, inputs: Inputs) -> Tensor:
    """DepthToSpace."""
    x, block = inputs[0], g.int_attribute(node, "blocksize", 1)
    n, c, h, w = x.shape
    if g.text_attribute(node, "mode", "DCR") == "CRD":
        return F.pixel_shuffle(x, block)
    parts = x.reshape(n, block, block, c // block**2, h, w)
    return parts.permute(0, 3, 4, 1, 5, 2).reshape(n, c // block**2, h * block, w * block)


def space_to_depth(node: ir.Node, inputs: Inputs) -> Tensor:
    """SpaceToDepth."""
    x, block = inputs[0], g.int_attribute(node, "blocksize", 1)
    n, c, h, w = x.shape
    if g.text_attribute(node, "mode", "DCR") == "CRD":
        return F.pixel_unshuffle(x, block)
    parts = x.reshape(n, c, h // block, block, w // block, block)
    return parts.permute(0, 3, 5, 1, 2, 4).reshape(n, c * block**2, h // block, w // block)


def shape_of(node: ir.Node, inputs: Inputs) -> Tensor:
    """Shape."""
    sizes = list(inputs[0].shape)
    start = g.int_attribute(node, "start", 0)
    end = node.attributes["end"].as_int() if "end" in node.attributes else None
    return torch.tensor(sizes[start:end], dtype=torch.int64)


def constant_of_shape(node: ir.Node, inputs: Inputs) -> Tensor:
    """ConstantOfShape."""
    value = node.attributes.get("value")
    filled = torch.zeros(1) if value is None else torch.from_numpy(value.as_tensor().numpy().copy())
    return filled.reshape(-1)[0].expand([int(i) for i in inputs[0]]).clone()


def eye_like(node: ir.Node, inputs: Inputs) -> Tensor:
    """EyeLike."""
    x = inputs[0]
    dtype = dtype_of(g.int_attribute(node, "dtype", 0)) if "dtype" in node.attributes else x.dtype
    k = g.int_attribute(node, "k", 0)
    return torch.diagonal_scatter(torch.zeros_like(x, dtype=dtype), torch.ones(max(_diagonal(x, k), 0), dtype=dtype), k)


def _diagonal(x: Tensor, k: int) -> int:
    """Elements of the diagonal that is ``k`` above the main one."""
    return min(x.shape[0] + min(k, 0), x.shape[1] - max(k, 0))


def dtype_of(kind: int) -> torch.dtype:
    """The type that ONNX counts under a number."""
    array = np.zeros((), ir.DataType(kind).numpy())
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8 or type(array.dtype).__module__ == "ml_dtypes":
        raise ValueError(f"type {ir.DataType(kind).name}")
    return torch.from_numpy(array).dtype


def cast(node: ir.Node, inputs: Inputs) -> Tensor:
    """Cast."""
    return inputs[0].to(dtype_of(g.int_attribute(node, "to", 1)))


def triangle(node: ir.Node, inputs: Inputs) -> Tensor:
    """Trilu."""
    x, k = inputs[0], integers(inputs, 1) or [0]
    cut = torch.triu if g.int_attribute(node, "upper", 1) else torch.tril
    return cut(x, k[0])


def concatenated(node: ir.Node, inputs: Inputs) -> Tensor:
    """Concat."""
    return torch.cat(list(inputs), g.int_attribute(node, "axis", 0))


def transposed(node: ir.Node, inputs: Inputs) -> Tensor:
    """Transpose."""
    return inputs[0].permute(g.ints_attribute(node, "perm", tuple(reversed(range(inputs[0].dim())))))


def reverse_sequence(node: ir.Node, inputs: Inputs) -> Tensor:
    """ReverseSequence."""
    x, lengths = inputs[0], inputs[1]
    time, batch = (g.int_attribute(node, name, default) for name, default in (("time_axis", 0), ("batch_axis", 1)))
    places = torch.arange(x.shape[time]).reshape(-1, 1)
    places = torch.where(places < lengths, lengths - 1 - places, places)  # of time and batch
    places = places if time < batch else places.T
    shape = [size if axis in (time, batch) else 1 for axis, size in enumerate(x.shape)]
    return x.gather(time, places.reshape(shape).expand(x.shape))


def one_hot(node: ir.Node, inputs: Inputs) -> Tensor:
    """OneHot."""
    indices, depth, values = inputs[0].long(), int(inputs[1]), inputs[2]
    axis = g.int_attribute(node, "axis", -1)
    axis = axis if axis >= 0 else axis + indices.dim() + 1
    shape = [depth if i == axis else 1 for i in range(indices.dim() + 1)]
    is_hot = torch.where(indices < 0, indices + depth, indices).unsqueeze(axis) == torch.arange(depth).reshape(shape)
    return torch.where(is_hot, values[1], values[0])


def cumulated(node: ir.Node, inputs: Inputs) -> Tensor:
    """CumSum."""
    x, axis = inputs[0], int(inputs[1])
    backwards = bool(g.int_attribute(node, "reverse", 0))
    x = x.flip(axis) if backwards else x
    sums = x.cumsum(axis, dtype=x.dtype)
    if g.int_attribute(node, "exclusive", 0):
        first = torch.zeros_like(sums.narrow(axis, 0, 1))
        sums = torch.cat([first, sums.narrow(axis, 0, sums.shape[axis] - 1)], axis)
    return sums.flip(axis) if backwards else sums
