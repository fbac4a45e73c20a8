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
    scaled = np.ascontiguousarray(scaled)  # the code below changes views
    q = np.rint(scaled)
    np.clip(q, qmin, qmax, out=q)
    rows = q.reshape(len(q), -1)
    repair_rows(rows, scaled.reshape(rows.shape), pairs)
    error = q - scaled
    error[(scaled < qmin) | (scaled > qmax)] = 0.0
    change = _changes(q, error, qmin=qmin, qmax=qmax, free=_free(q, pairs))
    if change is not None:
        q -= change
        error -= change
    flat_q, flat_error = q.reshape(len(q), 1, -1), error.reshape(len(q), 1, -1)
    change = _changes(flat_q, flat_error, qmin=qmin, qmax=qmax, free=_free(flat_q, pairs))
    if change is not None:
        flat_q -= change
    return q.astype(np.int32)


def _free(q: NDArray[np.float64], pairs: Sequence[Indices]) -> NDArray[np.bool_] | None:
    """Elements that may move away from zero; ``None``: all of them."""
    return may_grow(q.reshape(len(q), -1), pairs).reshape(q.shape) if pairs else None


def _changes(
    q: NDArray[np.float64], error: NDArray[np.float64], *, qmin: int, qmax: int, free: NDArray[np.bool_] | None
) -> NDArray[np.float64] | None:
    """Along the last axis, steps of the elements of largest error by which the sum of errors gets within half a step.

    Only elements whose error has the sign of the sum, is at most one step, and whose new value is on the grid may move; the
    largest go first, so that a flip made for a kernel is taken back before another one is made for the channel.

    Args:
        q: Integers.
        error: By how much they are too large.
        qmin: Lowest integer.
        qmax: Highest integer.
        free: Elements that may move away from zero; ``None``: all of them.

    Returns:
        What is to be subtracted from both; ``None`` if all sums are small.
    """
    total = error if error.shape[-1] == 1 else error.sum(axis=-1, keepdims=True)
    wanted = np.rint(np.abs(total))
    chosen = wanted[..., 0] > 0  # few kernels, nearly all channels
    if not chosen.any():
        return None
    every = bool(chosen.all())
    sums, wanted, errors, steps = (
        a.reshape(-1, a.shape[-1]) if every else a[chosen] for a in (total, wanted, error, q)
    )
    sign = np.sign(sums)
    gain, moved = errors * sign, steps - sign
    movable = (gain > 0) & (gain <= 1.0)
    movable &= moved >= qmin
    movable &= moved <= qmax
    if free is not None:
        movable &= free.reshape(steps.shape) | (steps * sign > 0) if every else free[chosen] | (steps * sign > 0)
    flips = np.minimum(wanted, movable.sum(axis=-1, keepdims=True)).astype(np.int64)
    np.negative(gain, out=gain)
    gain[~movable] = np.inf
    change = np.where(_smallest(gain, flips), sign, 0.0)
    if every:
        return change.reshape(q.shape)
    changes = np.zeros(q.shape)
    changes[chosen] = change
    return changes


def _smallest(keys: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The ``counts`` smallest of each row (the first of equal ones); cheaper than the order that argsort finds.

    Args:
        keys: ``(rows, n)``.
        counts: ``(rows, 1)``, 0 to n.
    """
    most = max(int(counts.max()), 1)
    first = np.sort(np.partition(keys, most - 1, axis=-1)[:, :most], axis=-1)
    limit = np.take_along_axis(first, np.maximum(counts - 1, 0), axis=-1)
    found = (keys <= limit) & (counts > 0)
    if (found.sum(axis=-1, keepdims=True) == counts).all():
        return found
    below, equal = keys < limit, keys == limit
    room = counts - below.sum(axis=-1, keepdims=True)
    return (below | (equal & (np.cumsum(equal, axis=-1) <= room))) & (counts > 0)
