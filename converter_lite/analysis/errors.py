"""How far a tensor of the quantized graph is from the float one, over samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.similarity import cosine_similarity

Vector = NDArray[np.float64]

EXPLAINED = 0.6
"""Factors per channel are taken for an equalization if less than this share of the error is left behind them. Noise leaves 0.9
and more of itself at 10 dB."""

RECOGNIZABLE = 0.1
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


class ErrorSums:
    """Adds up samples of one tensor."""

    def __init__(self) -> None:
        self._cosines: list[float] = []
        self._signal = self._noise = self._max_error = self._max_value = 0.0

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample; where the float values are not finite nothing is compared."""
        if expected.shape != given.shape:
            self._cosines.append(math.nan)
            self._noise = math.inf
            return
        x, y = expected.astype(np.float64).reshape(-1), given.astype(np.float64).reshape(-1)
        finite = np.isfinite(x)
        if not np.all(np.isfinite(y[finite])):
            self._cosines.append(math.nan)
            self._noise = self._max_error = math.inf
            return
        x, y = x[finite], y[finite]
        difference = x - y
        self._cosines.append(cosine_similarity(x, y))
        self._signal += float(np.einsum("i,i->", x, x))
        self._noise += float(np.einsum("i,i->", difference, difference))
        self._max_error = max(self._max_error, float(np.abs(difference).max(initial=0.0)))
        self._max_value = max(self._max_value, float(np.abs(x).max(initial=0.0)))

    def result(self) -> TensorError | None:
        """The errors, ``None`` before the first sample."""
        if not self._cosines:
            return None
        if self._noise == 0.0:
            sqnr = math.inf
        else:
            sqnr = -math.inf if math.isinf(self._noise) else 10 * math.log10(max(self._signal, 1e-300) / self._noise)
        cosine = sum(self._cosines) / len(self._cosines)
        least = math.nan if math.isnan(cosine) else min(self._cosines)
        return TensorError(cosine, least, sqnr, self._max_error, self._max_value)


def channel_axis(rank: int) -> int:
    """Axis of an activation that runs over channels: 1 from rank 3 on, else the last."""
    return 1 if rank > 2 else rank - 1


class FactorSums:
    """Finds the factors per channel by which a tensor is held: equalization moves such factors between layers."""

    def __init__(self) -> None:
        self._sums: NDArray[np.float64] | None = None

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample."""
        if expected.shape != given.shape or expected.ndim < 2:
            return
        axis = channel_axis(expected.ndim)
        x = np.moveaxis(expected, axis, 0).reshape(expected.shape[axis], -1).astype(np.float64)
        y = np.moveaxis(given, axis, 0).reshape(expected.shape[axis], -1).astype(np.float64)
        products = np.stack([np.einsum("ij,ij->i", a, b) for a, b in ((x, x), (x, y), (y, y))])
        if self._sums is None or self._sums.shape == products.shape:
            self._sums = products if self._sums is None else self._sums + products

    def factors(self) -> Vector | None:
        """``quantized = factor * float`` per channel, ``(channels,)``; ``None`` where the tensor is held as it is."""
        if self._sums is None or not np.all(np.isfinite(self._sums)):
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
