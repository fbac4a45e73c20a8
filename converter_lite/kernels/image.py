"""Picture arithmetic on arrays, with the numbers that OpenCV gives.

Pictures are ``(height, width, channels)``. Resizing follows OpenCV's ``INTER_LINEAR``, ``INTER_NEAREST`` and
``INTER_CUBIC`` on floating-point pictures: half-pixel centres (nearest: the upper left corner), no antialiasing,
replicated border. Source: documentation of OpenCV's ``resize`` and ``cvtColor``; checked against recorded outputs.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CUBIC_A = -0.75
"""Slope of the cubic kernel at distance 1, OpenCV's choice."""

GRAY_WEIGHTS = (9798, 19235, 3735)
"""0.299, 0.587, 0.114 for red, green, blue in units of 2**-15."""

GRAY_SHIFT = 15

BLOCK_VALUES = 1 << 16
"""Values of one temporary in :func:`resize`: 256 KiB stay in the cache (three times faster than whole pictures)."""


class Interpolation(Enum):
    """How :func:`resize` reads between pixels."""

    LINEAR = "LINEAR"
    NEAREST = "NEAREST"
    CUBIC = "CUBIC"


class Window(NamedTuple):
    """A rectangle of a picture, in pixels."""

    top: int
    left: int
    height: int
    width: int


class _Taps(NamedTuple):
    """What each output position reads along one axis: ``indices`` and ``weights`` are ``(taps, length)``."""

    indices: NDArray[np.intp]
    weights: NDArray[np.float32] | None

    def kept(self, start: int, length: int) -> _Taps:
        part = slice(start, start + length)
        return _Taps(self.indices[:, part], None if self.weights is None else self.weights[:, part])


def resize(
    picture: NDArray[Any], *, height: int, width: int, method: Interpolation, window: Window | None = None
) -> NDArray[np.float32]:
    """Resize a picture to ``height`` x ``width`` and return the part of the result inside ``window``.

    Computing only the window gives the same numbers as cropping afterwards.

    Args:
        picture: ``(H, W, C)``, uint8 or float32; integers are read as their float values.
        height: Rows of the whole result.
        width: Columns of the whole result.
        method: Interpolation.
        window: Part of the result to compute; ``None`` = all of it.

    Returns:
        ``(window.height, window.width, C)``. Accumulated in float32.
    """
    window = window or Window(0, 0, height, width)
    rows = _taps(picture.shape[0], height, method).kept(window.top, window.height)
    columns = _taps(picture.shape[1], width, method).kept(window.left, window.width)
    result = np.empty((window.height, window.width, picture.shape[2]), np.float32)
    block = max(1, BLOCK_VALUES // (picture.shape[1] * picture.shape[2]))
    for start in range(0, window.height, block):
        partial = _interpolate(picture, rows.kept(start, block), 0)
        result[start : start + block] = _interpolate(partial, columns, 1)
    return result


def _taps(source: int, target: int, method: Interpolation) -> _Taps:
    step = 1.0 / (target / source)
    positions = np.arange(target)
    if method is Interpolation.NEAREST:
        nearest = np.minimum(np.floor(positions * step).astype(np.intp), source - 1)
        return _Taps(nearest[np.newaxis], None)
    centres = (positions + 0.5) * step - 0.5
    base = np.floor(centres)
    fraction = (centres - base).astype(np.float32)
    if method is Interpolation.LINEAR:
        weights = np.stack([1 - fraction, fraction])
    else:
        weights = _cubic_weights(fraction)
    first_tap = 0 if method is Interpolation.LINEAR else -1
    offsets = np.arange(first_tap, first_tap + len(weights))[:, np.newaxis]
    return _Taps(np.clip(base.astype(np.intp) + offsets, 0, source - 1), weights)


def _cubic_weights(fraction: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights ``(4, N)`` of the pixels at distances 1+f, f, 1-f, 2-f; they sum to 1."""

    def inner(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return ((CUBIC_A + 2) * x - (CUBIC_A + 3)) * x * x + 1

    outer = ((CUBIC_A * (fraction + 1) - 5 * CUBIC_A) * (fraction + 1) + 8 * CUBIC_A) * (fraction + 1) - 4 * CUBIC_A
    near, far = inner(fraction), inner(1 - fraction)
    return np.stack([outer, near, far, 1 - outer - near - far]).astype(np.float32)


def _interpolate(picture: NDArray[Any], taps: _Taps, axis: int) -> NDArray[Any]:
    if taps.weights is None:
        return np.take(picture, taps.indices[0], axis=axis)
    channels = picture.shape[2]
    terms = (
        _weighted(np.take(picture, indices, axis=axis), _broadcast(weights, channels, axis))
        for indices, weights in zip(taps.indices, taps.weights, strict=True)
    )
    total = next(terms)
    for term in terms:
        total += term
    length = taps.indices.shape[1]
    return total.reshape((length, -1, channels) if axis == 0 else (-1, length, channels))


def _weighted(gathered: NDArray[Any], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    # Two dimensions instead of three: a loop over the 3 channels innermost would be three times slower.
    flat = gathered.reshape(gathered.shape[0], -1).astype(np.float32, copy=False)
    flat *= weights
    return flat


def _broadcast(weights: NDArray[np.float32], channels: int, axis: int) -> NDArray[np.float32]:
    return weights[:, np.newaxis] if axis == 0 else np.repeat(weights, channels)[np.newaxis]


def gray(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luminance of an 8-bit RGB picture, rounded as OpenCV rounds it: ``(H, W, 3)`` to ``(H, W, 1)``."""
    red, green, blue = (picture[..., channel].astype(np.uint32) for channel in range(3))
    luminance = red * GRAY_WEIGHTS[0] + green * GRAY_WEIGHTS[1] + blue * GRAY_WEIGHTS[2]
    rounded = (luminance + (1 << (GRAY_SHIFT - 1))) >> GRAY_SHIFT
    return rounded.astype(np.uint8)[..., np.newaxis]


def cmyk_to_rgb(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """RGB of the four colour values that a JPEG file stores (inverted, as Adobe writes them); OpenCV's integer formula.

    Args:
        raw: ``(H, W, 4)`` as stored.
    """
    values = raw.astype(np.int32)
    black = values[..., 3:]
    return (black - (((255 - values[..., :3]) * black) >> 8)).astype(np.uint8)


def normalize(
    picture: NDArray[Any], mean: tuple[float, ...], std: tuple[float, ...], *, out: NDArray[np.float32]
) -> None:
    """Write ``x * (1 / std) - mean / std`` of every channel, in float32, into ``out``.

    Resizing weights sum to 1, so normalizing before or after :func:`resize` gives the same numbers up to float32
    rounding (about 1e-6 of the value range); after it there are fewer pixels to compute.

    Args:
        picture: ``(H, W, C)``, uint8 or float32.
        mean: One number per channel, in units of the picture.
        std: One number per channel, none of them 0.
        out: ``(H, W, C)`` of any memory layout, so that a transposed view is filled without another copy.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # a tiny std: calibration names the sample
        for channel, (center, spread) in enumerate(zip(mean, std, strict=True)):
            plane = out[..., channel]
            np.multiply(picture[..., channel], np.float32(1.0 / spread), out=plane, dtype=np.float32)
            plane -= np.float32(center / spread)


def center_window(height: int, width: int, crop_height: int, crop_width: int) -> Window:
    """The middle of a picture; an odd margin leaves the larger part below and to the right."""
    return Window((height - crop_height) // 2, (width - crop_width) // 2, crop_height, crop_width)
