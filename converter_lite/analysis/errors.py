"""How far a tensor of the quantized graph is from the float one, over samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.similarity import ErrorSums

ENOUGH = 8
"""Numbers per channel from which on a factor can be told from chance: it explains an eighth of any noise."""

Vector = NDArray[np.float64]

EXPLAINED = 0.6
"""Factors per channel are taken for an equalization if less than this share of the error is left behind them. Noise leaves 0.9
and more of itself at 10 dB."""

RECOGNIZABLE = 0.25
"""... and if what is left is below this share of the signal: a destroyed tensor has no factors."""

SPREAD = 1.02
"""... and if the largest factor is so many times the smallest: one factor for a whole tensor is an error, not an equalization."""

FAINT = 1e-6
"""Channels with less than this share of the strongest one's signal have no say about factors."""


@dataclass(frozen=True, slots=True)
class TensorError:
    """Errors of one tensor.

    Attributes:
        cosine: Mean cosine similarity over the samples; NaN if values are not finite.
        least_cosine: The lowest one.
        sqnr: Signal to quantization noise ratio over all samples, dB; infinite when equal.
        max_error: Largest absolute difference.
        max_value: Largest absolute float value.
    """

    cosine: float
    least_cosine: float
    sqnr: float
    max_error: float
    max_value: float


class TensorErrorSums:
    """Adds up samples of one tensor; values that are not finite where the float model's are, and other shapes, break it."""

    def __init__(self) -> None:
        self._sums = ErrorSums()
        self._is_broken = False

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample; where the float values are not finite nothing is compared."""
        if expected.shape != given.shape:
            self._is_broken = True
            return
        finite = np.isfinite(expected)
        x, y = expected[finite], given[finite]
        if np.all(np.isfinite(y)):
            self._sums.add(x, y)
        else:
            self._is_broken = True

    def result(self) -> TensorError | None:
        """The errors, ``None`` before the first sample."""
        sums = self._sums
        if self._is_broken:
            return TensorError(math.nan, math.nan, -math.inf, math.inf, sums.max_value)
        if not sums.count:
            return None
        return TensorError(sums.cosine, sums.least_cosine, sums.sqnr, sums.max_error, sums.max_value)


def channel_axis(rank: int) -> int:
    """Axis of an activation that runs over channels: 1 from rank 3 on, else the last."""
    return 1 if rank > 2 else rank - 1


class FactorSums:
    """Finds the factors per channel by which a tensor is held: equalization moves such factors between layers."""

    def __init__(self) -> None:
        self._sums: NDArray[np.float64] | None = None
        self._count = 0

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample."""
        if expected.shape != given.shape or expected.ndim < 2:
            return
        axis = channel_axis(expected.ndim)
        x = np.moveaxis(expected, axis, 0).reshape(expected.shape[axis], -1).astype(np.float64)
        y = np.moveaxis(given, axis, 0).reshape(expected.shape[axis], -1).astype(np.float64)
        self._count += x.shape[1]
        products = np.stack([np.einsum("ij,ij->i", a, b) for a, b in ((x, x), (x, y), (y, y))])
        if self._sums is None or self._sums.shape == products.shape:
            self._sums = products if self._sums is None else self._sums + products

    def factors(self) -> Vector | None:
        """``quantized = factor * float`` per channel, ``(channels,)``; ``None`` where the tensor is held as it is."""
        if self._sums is None or self._count < ENOUGH or not np.all(np.isfinite(self._sums)):
            return None
        xx, xy, yy = self._sums
        heard = (xx > FAINT * xx.max(initial=0.0)) & (xy > 0.0)
        if not np.any(heard):
            return None
        factors = np.ones_like(xx)
        factors[heard] = yy[heard] / xy[heard]
        plain = float(np.sum(xx - 2 * xy + yy))
        left = float(np.sum(xx - 2 * xy / factors + yy / factors**2))
        spread = factors[heard].max() / factors[heard].min()
        is_equalized = left < EXPLAINED * plain and left < RECOGNIZABLE * float(xx.sum()) and spread > SPREAD
        return factors if is_equalized else None


def along_channels(factors: Vector, rank: int) -> NDArray[np.float32]:
    """Factors in a shape that multiplies a tensor."""
    shape = [1] * rank
    shape[channel_axis(rank)] = -1
    return factors.astype(np.float32).reshape(shape)
