"""Rounding of weights so that errors cancel instead of adding up, without any data.

Inputs of a layer behind a ReLU have a positive mean, and neighbouring pixels are alike: what matters is the sum of the rounding
errors over a kernel and over an output channel, not each error by itself. Elements closest to the middle of two integers are
rounded the other way until both sums are within half a step.

Source: Guo et al., SQuant: On-the-Fly Data-Free Quantization via Diagonal Hessian Approximation, ICLR 2022 (kernel-wise and
channel-wise objectives).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.pairs import Indices, may_grow, repair_rows

IntArray = NDArray[np.int32]

GROUPS = 4
"""Groups of a row for each element that is sought in it: more of them bound these better, and take longer to sort."""

SMALLEST = np.finfo(np.float64).smallest_subnormal
"""Least positive number."""


def coarse(factors: NDArray[np.float64], bits: int = 6) -> NDArray[np.float64]:
    """Positive numbers rounded up to ``bits`` binary digits behind the first.

    Results of running a float model differ in their last digits between processors. Factors without those digits give the same
    weights, and so the same integers, on all of them.
    """
    mantissa, exponent = np.frexp(factors)
    return np.ldexp(np.ceil(mantissa * 2.0 ** (bits + 1) - 1e-3) / 2.0 ** (bits + 1), exponent)


def round_compensated(scaled: NDArray[np.float64], *, qmin: int, qmax: int, pairs: Sequence[Indices] = ()) -> IntArray:
    """Integers near ``scaled`` whose errors cancel within each kernel and each output channel.

    Args:
        scaled: ``(output channels, input channels, kernel size)``, weights in quantized steps, zero point added.
        qmin: Lowest integer.
        qmax: Highest integer.
        pairs: Elements of an output channel that must not saturate a kernel together (:mod:`converter_lite.kernels.pairs`).

    Returns:
        int32 of the same shape; no element is more than one step from its exact value (beyond saturation).
    """
    rows = np.ascontiguousarray(scaled).reshape(len(scaled), -1)
    inside = np.clip(rows, qmin, qmax)
    q = np.rint(inside)
    if pairs:
        repair_rows(q, rows, pairs)
    error = q - inside
    if pairs:
        error[inside != rows] = 0.0  # nothing makes up for saturation
    kernel = (-1, scaled.shape[-1])
    if scaled.shape[-1] > 1 or pairs:  # one element alone errs by half a step at most
        free = _free(q, pairs)
        _flip(q.reshape(kernel), error.reshape(kernel), None if free is None else free.reshape(kernel))
    _flip(q, error, _free(q, pairs))
    return q.reshape(scaled.shape).astype(np.int32)


def _free(q: NDArray[np.float64], pairs: Sequence[Indices]) -> NDArray[np.bool_] | None:
    """Elements that may move away from zero; ``None``: all of them."""
    return may_grow(q, pairs) if pairs else None


def _flip(q: NDArray[np.float64], error: NDArray[np.float64], free: NDArray[np.bool_] | None) -> None:
    """Move elements of largest error by a step, in place, so that the sum of each row's errors gets within half a step.

    Only elements whose error has the sign of the sum may move; the largest go first, so that a flip made for a kernel is taken
    back before another one is made for the channel. No element leaves the grid: one at its end that errs towards the inside
    would have saturated, and has no error.

    Args:
        q: Integers, ``(rows, elements)``.
        error: By how much they are too large.
        free: Elements that may move away from zero; ``None``: all of them, and none errs by more than a step.
    """
    total = error.sum(axis=-1)
    wanted = np.rint(np.abs(total)).astype(np.int64)
    rows = np.flatnonzero(wanted)  # few kernels, nearly all channels
    if not rows.size:
        return
    sign = np.sign(total[rows])
    gain = error[rows]
    gain *= sign[:, None]
    if free is not None:
        gain[(gain > 1.0) | ~(free[rows] | (q[rows] * sign[:, None] > 0))] = 0.0
    row, column = _largest(gain, wanted[rows])
    q[rows[row], column] -= sign[row]
    error[rows[row], column] -= sign[row]


def _largest(gain: NDArray[np.float64], counts: NDArray[np.int64]) -> tuple[Indices, Indices]:
    """Rows and columns of the ``counts`` largest positive elements of each row; of equal ones the first.

    Sorting or partitioning long rows would take most of the time of rounding. There, the largest elements of more than
    ``counts`` groups bound those that are sought from below, and few elements reach the bound.
    """
    size = gain.shape[1]
    most = min(int(counts.max()), size)
    width = size // (GROUPS * most)
    if width < 2:
        order = np.argsort(-gain, axis=-1, kind="stable")[:, :most]
        kept = (np.arange(most) < counts[:, None]) & (np.take_along_axis(gain, order, axis=-1) > 0)
        row, rank = np.nonzero(kept)
        return row, order[row, rank]
    groups = size // width
    tops = np.sort(gain[:, : groups * width].reshape(len(gain), width, groups).max(axis=1), axis=-1)
    bound = np.maximum(tops[np.arange(len(gain)), groups - counts], SMALLEST)
    near = np.flatnonzero(gain >= bound[:, None])
    row, column = np.divmod(near, size)
    order = np.lexsort((-gain.reshape(-1)[near], row))
    row, column = row[order], column[order]
    rank = np.arange(len(row)) - np.searchsorted(row, row)
    kept = rank < counts[row]
    return row[kept], column[kept]
