"""Rounding of weights that lets errors cancel instead of adding up, without any data.

Inputs of a layer behind a ReLU have a positive mean, and neighbouring pixels are alike: what hurts is the sum of the rounding
errors over a kernel and over an output channel, not each error by itself. Elements closest to the middle of two integers are
rounded the other way until both sums are within half a step.

Source: Guo et al., SQuant: On-the-Fly Data-Free Quantization via Diagonal Hessian Approximation, ICLR 2022 (kernel-wise and
channel-wise objectives).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]


def round_compensated(scaled: NDArray[np.float64], *, qmin: int, qmax: int) -> IntArray:
    """Integers near ``scaled`` whose errors cancel within each kernel and each output channel.

    Args:
        scaled: ``(output channels, input channels, kernel size)``, weights in quantized steps, zero point added.
        qmin: Lowest integer.
        qmax: Highest integer.

    Returns:
        int32 of the same shape; no element is more than one step from its exact value (beyond saturation).
    """
    q = np.clip(np.rint(scaled), qmin, qmax)
    error = np.where((scaled < qmin) | (scaled > qmax), 0.0, q - scaled)
    _flip_to_zero_sum(q, error, qmin=qmin, qmax=qmax)
    flat_q, flat_error = q.reshape(q.shape[0], 1, -1), error.reshape(q.shape[0], 1, -1)
    _flip_to_zero_sum(flat_q, flat_error, qmin=qmin, qmax=qmax)
    return flat_q.reshape(scaled.shape).astype(np.int32)


def _flip_to_zero_sum(q: NDArray[np.float64], error: NDArray[np.float64], *, qmin: int, qmax: int) -> None:
    """Along the last axis, move the elements of largest error one step so that the sum of errors is within half a step.

    Only elements whose error has the sign of the sum, is at most half a step, and whose new value is on the grid may move.
    """
    total = error.sum(axis=-1, keepdims=True)
    sign = np.sign(total)
    gain = error * sign
    movable = (gain > 0) & (gain <= 0.5) & (q - sign >= qmin) & (q - sign <= qmax)
    order = np.argsort(np.where(movable, -gain, np.inf), axis=-1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(q.shape[-1]), q.shape).copy(), axis=-1)
    flip = movable & (rank < np.rint(np.abs(total)))
    q -= np.where(flip, sign, 0.0)
    error -= np.where(flip, sign, 0.0)
