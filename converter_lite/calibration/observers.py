"""From statistics of a tensor to the real range that is quantized, one function per method.

Every function returns ``(rmin, rmax)`` in real units. Behind a ReLU the range is naturally one-sided: its minimum is 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from converter_lite.calibration.statistics import Need, TensorStatistics
from converter_lite.errors import CalibrationError
from converter_lite.kernels.histogram import MAX_BINS, Histogram, coarsen

PERCENTILE = 99.99
"""Share of values kept by PERCENTILE, per cent; the default of common tools."""

KL_LEVELS = 128
"""Quantization levels of the KL search on magnitudes (Migacz, 8-bit Inference with TensorRT, 2017)."""

COARSE_STEPS, FINE_STEPS = 64, 4
"""Thresholds that the KL search tries over the whole range, and between two of them around the best."""

CANDIDATES = 100
"""Number of clips that the MSE search tries per direction."""

Range = tuple[float, float]


def max_min(stats: TensorStatistics, bits: int) -> Range:
    """Global minimum and maximum (MAX_MIN)."""
    del bits
    return stats.rmin, stats.rmax


def removal_outlier(stats: TensorStatistics, bits: int) -> Range:
    """Mean over samples of the sorted values at 0.01 % and 99.99 % (REMOVAL_OUTLIER, measured behaviour of the original).

    A tensor with fewer than 10,000 values per sample has nothing beyond these positions: averaging its extremes over samples
    would only clip half of the samples (mobilenet: cosine 0.951 against 0.997), so it keeps its full range.
    """
    del bits
    if stats.outliers == 0:
        return stats.rmin, stats.rmax
    count = stats.samples - stats.empty
    return stats.low_sum / count, stats.high_sum / count


def percentile(stats: TensorStatistics, bits: int) -> Range:
    """Range that leaves out ``100 - PERCENTILE`` per cent of the values, half at each end, where an end has a tail."""
    del bits
    h = _histogram(stats)
    cut = h.total * (1 - PERCENTILE / 100) / 2
    cumulative = np.cumsum(h.counts)
    low = h.edges[int(np.searchsorted(cumulative, cut, side="right"))]
    high = h.edges[int(np.searchsorted(cumulative, h.total - cut)) + 1]
    return max(float(low), stats.rmin), min(float(high), stats.rmax)


def mse(stats: TensorStatistics, bits: int) -> Range:
    """The clip of least mean squared error: both sides shrink together, then each by itself, in ``CANDIDATES`` steps each."""
    h = _histogram(stats)
    best = (min(stats.rmin, 0.0), max(stats.rmax, 0.0))
    least = quantization_error(h, best, bits)
    for shrinks_low, shrinks_high in ((True, True), (True, False), (False, True)):
        low, high = best
        for factor in np.linspace(1.0, 0.3, CANDIDATES)[1:]:
            candidate = (low * float(factor) if shrinks_low else low, high * float(factor) if shrinks_high else high)
            error = quantization_error(h, candidate, bits)
            if error < least:
                least, best = error, candidate
    return best


def kl(stats: TensorStatistics, bits: int) -> Range:
    """Threshold on magnitudes of least Kullback-Leibler divergence, cut to the observed range.

    Two weaknesses of the plain search are avoided. A range behind ReLU stays one-sided instead of wasting half of the grid. And
    a threshold is taken only if its quantization error is no larger than that of the full range: inputs with few distinct values
    (8-bit pictures) otherwise collapse to a tiny range, since the divergence ignores how far clipped values move.

    Source: Migacz 2017; measured behaviour of the original.
    """
    h = _histogram(stats)
    full = (min(stats.rmin, 0.0), max(stats.rmax, 0.0))
    near = _reaching_zero(h)
    threshold = _kl_threshold(_magnitudes(near)) * near.width
    clipped = (max(full[0], -threshold), min(full[1], threshold))
    return clipped if quantization_error(h, clipped, bits) <= quantization_error(h, full, bits) else full


def quantization_error(h: Histogram, candidate: Range, bits: int) -> float:
    """Mean squared error of quantizing the histogram's values on a grid of ``2**bits`` levels over ``candidate``."""
    low, high = candidate
    step = (high - low) / (2**bits - 1)
    if step <= 0:
        return float(np.sum(h.counts * h.centers**2) / h.total)
    nearest = np.clip(np.rint(h.centers / step) * step, low, high)
    return float(np.sum(h.counts * np.square(h.centers - nearest)) / h.total)


def _reaching_zero(h: Histogram) -> Histogram:
    """The histogram in bins wide enough that ``MAX_BINS`` of them reach from zero to its far end."""
    reach = max(-h.first, h.first + len(h.counts))
    return coarsen(h, h.exponent + max(int(np.ceil(np.log2(reach / MAX_BINS))), 0))


def _magnitudes(h: Histogram) -> NDArray[np.float64]:
    """Counts of |x| in the histogram's own bin width; bin 0 starts at zero."""
    positions = h.first + np.arange(len(h.counts))
    index = np.where(positions >= 0, positions, -1 - positions)
    return np.bincount(index, weights=h.counts).astype(np.float64)


def _kl_threshold(counts: NDArray[np.float64]) -> float:
    """Threshold in bins.

    The first bin (zeros of a ReLU, mostly) takes its neighbour's count: zeros need no level of their own.
    """
    counts = counts.copy()
    if len(counts) > 1:
        counts[0] = counts[1]
    if len(counts) <= KL_LEVELS:
        return float(len(counts))
    tail = np.cumsum(counts[::-1])[::-1]

    def divergence(end: int) -> float:
        return _divergence(counts[:end], float(tail[end]) if end < len(counts) else 0.0)

    stride = max(len(counts) // COARSE_STEPS, 1)
    best = min(range(KL_LEVELS, len(counts) + 1, stride), key=divergence)
    near = range(max(best - stride + 1, KL_LEVELS), min(best + stride, len(counts) + 1), max(stride // FINE_STEPS, 1))
    return float(min(near, key=divergence))


def _divergence(inside: NDArray[np.float64], clipped: float) -> float:
    """KL(reference || candidate): reference has the clipped mass in its last bin, candidate is merged to ``KL_LEVELS`` levels."""
    reference = inside.copy()
    reference[-1] += clipped
    level = np.arange(len(inside)) * KL_LEVELS // len(inside)
    mass = np.bincount(level, weights=inside, minlength=KL_LEVELS)
    filled = np.bincount(level, weights=inside > 0, minlength=KL_LEVELS)
    share = np.divide(mass, filled, out=np.zeros(KL_LEVELS), where=filled > 0)
    candidate = np.where(inside > 0, share[level], 0.0)
    p = reference / max(reference.sum(), 1.0)
    q = candidate / max(candidate.sum(), 1.0)
    used = p > 0
    safe = np.where(q[used] > 0, q[used], 1e-12)
    return float(np.sum(p[used] * np.log(p[used] / safe)))


def _histogram(stats: TensorStatistics) -> Histogram:
    if stats.histogram is None:
        raise CalibrationError("this method needs the distribution of the values, which was not collected")
    return stats.histogram


METHODS: dict[str, tuple[Need, Callable[[TensorStatistics, int], Range]]] = {
    "MAX_MIN": (Need.MINMAX, max_min),
    "KL": (Need.MINMAX | Need.HISTOGRAM, kl),
    "REMOVAL_OUTLIER": (Need.MINMAX | Need.OUTLIER, removal_outlier),
    "PERCENTILE": (Need.MINMAX | Need.HISTOGRAM, percentile),
    "MSE": (Need.MINMAX | Need.HISTOGRAM, mse),
}
"""Value of ``activation_quant_method`` -> statistics it reads, and the method."""
