"""Where a four-dimensional input has its channels, and how to convert data to that layout."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.inputs import InputSpec, format_shape

PICTURE_CHANNELS = (1, 3, 4)
"""Channel counts of pictures: gray, colour, colour with alpha."""

DOUBT_RATIO = 1.15
"""Median :func:`roughness_ratio` of some pictures above which a declared layout is doubted.

Measured on photographs (100 of ImageNet, 100 of CIFAR-10) and on the 100 drawn pictures of the samples, whose noise makes
them the hardest: right declarations have a median of at most 0.75 (largest single picture 0.93), wrong ones of at least
1.29 over the first eight files (smallest single picture 1.08). Noise gives 1.
"""


class Layout(Enum):
    """Order of the axes of a batch of pictures."""

    NCHW = "NCHW"
    NHWC = "NHWC"

    @property
    def other(self) -> Layout:
        """The layout that this one is confused with."""
        return Layout.NHWC if self is Layout.NCHW else Layout.NCHW

    def split(self, shape: tuple[int | None, ...]) -> tuple[int | None, int | None, int | None]:
        """``(height, width, channels)`` of a four-dimensional shape in this layout."""
        _, *rest = shape
        return (rest[1], rest[2], rest[0]) if self is Layout.NCHW else (rest[0], rest[1], rest[2])


def known_layout(shape: tuple[int | None, ...], channels_last: bool | None) -> Layout | None:
    """The layout of four dimensions: as first layers tell it, else by where 1, 3 or 4 channels stand; ``None``: neither tells."""
    if channels_last is None and (shape[1] in PICTURE_CHANNELS) != (shape[3] in PICTURE_CHANNELS):
        channels_last = shape[3] in PICTURE_CHANNELS
    return None if channels_last is None else Layout.NHWC if channels_last else Layout.NCHW


def model_layout(spec: InputSpec) -> tuple[Layout, str | None]:
    """The layout of a four-dimensional input: that of its first layers, else found from where 1, 3 or 4 channels stand.

    Returns:
        The layout, and a note for the log if neither determines it (NCHW is assumed then).
    """
    known = known_layout(spec.shape, spec.channels_last)
    if known is not None:
        return known, None
    reason = "both ends fit" if spec.shape[1] in PICTURE_CHANNELS else "neither end has 1, 3 or 4 channels"
    note = f"input '{spec.name}' {format_shape(spec.shape)}: the shape does not determine its layout ({reason}), NCHW is assumed"
    return Layout.NCHW, note


def to_layout(array: NDArray[Any], source: Layout, target: Layout) -> NDArray[Any]:
    """Transpose a four-dimensional array; contiguous result."""
    if source is target:
        return np.ascontiguousarray(array)
    axes = (0, 3, 1, 2) if target is Layout.NCHW else (0, 2, 3, 1)
    return np.ascontiguousarray(array.transpose(axes))


def shape_in(shape: tuple[Any, ...], source: Layout, target: Layout) -> tuple[Any, ...]:
    """A four-dimensional shape rewritten from one layout to another."""
    height, width, channels = source.split(shape)
    order = (channels, height, width) if target is Layout.NCHW else (height, width, channels)
    return (shape[0], *order)


def roughness_ratio(data: NDArray[Any], shape: tuple[int, ...], declared: Layout) -> float:
    """How much rougher data look as ``declared`` than in the other layout; clearly above 1 suggests the other.

    Roughness is the mean absolute difference between neighbours down and across the picture, channel by channel: small
    where the axes are what they are taken for. Noise and constant data give 1.

    Args:
        data: One tensor as stored, any shape.
        shape: Shape of the tensor in the declared layout.
        declared: The layout that the user named.
    """
    as_declared = _roughness(data.reshape(shape), declared)
    swapped = shape_in(shape, declared, declared.other)
    as_other = _roughness(data.reshape(swapped), declared.other)
    floor = 1e-6 * (float(np.ptp(data)) if data.size else 0.0) + 1e-30
    return (as_declared + floor) / (as_other + floor)


def _roughness(array: NDArray[Any], layout: Layout) -> float:
    height_axis = 2 if layout is Layout.NCHW else 1
    values = array.astype(np.float32)
    steps = [np.abs(np.diff(values, axis=axis)) for axis in (height_axis, height_axis + 1)]
    return sum(float(step.mean(dtype=np.float64)) for step in steps if step.size)
