"""Extremes, histograms and errors of one tensor, sample by sample: memory does not grow with their number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.histogram import Histogram, coarsen, histogram, merge
from converter_lite.kernels.params import QuantParams
from converter_lite.kernels.similarity import ErrorSums
from converter_lite.reports.figures import Bins, Errors, TensorFigures

OBSERVED_VALUES = 16_384
"""Values per tensor and sample that enter histograms."""

BINS = 64
"""Most bins of a histogram; between half of them and all are in use."""


@dataclass(slots=True)
class Spread:
    """One tensor over samples.

    Attributes:
        minimum, maximum: Extremes of the finite float values.
        outside: Float values that the grid cannot hold, of ``values``.
        origin, quantized: Histograms.
        accumulated: Error with everything before the tensor quantized.
        local: Error with its own layer quantized alone.
    """

    minimum: float = math.inf
    maximum: float = -math.inf
    outside: int = 0
    values: int = 0
    origin: Histogram | None = None
    quantized: Histogram | None = None
    accumulated: ErrorSums = field(default_factory=ErrorSums)
    local: ErrorSums = field(default_factory=ErrorSums)

    def add(self, origin: NDArray[Any], given: NDArray[Any], grid: QuantParams | None) -> None:
        """Count one sample."""
        finite = finite_values(origin)
        if finite.size:
            self.minimum = min(self.minimum, float(finite.min()))
            self.maximum = max(self.maximum, float(finite.max()))
            self.origin = _joined(self.origin, finite)
        other = finite_values(given)
        if other.size:
            self.quantized = _joined(self.quantized, other)
        self.values += finite.size
        if grid is not None and grid.scale.ndim == 0:
            low, high = (float(bound) for bound in grid.real_range)
            slack = float(grid.scale) / 2
            if finite.size and (self.minimum < low - slack or self.maximum > high + slack):
                self.outside += int(np.count_nonzero((finite < low - slack) | (finite > high + slack)))
        count_errors(self.accumulated, origin, given)

    def figures(self, known: TensorFigures) -> TensorFigures:
        """The figures with what was found."""
        has_values = self.minimum <= self.maximum
        return replace(
            known,
            minimum=self.minimum if has_values else None,
            maximum=self.maximum if has_values else None,
            clipped=self.outside / max(self.values, 1),
            errors=errors_of(self.accumulated),
            bins=_bins(self.origin, self.quantized),
        )


def finite_values(values: NDArray[Any]) -> NDArray[np.float32]:
    """The finite ones, in one row."""
    flat = values.reshape(-1).astype(np.float32, copy=False)
    total = float(flat.sum(dtype=np.float32))
    return flat if math.isfinite(total) else flat[np.isfinite(flat)]


def count_errors(sums: ErrorSums, origin: NDArray[Any], given: NDArray[Any]) -> None:
    """Add one sample; values that are not finite, and results whose size depends on the data, have no error."""
    if origin.shape != given.shape or origin.size == 0:
        return
    x, y = origin.reshape(-1), given.reshape(-1)
    if not math.isfinite(float(x.sum(dtype=np.float32)) + float(y.sum(dtype=np.float32))):
        both = np.isfinite(x) & np.isfinite(y)
        x, y = x[both], y[both]
    if x.size:
        sums.add(x, y)


def errors_of(sums: ErrorSums) -> Errors | None:
    """The totals; ``None`` if nothing was counted."""
    return Errors(sums.cosine, sums.sqnr, sums.max_error) if sums.count else None


def _joined(known: Histogram | None, values: NDArray[np.float32]) -> Histogram:
    """An odd step through the values does not follow one column of a picture."""
    step = values.size // (2 * OBSERVED_VALUES) * 2 + 1
    new = histogram(values[::step])
    return new if known is None else merge(known, new)


def _bins(origin: Histogram | None, quantized: Histogram | None) -> Bins | None:
    """Both histograms on the same edges."""
    if origin is None or quantized is None:
        return None
    exponent = max(origin.exponent, quantized.exponent)
    while True:
        a, b = coarsen(origin, exponent), coarsen(quantized, exponent)
        first = min(a.first, b.first)
        length = max(a.first + len(a.counts), b.first + len(b.counts)) - first
        if length <= BINS:
            break
        exponent += 1
    counts = []
    for part in (a, b):
        row = np.zeros(length, np.int64)
        row[part.first - first : part.first - first + len(part.counts)] = part.counts
        counts.append(tuple(row.tolist()))
    return Bins(a.width, first, counts[0], counts[1])
