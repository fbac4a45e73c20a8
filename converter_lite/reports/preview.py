"""The first prepared samples as a person can look at them: small pictures, and numbers per channel."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.runtime.engine import Feed

SHOWN_SAMPLES = 4
"""Samples that are shown."""

LONGEST_SIDE = 160
"""Pixels of a shown picture; larger ones are made smaller."""

LEAST_SIDE = 8
"""Tensors of fewer rows or columns are not pictures."""

MAX_CHANNELS = 4
"""Channels whose numbers are given one by one; of more, those of all together."""


@dataclass(frozen=True, slots=True)
class InputPreview:
    """One input of one sample, as the model reads it.

    Attributes:
        name: Input.
        shape, dtype: Of the sample.
        channels: Per channel (or once for all): minimum, mean, maximum, standard deviation.
        png: The picture, its values stretched from the lowest to the highest; empty if the tensor is not a picture.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    channels: tuple[tuple[float, float, float, float], ...]
    png: bytes = b""

    def to_json(self) -> dict[str, Any]:
        """Its numbers, without the picture."""
        names = ("minimum", "mean", "maximum", "deviation")
        channels = [dict(zip(names, _json_numbers(channel), strict=True)) for channel in self.channels]
        return {"input": self.name, "shape": list(self.shape), "dtype": self.dtype, "channels": channels}


def previews(samples: Iterable[Feed]) -> list[list[InputPreview]]:
    """One list of inputs per sample."""
    return [[_preview(name, array) for name, array in feed.items()] for feed in samples]


def as_picture(array: NDArray[Any]) -> NDArray[np.uint8] | None:
    """First element of the batch as ``(H, W, 3)`` or ``(H, W)``; ``None`` if the tensor is not a picture.

    Channels keep their order: channel 0 is shown as red. Values are stretched from the lowest to the highest.
    """
    planes = _planes(array)
    if planes is None:
        return None
    low, high = float(planes.min()), float(planes.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    scaled = (planes.astype(np.float64) - low) * (255.0 / (high - low) if high > low else 0.0)
    picture = np.rint(scaled).astype(np.uint8)
    return picture[:, :, 0] if picture.shape[2] == 1 else picture


def png(picture: NDArray[np.uint8]) -> bytes:
    """A PNG file, at most ``LONGEST_SIDE`` pixels wide and high."""
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _planes(array: NDArray[Any]) -> NDArray[Any] | None:
    """``(H, W, C)`` with 1 or 3 channels, of a tensor in NCHW or NHWC."""
    if array.ndim != 4 or array.shape[0] < 1:
        return None
    first = array[0]
    if first.shape[0] in (1, 3):
        first = first.transpose(1, 2, 0)
    if first.shape[2] not in (1, 3) or min(first.shape[:2]) < LEAST_SIDE:
        return None
    return first


def _preview(name: str, array: NDArray[Any]) -> InputPreview:
    planes = _planes(array)
    rows = array.reshape(1, -1) if planes is None else planes.reshape(-1, planes.shape[2]).T
    channels = tuple(_numbers(row) for row in rows[:MAX_CHANNELS] if row.size)
    picture = as_picture(array)
    return InputPreview(name, array.shape, str(array.dtype), channels, b"" if picture is None else png(picture))


def _numbers(values: NDArray[Any]) -> tuple[float, float, float, float]:
    row = values.astype(np.float64)
    return float(row.min()), float(row.mean()), float(row.max()), float(row.std())


def _json_numbers(values: tuple[float, ...]) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]
