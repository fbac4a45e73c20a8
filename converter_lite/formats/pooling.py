"""Windows of pooling layers whose numbers are rounded up, or whose means count a padding: where the last ones begin and end.

ONNX divides a mean that counts padding by all elements of a window; frameworks leave out what lies behind the padding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Window = Mapping[str, Any]
"""Attributes of an ONNX pooling node: kernel_shape, strides, pads, dilations, ceil_mode."""


def last_begins(sizes: Sequence[int], window: Window) -> list[int]:
    """Where the last windows begin, from the beginning of the padding on; with ceil_mode one may begin behind the image."""
    rounds_up = window.get("ceil_mode", 0)
    begins = []
    for size, extent, stride, begin, end in _axes(sizes, window):
        span = size + begin + end - extent
        begins.append((-(-span // stride) if rounds_up else span // stride) * stride)
    return begins


def last_inside(sizes: Sequence[int], window: Window) -> list[int]:
    """The same without windows that begin behind the image."""
    axes = zip(_axes(sizes, window), last_begins(sizes, window), strict=True)
    return [last - stride if last >= size + begin else last for (size, _, stride, begin, _), last in axes]


def end_pads(sizes: Sequence[int], window: Window, begins: Sequence[int]) -> list[int]:
    """Padding at the end with which numbers of windows that are rounded down give these last ones."""
    axes = zip(_axes(sizes, window), begins, strict=True)
    return [max(last + extent - size - begin, 0) for (size, extent, _, begin, _), last in axes]


def uncounted(
    sizes: Sequence[int], window: Window, begins: Sequence[int], behind: Sequence[int]
) -> NDArray[np.float32]:
    """All elements of each window by those that a mean counts.

    Args:
        sizes: Of the image.
        window: What slides over it.
        begins: Where the last windows begin.
        behind: How many elements behind the image count.
    """
    shares = []
    for (size, extent, stride, begin, _), last, more in zip(_axes(sizes, window), begins, behind, strict=True):
        starts = np.arange(0, last + 1, stride)
        shares.append(extent / (np.minimum(starts + extent, begin + size + more) - starts))
    return np.asarray(reduce(np.multiply.outer, shares), np.float32)


def _axes(sizes: Sequence[int], window: Window) -> list[tuple[int, int, int, int, int]]:
    """Size, extent of a window, stride, padding at the beginning and at the end of each axis."""
    count = len(sizes)
    kernel, dilations = window["kernel_shape"], window.get("dilations", [1] * count)
    extents = [dilation * (length - 1) + 1 for length, dilation in zip(kernel, dilations, strict=True)]
    pads = window.get("pads", [0] * 2 * count)
    return list(zip(sizes, extents, window["strides"], pads[:count], pads[count:], strict=True))
