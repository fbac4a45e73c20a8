"""How far a tensor of the quantized graph is from the float one, over samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.similarity import ErrorSums


@dataclass(frozen=True, slots=True)
class TensorError:
    """Errors of one tensor.

    Attributes:
        cosine: Mean cosine similarity over the samples that are not empty; NaN if values are not finite.
        least_cosine: The lowest one.
        sqnr: Signal to quantization noise ratio over all samples, dB; infinite when equal.
        max_error: Largest absolute difference.
        max_value: Largest absolute float value.
        empty: Samples in which neither graph finds anything (:mod:`converter_lite.quantization.detections`).
    """

    cosine: float
    least_cosine: float
    sqnr: float
    max_error: float
    max_value: float
    empty: int = 0


class TensorErrorSums:
    """Accumulates errors of one tensor; another shape, or values that are not finite while the float ones are, break it.

    Args:
        nothing: See :class:`~converter_lite.kernels.similarity.ErrorSums`.
    """

    def __init__(self, nothing: float = 0.0) -> None:
        self._sums = ErrorSums(nothing=nothing)
        self._is_broken = False

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample; values that are not finite in the float model are not compared."""
        if expected.shape != given.shape:
            self._is_broken = True
            return
        finite = np.isfinite(expected)
        x, y = expected[finite], given[finite]
        if np.all(np.isfinite(y)):
            self._sums.add(x, y)
        else:
            self._is_broken = True
            self._sums.max_value = max(self._sums.max_value, float(np.abs(x.astype(np.float64)).max(initial=0.0)))

    def result(self) -> TensorError | None:
        """The errors, ``None`` before the first sample."""
        sums = self._sums
        if self._is_broken:
            return TensorError(math.nan, math.nan, -math.inf, math.inf, sums.max_value)
        if not sums.count:
            return None
        return TensorError(sums.cosine, sums.least_cosine, sums.sqnr, sums.max_error, sums.max_value, sums.empty)
