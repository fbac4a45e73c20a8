"""Scales per input channel: one for each column of a weight, beside those per output channel (its rows).

The largest element of a row decides its step, so a column that is large in many rows makes all other columns coarse. Dividing
it by a scale of its own avoids that, but multiplies its rounding error by the scale: the best scales balance both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

SQUARINGS = 3
NORM = 2**SQUARINGS
"""Order of the norm that stands for a row's largest element: smooth, and forgiving where the step is clipped."""

ROUNDS = 30
"""Rounds of the balance; it is settled to a percent after about ten."""

LIMIT = 4.0
"""Largest scale and inverse of the smallest."""

_TINY = 1e-30


def fit_input_scales(weight: Matrix, variances: Matrix) -> Matrix | None:
    """Scales ``f`` of least expected error for a weight that is stored as ``f * q``, ``q`` rounded with one step per row.

    The expected error is ``sum over rows of step^2 * sum over columns of f^2 * variance``, where the step is proportional to
    the largest element of the row divided by ``f``. At the minimum each column's share of the second sum equals its share in
    causing the rows' steps, so the iteration balances both shares.

    Shapes:
        weight: ``(groups, rows, columns)``, the scales are the same for all groups; variances: ``(groups, columns)``, what an
        error of a column does to the output once the others have compensated it.

    Returns:
        ``(columns,)``, rounded to float32, geometric mean about 1; ``None`` if they gain nothing.
    """
    sizes, scales = np.abs(weight), np.ones(weight.shape[2])
    for _ in range(ROUNDS):
        powers = sizes / scales
        peaks = np.maximum(powers.max(axis=2, keepdims=True), _TINY)
        powers /= peaks
        for _ in range(SQUARINGS):
            np.square(powers, out=powers)
        sums = np.maximum(powers.sum(axis=2, keepdims=True), _TINY)
        steps = (peaks * sums ** (1 / NORM))[..., 0] ** 2
        noise = scales * scales * variances
        shares = steps * noise.sum(axis=1, keepdims=True) / sums[..., 0]
        due = (shares[:, None, :] @ powers)[:, 0].sum(axis=0)
        borne = noise.T @ steps.sum(axis=1)
        scales = scales * ((due + _TINY) / (borne + _TINY)) ** (1 / (NORM + 2))
        scales = np.clip(scales / np.exp(np.log(scales).mean()), 1 / LIMIT, LIMIT)
    scales = scales.astype(np.float32).astype(np.float64)
    gain = expected_error(weight, variances, scales) < expected_error(weight, variances, np.ones_like(scales))
    return scales if gain else None


def expected_error(weight: Matrix, variances: Matrix, scales: Matrix) -> float:
    """Error of rounding ``weight / scales`` with steps that cover the rows, in an arbitrary unit."""
    scaled = weight / scales
    ranges = np.maximum(scaled.max(axis=2), 0.0) - np.minimum(scaled.min(axis=2), 0.0)
    return float(np.sum((ranges**2).sum(axis=1) * (scales * scales * variances).sum(axis=1)))
