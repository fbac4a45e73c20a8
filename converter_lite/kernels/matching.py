"""Which input channels become neighbours, so that few of the pairs that kernels add up consist of two large weights.

The order of channels between two layers is free. Two neighbours cost something if their weights have the same sign and add up to
more than a pair may (:mod:`converter_lite.kernels.pairs`): the step of that whole sum would have to grow.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from converter_lite.kernels.pairs import PAIR_LIMIT

NEGLIGIBLE = 1e-2
"""Costs below it count as zero: there are many of them, and last digits should not decide."""

ROUNDS = 50
"""Most rounds of exchanges; they settle in two or three."""

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]


def pair_costs(layers: Iterable[tuple[Matrix, Matrix]]) -> Matrix:
    """What it costs to put two channels beside each other.

    Args:
        layers: Per layer that reads the channels: weights in steps, ``(sums, positions of the kernel, channels)``, and the
            importance of each sum ``(sums,)``.

    Returns:
        ``(channels, channels)``, symmetric, with the precision of float32.
    """
    costs: NDArray[np.float32] | None = None
    for steps, importance in layers:
        if costs is None:
            costs = np.zeros((steps.shape[2],) * 2, np.float32)
        _add_costs(costs, steps, importance)
    assert costs is not None
    costs[costs < NEGLIGIBLE] = 0
    return costs.astype(np.float64)


def _add_costs(costs: NDArray[np.float32], steps: Matrix, importance: NDArray[np.float64]) -> None:
    """One of the two elements must be large, so only large ones are examined, and those that were are left out from then on.

    Rows are scaled with the roots of what they count, so that squares of the excess only have to be added up.
    """
    rows = steps.reshape(-1, steps.shape[2]).astype(np.float32)
    roots = np.tile(np.sqrt(2 * np.repeat(importance, steps.shape[1])).astype(np.float32), 2)
    channels, places = np.nonzero(np.abs(rows).T > PAIR_LIMIT // 2)
    places += len(rows) * (rows[places, channels] < 0)
    both = np.concatenate([rows, -rows]) * roots[:, None]
    limits = roots * PAIR_LIMIT
    starts = np.searchsorted(channels, np.arange(len(costs) + 1))
    for channel in np.unique(channels):
        found = places[starts[channel] : starts[channel + 1]]
        excess = both[found]  # a copy, changed in place from here on
        excess += (excess[:, channel] - limits[found])[:, None]
        np.maximum(excess, 0, out=excess)
        excess *= excess
        cost = excess.sum(axis=0)
        costs[channel] += cost
        costs[:, channel] += cost
        both[found, channel] = 0


def match(costs: Matrix) -> Indices:
    """Order of channels in which neighbours (0 and 1, 2 and 3, ...) cost little together.

    Each channel in turn, the most costly first, takes the best partner that is left; then pairs exchange partners while that
    lowers the cost. With an odd number one channel stays without a partner, at the end. The present order stays unless another
    one costs less.
    """
    count, given = len(costs), costs
    costs = np.pad(costs, (0, count % 2))
    np.fill_diagonal(costs, np.inf)
    free = np.ones(len(costs), bool)
    pairs: list[tuple[int, int]] = []
    for first in np.argsort(-np.where(np.isfinite(costs), costs, 0).sum(axis=1), kind="stable"):
        if not free[first]:
            continue
        free[first] = False
        second = int(np.argmin(np.where(free, costs[first], np.inf)))
        free[second] = False
        pairs.append((int(first), second))
    order = np.array(pairs, dtype=np.intp).reshape(-1, 2)
    for _ in range(ROUNDS):
        if not _exchange(order, costs):
            break
    with_absent = (order == count).any(axis=1)
    order = np.concatenate([order[~with_absent].reshape(-1), order[with_absent].reshape(-1)])
    order, kept = order[order < count], np.arange(count)
    return order if cost_of(order, given) < cost_of(kept, given) else kept


def _exchange(pairs: Indices, costs: Matrix) -> bool:
    """Let each pair that costs something exchange partners with the best other pair, in place; returns whether any did."""
    changed = False
    current = costs[pairs[:, 0], pairs[:, 1]]
    for index in np.argsort(-current, kind="stable"):
        a, b = pairs[index]
        own = current[index]
        if own == 0:
            continue
        others = pairs.T
        gains = current + own - costs[a][others] - costs[b][others[::-1]]
        gains[:, index] = 0
        way, other = np.unravel_index(int(np.argmax(gains)), gains.shape)
        if gains[way, other] <= 0:
            continue
        c, d = pairs[other] if way == 0 else pairs[other][::-1]
        pairs[index], pairs[other] = (a, c), (b, d)
        current[index], current[other] = costs[a, c], costs[b, d]
        changed = True
    return changed


def cost_of(order: Indices, costs: Matrix) -> float:
    """What an order costs."""
    return float(costs[order[0 : len(order) - 1 : 2], order[1::2]].sum())
