"""Where the elements of a resized axis come from, as ONNX defines Resize."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Filter:
    """What an interpolated element is the mean of.

    Attributes:
        mode: ``linear`` or ``cubic``.
        coefficient: Of mode cubic.
        antialias: The filter is as much wider as a result is smaller.
        exclude_outside: What lies outside does not count; otherwise it is as at the border.
    """

    mode: str
    coefficient: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False

    def weights(self, positions: NDArray[np.float64], size: int, factor: float) -> NDArray[np.float32]:
        """Weight of each input element in each output element, ``(outputs, inputs)``.

        Args:
            positions: Of the output elements, see :func:`source_positions`.
            size: Elements of the input.
            factor: Outputs for each input.
        """
        base = np.floor(positions).astype(np.int64)
        taps = self._taps(positions - base, min(factor, 1.0) if self.antialias else 1.0)
        found = np.zeros((len(positions), size))
        rows = np.arange(len(positions))
        for offset, share in taps:
            places = base + offset
            if self.exclude_outside:
                share = np.where((places >= 0) & (places < size), share, 0.0)
            np.add.at(found, (rows, np.clip(places, 0, size - 1)), share)
        if self.antialias or self.exclude_outside:
            found /= found.sum(1, keepdims=True)
        return found.astype(np.float32)

    def _taps(self, part: NDArray[np.float64], narrowed: float) -> list[tuple[int, NDArray[np.float64]]]:
        """Neighbours, counted from the one before a position, and what each gives."""
        if self.mode == "linear" and narrowed == 1:
            return [(0, 1 - part), (1, part)]
        reach = math.ceil((1 if self.mode == "linear" else 2) / narrowed)
        distances = [(k, narrowed * np.abs(part - k)) for k in range(1 - reach, reach + 1)]
        if self.mode == "linear":
            return [(k, np.maximum(1 - distance, 0)) for k, distance in distances]
        return [(k, _cubic(distance, self.coefficient)) for k, distance in distances]


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """Cubic convolution (Keys 1981)."""
    near = (a + 2) * distance**3 - (a + 3) * distance**2 + 1
    far = a * distance**3 - 5 * a * distance**2 + 8 * a * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
