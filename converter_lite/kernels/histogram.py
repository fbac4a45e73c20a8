"""Histograms whose result does not depend on the order of the samples or on how they were split.

Bins have a power-of-two width and an edge at zero. When a value falls outside, the width doubles and neighbouring bins join;
joining is exact, so two histograms of parts of the data can be merged into the one of the whole. (Only values so far below a bin
width that their quotient underflows float32 count as zero.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_BINS = 4096
"""Bins per tensor; between half of it and all of it are in use once values span their range."""

SMALLEST_EXPONENT = -126
"""log2 of the narrowest bin: the smallest normal float32, whose inverse is a float32 too."""


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts of values; bin ``i`` holds ``[(first + i) * width, (first + i + 1) * width)`` with ``width = 2 ** exponent``."""

    exponent: int
    first: int
    counts: NDArray[np.int64]

    @property
    def width(self) -> float:
        """Bin width in real units."""
        return float(2.0**self.exponent)

    @property
    def centers(self) -> NDArray[np.float64]:
        """Middle of every bin in real units."""
        return (self.first + np.arange(len(self.counts), dtype=np.float64) + 0.5) * self.width

    @property
    def edges(self) -> NDArray[np.float64]:
        """``len(counts) + 1`` bin edges in real units."""
        return (self.first + np.arange(len(self.counts) + 1, dtype=np.float64)) * self.width

    @property
    def total(self) -> int:
        """Number of values."""
        return int(self.counts.sum())


def histogram(values: NDArray[np.float32]) -> Histogram:
    """Histogram of finite values (any shape, at least one)."""
    flat = values.reshape(-1)
    low, high = float(flat.min()), float(flat.max())
    exponent = _exponent(low, high)
    first = int(np.floor(low * 2.0**-exponent))
    bins = int(np.floor(high * 2.0**-exponent)) - first + 1
    scaled = np.multiply(flat, np.float32(2.0**-exponent), dtype=np.float32)
    np.floor(scaled, out=scaled)
    scaled -= np.float32(first)
    counts = np.bincount(scaled.astype(np.intp), minlength=bins)
    return Histogram(exponent, first, counts.astype(np.int64))


def merge(a: Histogram, b: Histogram) -> Histogram:
    """Histogram of both sets of values; associative and commutative."""
    exponent = max(a.exponent, b.exponent)
    while True:
        a, b = coarsen(a, exponent), coarsen(b, exponent)
        first = min(a.first, b.first)
        last = max(a.first + len(a.counts), b.first + len(b.counts))
        if last - first <= MAX_BINS:
            break
        exponent += 1
    counts = np.zeros(last - first, np.int64)
    for part in (a, b):
        counts[part.first - first : part.first - first + len(part.counts)] += part.counts
    return Histogram(exponent, first, counts)


def coarsen(h: Histogram, exponent: int) -> Histogram:
    """The same values in wider bins."""
    if exponent == h.exponent:
        return h
    shift = min(exponent - h.exponent, 62)  # bin numbers have far fewer bits: wider bins cannot differ
    first = h.first >> shift
    index = ((h.first + np.arange(len(h.counts), dtype=np.int64)) >> shift) - first
    return Histogram(exponent, first, np.bincount(index, weights=h.counts).astype(np.int64))


def _exponent(low: float, high: float) -> int:
    """Smallest exponent for which the values span at most ``MAX_BINS`` bins."""
    span = max(high - low, max(abs(low), abs(high)) * 2.0**-20, MAX_BINS * 2.0**SMALLEST_EXPONENT)
    exponent = int(np.ceil(np.log2(span / MAX_BINS)))
    while np.floor(high * 2.0**-exponent) - np.floor(low * 2.0**-exponent) + 1 > MAX_BINS:
        exponent += 1
    return exponent
