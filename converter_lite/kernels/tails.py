"""What to expect of values that were not seen, from the largest of those that were."""

from __future__ import annotations

import math
from collections.abc import Sequence

TAIL = 4
"""One value in so many belongs to the tail."""

LEAST = 6
"""Values in the tail from which it is extrapolated; fewer say little of it."""


def exceeded_by(share: float, values: Sequence[float]) -> float:
    """The level that a ``share`` of all values is expected to exceed, at least the largest of ``values``.

    Values beyond the threshold of the largest quarter are taken for exponentially distributed there.

    Source: Pickands, Statistical Inference Using Extreme Order Statistics, Annals of Statistics 3, 1975 (peaks over a threshold),
    with shape 0, whose scale is the mean excess.
    """
    ordered = sorted(values)
    largest, count = ordered[-1], len(ordered) // TAIL
    if count < LEAST or not math.isfinite(largest):
        return largest
    threshold = ordered[-count - 1]
    excess = sum(value - threshold for value in ordered[-count:]) / count
    return max(largest, threshold + excess * math.log(count / (len(ordered) * share)))
