"""What to expect of values that were not seen, from the largest of those that were."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

TAIL = 4
"""One value in so many belongs to the tail."""

LEAST = 6
"""Values in the tail from which it is extrapolated; fewer say little of it."""


def exceeded_by(share: float, values: ArrayLike) -> NDArray[np.float64]:
    """The level that a ``share`` of all values is expected to exceed, at least the largest of ``values``.

    Values beyond the threshold of the largest quarter are taken for exponentially distributed there.

    Args:
        share: Below one.
        values: What was seen, along the first axis: ``(n, ..)``.

    Returns:
        A level for each place of the other axes, ``(..)``.

    Source: Pickands, Statistical Inference Using Extreme Order Statistics, Annals of Statistics 3, 1975 (peaks over a threshold),
    with shape 0, whose scale is the mean excess.
    """
    ordered = np.sort(np.asarray(values, np.float64), axis=0)
    largest, count = ordered[-1], len(ordered) // TAIL
    if count < LEAST:
        return largest
    threshold = ordered[-count - 1]
    known = np.isfinite(largest) & np.isfinite(threshold)
    excess = np.where(known, ordered[-count:] - np.where(known, threshold, 0.0), 0.0).mean(axis=0)
    expected = threshold + excess * math.log(count / (len(ordered) * share))
    return np.where(known, np.maximum(largest, expected), largest)
