"""Common normalizations of pixels, and how to recognize which one was used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.data.layout import Layout

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Normalization:
    """``(pixel - mean) / std``, pixels 0 to 255, channels in the order red, green, blue.

    Attributes:
        name: For messages.
        mean, std: One number per channel, or one for all.
    """

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def bounds(self) -> tuple[float, float]:
        """Values of black and white, for the channel with the widest range."""
        pairs = list(zip(self.mean, self.std, strict=True))
        return min(-m / s for m, s in pairs), max((255 - m) / s for m, s in pairs)

    @property
    def width(self) -> float:
        """From black to white."""
        low, high = self.bounds()
        return high - low

    def suits(self, channels: int | None) -> bool:
        """Whether there are numbers for this many channels; ``None``: a number that is not known."""
        return len(self.mean) in (1, channels)

    def vectors(self, channels: int, *, blue_first: bool) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation per channel, in the order of the tensor."""
        step = -1 if blue_first else 1
        mean, std = (np.asarray(values, np.float32)[::step] for values in (self.mean, self.std))
        return np.broadcast_to(mean, channels), np.broadcast_to(std, channels)

    def is_like(self, other: Normalization) -> bool:
        """Whether both give nearly the same numbers: (x - 127) / 128 and (x - 127.5) / 127.5, for example."""
        mine, theirs = self.bounds(), other.bounds()
        room = 0.1 * (mine[1] - mine[0])
        return abs(mine[0] - theirs[0]) < room and abs(mine[1] - theirs[1]) < room

    def keys(self, channels: int, *, blue_first: bool) -> str:
        """Lines of a configuration; arguments as those of :meth:`vectors`."""
        mean, std = self.vectors(channels, blue_first=blue_first)
        return f"normalize_mean={_bracket(mean)} and normalize_std={_bracket(std)}"


def _bracket(values: FloatArray) -> str:
    return "[" + ", ".join(f"{value:g}" for value in values) + "]"


PIXELS = Normalization("0 to 255", (0.0,), (1.0,))
UNIT = Normalization("0 to 1", (0.0,), (255.0,))
SIGNED = Normalization("-1 to 1", (127.5,), (127.5,))
IMAGENET = Normalization("ImageNet's mean and deviation", (123.675, 116.28, 103.53), (58.395, 57.12, 57.375))

USUAL = (PIXELS, UNIT, SIGNED, IMAGENET)
"""Normalizations in use by exporters and training code. ImageNet's numbers are those of torchvision's models, times 255."""

SLACK = 0.02
"""Rounding and other constants of about the same range, as a share of the range."""


def guess(low: float, high: float, *, channels: int | None) -> Normalization | None:
    """The narrowest common normalization of this many channels whose range covers ``low`` to ``high``, if any does."""
    for candidate in (normalization for normalization in (UNIT, SIGNED, IMAGENET) if normalization.suits(channels)):
        least, largest = candidate.bounds()
        room = SLACK * (largest - least)
        if least - room <= low and high <= largest + room:
            return candidate
    # Filters that resize pictures go a little below zero; values as far below as above are no pixels, however small.
    return PIXELS if -SLACK * high <= low and high <= (1 + SLACK) * 255 else None


@dataclass(frozen=True, slots=True)
class View:
    """How the pictures of a tensor are stored.

    Attributes:
        layout: Where its channels are.
        used: Normalization that was applied.
        blue_first: Whether the first channel is blue.
    """

    layout: Layout
    used: Normalization
    blue_first: bool

    def swapped(self, array: NDArray[Any]) -> NDArray[Any]:
        """The first and the last channel exchanged, each normalized for its new place."""
        turned = self.pixels(array)[..., ::-1]
        return self._stored(turned, self.used, array.dtype)

    def changed(self, array: NDArray[Any], wanted: Normalization) -> NDArray[Any]:
        """The same pictures in another normalization."""
        return self._stored(self.pixels(array), wanted, array.dtype)

    def pixels(self, array: NDArray[Any]) -> NDArray[np.float32]:
        """Numbers from 0 to 255, channels last, in the order of the tensor."""
        last = np.moveaxis(array, 1, -1) if self.layout is Layout.NCHW else array
        mean, std = self.used.vectors(last.shape[-1], blue_first=self.blue_first)
        return last.astype(np.float32) * std + mean

    def _stored(self, pixels: NDArray[np.float32], wanted: Normalization, dtype: np.dtype[Any]) -> NDArray[Any]:
        mean, std = wanted.vectors(pixels.shape[-1], blue_first=self.blue_first)
        values = ((pixels - mean) / std).astype(dtype)
        return np.ascontiguousarray(np.moveaxis(values, -1, 1) if self.layout is Layout.NCHW else values)
