"""Convolutions and poolings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from converter_lite import graph as g
from converter_lite.learning.operators.common import Inputs, given

_Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Kernel, strides, dilations, pads."""


def conv(node: ir.Node, inputs: Inputs) -> Tensor:
    """Conv."""
    x, weight, bias = inputs[0], inputs[1], given(inputs, 2)
    spatial = weight.dim() - 2
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    pads = g.window_pads(node, tuple(x.shape[2:]), tuple(weight.shape[2:]), strides, dilations)
    x, padding = _padded(x, pads)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[spatial - 1]
    return convolve(x, weight, bias, strides, padding, dilations, g.int_attribute(node, "group", 1))


def conv_transpose(node: ir.Node, inputs: Inputs) -> Tensor:
    """ConvTranspose."""
    x, weight, bias = inputs[0], inputs[1], given(inputs, 2)
    spatial = weight.dim() - 2
    none = (0,) * spatial
    strides = g.ints_attribute(node, "strides", (1,) * spatial)
    dilations = g.ints_attribute(node, "dilations", (1,) * spatial)
    extra = g.ints_attribute(node, "output_padding", none)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[spatial - 1]
    result = convolve(x, weight, bias, strides, none, extra, g.int_attribute(node, "group", 1), dilations)
    pads = _pads_of_transposed(node, tuple(x.shape[2:]), tuple(result.shape[2:]), strides)
    ends = [size - end for size, end in zip(result.shape[2:], pads[spatial:], strict=True)]
    if any(end > size for end, size in zip(ends, result.shape[2:], strict=True)):
        raise ValueError("its output is larger than what its windows reach")
    cut = (slice(None), slice(None), *(slice(start, end) for start, end in zip(pads, ends, strict=False)))
    return result[cut]


def _pads_of_transposed(
    node: ir.Node, before: tuple[int, ...], full: tuple[int, ...], strides: Sequence[int]
) -> tuple[int, ...]:
    """What is cut off at both ends, from the size of the output where that is given."""
    mode = g.text_attribute(node, "auto_pad", "NOTSET")
    wanted = g.ints_attribute(node, "output_shape")[-len(before) :]
    if not wanted and mode in ("NOTSET", "", "VALID"):
        return g.ints_attribute(node, "pads", (0,) * 2 * len(before)) if mode != "VALID" else (0,) * 2 * len(before)
    wanted = wanted or tuple(size * stride for size, stride in zip(before, strides, strict=True))
    totals = [size - result for size, result in zip(full, wanted, strict=True)]
    small, large = [total // 2 for total in totals], [total - total // 2 for total in totals]
    return (*small, *large) if mode == "SAME_UPPER" else (*large, *small)


def max_pool(node: ir.Node, inputs: Inputs) -> Tensor:
    """MaxPool, without the positions."""
    x = inputs[0]
    window = kernel, strides, dilations, pads = _window(node, x)
    if g.int_attribute(node, "ceil_mode", 0):
        pads = _longer(pads, _ends_of_ceiling(x, window))
    x = F.pad(x, _both_ends(pads), value=-math.inf) if any(pads) else x
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    return pool(x, kernel, strides, 0, dilations)


def average_pool(node: ir.Node, inputs: Inputs) -> Tensor:
    """AveragePool."""
    x = inputs[0]
    window = kernel, strides, dilations, pads = _window(node, x)
    counts_padding = bool(g.int_attribute(node, "count_include_pad", 0))
    if any(d != 1 for d in dilations) or g.int_attribute(node, "ceil_mode", 0):
        return _means_of_any_window(x, window, g.int_attribute(node, "ceil_mode", 0), counts_padding)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    both = _both_ends(pads)
    means = pool(F.pad(x, both), kernel, strides)
    if not any(pads) or counts_padding:
        return means
    return means / pool(F.pad(torch.ones_like(x[:1, :1]), both), kernel, strides)


def _means_of_any_window(x: Tensor, window: _Window, ceil_mode: int, counts_padding: bool) -> Tensor:
    """Sums over windows as convolutions, divided by how many of their elements there are."""
    kernel, strides, dilations, pads = window
    more = _ends_of_ceiling(x, window) if ceil_mode else [0] * len(kernel)
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    ones = torch.ones((1, 1, *kernel), dtype=x.dtype)

    def sums(tensor: Tensor) -> Tensor:
        padded = F.pad(tensor, _both_ends(_longer((0,) * len(pads), more)))
        alone = padded.reshape(-1, 1, *padded.shape[2:])
        found: Tensor = convolve(alone, ones, None, strides, 0, dilations)
        return found.reshape(*tensor.shape[:2], *found.shape[2:])

    both = _both_ends(pads)
    counted = torch.ones_like(x[:1, :1])
    return sums(F.pad(x, both)) / sums(F.pad(counted, both, value=float(counts_padding)))


def _longer(pads: Sequence[int], more: Sequence[int]) -> tuple[int, ...]:
    """Padding with more of it at the end."""
    count = len(more)
    return (*pads[:count], *(end + extra for end, extra in zip(pads[count:], more, strict=True)))


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
    pads = g.window_pads(node, tuple(x.shape[2:]), kernel, strides, dilations)
    if g.int_attribute(node, "ceil_mode", 0) and all(d == 1 for d in dilations):  # it may be larger than the picture
        reached = [n + a + b for n, a, b in zip(x.shape[2:], pads, pads[len(kernel) :], strict=False)]
        kernel = tuple(min(size, most) for size, most in zip(kernel, reached, strict=True))
    return kernel, strides, dilations, pads


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
