"""Where the elements of a resized axis come from, as ONNX defines Resize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

TRANSFORMS = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "asymmetric", "align_corners")
"""Coordinate modes that :func:`source_positions` knows."""

TIE = 1e-6
"""Distance from a half that onnxruntime (1.32) takes for a tie where it rounds up; float32 makes it (measured: 1e-6, no 4e-6)."""

ROUNDINGS: Mapping[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = MappingProxyType(
    {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda p: np.ceil(p - 0.5),
        "round_prefer_ceil": lambda p: np.floor(p + 0.5 + TIE),
    }
)
"""How mode nearest rounds a position."""


def source_positions(transform: str, size: int, result: int, scale: float) -> NDArray[np.float64]:
    """Position of every output element in the input (ONNX operator specification, Resize); float32 as in onnxruntime.

    Args:
        transform: One of :data:`TRANSFORMS`.
        size: Elements of the input.
        result: Elements of the output.
        scale: Their ratio, as the model says it.
    """
    places = np.arange(result, dtype=np.float32)
    return _positions(transform, size, result, np.float32(scale), places).astype(np.float64)


def _positions(
    transform: str, size: int, result: int, scale: np.float32, places: NDArray[np.float32]
) -> NDArray[np.float32]:
    if transform == "asymmetric":
        return places / scale
    if transform == "align_corners":
        return places * np.float32(size - 1) / np.float32(result - 1) if result > 1 else np.zeros(result, np.float32)
    if transform == "pytorch_half_pixel" and result == 1:
        return np.zeros(1, np.float32)
    if transform == "half_pixel_symmetric":
        offset = np.float32(size) / 2 * (1 - np.float32(result) / (scale * np.float32(size)))
        return offset + (places + np.float32(0.5)) / scale - np.float32(0.5)
    return (places + np.float32(0.5)) / scale - np.float32(0.5)


def nearest(positions: NDArray[np.float64], rounding: str, size: int) -> list[int]:
    """Input elements that mode nearest takes."""
    return [int(i) for i in np.clip(ROUNDINGS[rounding](positions), 0, size - 1)]


def nearest_of_onnx(transform: str, rounding: str, size: int, result: int) -> list[int]:
    """Input elements that ONNX's Resize to a size takes; arguments as above."""
    return nearest(source_positions(transform, size, result, result / size), rounding, size)


def nearest_by_ratio(transform: str, size: int, result: int) -> list[int]:
    """Input elements that mode nearest takes where places are multiplied by the ratio of the sizes.

    So do TensorFlow and Paddle; ONNX divides by the inverse, which gives others for one in thirty pairs of sizes.

    Args:
        transform: ``half_pixel``, ``asymmetric``, or ``align_corners``, which alone rounds to the nearest place.
        size: Elements of the input.
        result: Elements of the output.
    """
    half, is_aligned = np.float32(0.5), transform == "align_corners" and result > 1
    places = np.arange(result, dtype=np.float32) + (half if transform == "half_pixel" else np.float32(0))
    places = places * (np.float32(size - is_aligned) / np.float32(result - is_aligned))
    return nearest((places + half if transform == "align_corners" else places).astype(np.float64), "floor", size)


def weights(positions: NDArray[np.float64], size: int, mode: str, coefficient: float) -> NDArray[np.float32]:
    """Interpolation weights of mode ``linear`` or ``cubic``; shape (outputs, inputs). What lies outside is as at the border."""
    base = np.floor(positions).astype(np.int64)
    part = positions - base
    found = np.zeros((len(positions), size))
    if mode == "linear":
        taps = [(0, 1 - part), (1, part)]
    else:
        taps = [(k, _cubic(np.abs(part - k), coefficient)) for k in (-1, 0, 1, 2)]
    rows = np.arange(len(positions))
    for offset, share in taps:
        np.add.at(found, (rows, np.clip(base + offset, 0, size - 1)), share)
    return found.astype(np.float32)


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """Cubic convolution (Keys 1981)."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
