"""Orders of channels, against costs written out and against all orders of a few channels."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.kernels.matching import cost_of, match, pair_costs

Matrix = NDArray[np.float64]
SEEDS = st.integers(0, 2**31)
MANY = settings(derandomize=True, deadline=None, max_examples=60)


def random_costs(count: int, seed: int, share: float = 1.0) -> Matrix:
    rng = np.random.default_rng(seed)
    half = np.triu(rng.integers(0, 100, (count, count)) * (rng.random((count, count)) < share), 1)
    return (half + half.T).astype(np.float64)


def plain_costs(steps: Matrix, importance: Matrix) -> Matrix:
    """Element by element: the squared excess of each pair of one sign, times the importance of its sum."""
    count = steps.shape[2]
    costs = np.zeros((count, count))
    for row, position, a, b in np.ndindex(*steps.shape, count):
        if a == b:
            continue
        x, y = steps[row, position, [a, b]]
        for sign in (1, -1):
            excess = max(max(sign * x, 0) + max(sign * y, 0) - 128, 0) if sign * x > 0 and sign * y > 0 else 0
            costs[a, b] += 2 * importance[row] * excess**2
    return costs


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(2, 6), SEEDS)
def test_costs_are_those_written_out(rows: int, positions: int, channels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers = [
        (np.clip(rng.normal(size=(rows, positions, channels)) * 80, -127, 127), rng.integers(1, 9, rows).astype(float))
        for _ in range(2)
    ]
    found = pair_costs(layers)
    expected = sum(plain_costs(*layer) for layer in layers)
    off_diagonal = ~np.eye(channels, dtype=bool)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found[off_diagonal], np.asarray(expected)[off_diagonal], rtol=1e-4, atol=0.01)


@MANY
@given(st.integers(1, 24), SEEDS, st.sampled_from([0.0, 0.05, 0.3, 1.0]))
def test_every_channel_has_one_place(count: int, seed: int, share: float) -> None:
    order = match(random_costs(count, seed, share))
    assert sorted(order.tolist()) == list(range(count))


@MANY
@given(st.integers(1, 24), SEEDS, st.sampled_from([0.05, 0.3, 1.0]))
def test_an_order_never_costs_more_than_the_one_there_was(count: int, seed: int, share: float) -> None:
    costs = random_costs(count, seed, share)
    before = costs.copy()
    assert cost_of(match(costs), costs) <= cost_of(np.arange(count), costs)
    np.testing.assert_array_equal(costs, before)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_few_channels_are_matched_nearly_as_well_as_possible(count: int) -> None:
    found = best = there = 0.0
    for seed in range(40):
        costs = random_costs(count, seed)
        found += cost_of(match(costs), costs)
        best += min(cost_of(np.array(order), costs) for order in permutations(range(count)))
        there += cost_of(np.arange(count), costs)
    assert found <= best + 0.25 * (there - best)


def test_the_last_of_an_odd_number_stays_alone_and_costs_nothing() -> None:
    costs = random_costs(5, 3)
    assert cost_of(np.arange(5), costs) == costs[0, 1] + costs[2, 3]
    assert len(match(costs)) == 5


def test_orders_do_not_depend_on_chance() -> None:
    costs = random_costs(30, 4)
    np.testing.assert_array_equal(match(costs), match(costs.copy()))


def test_large_weights_of_one_sign_part() -> None:
    steps = np.array([[[100.0, 90.0, -100.0, -90.0]]])
    costs = pair_costs([(steps, np.ones(1))])
    assert cost_of(np.arange(4), costs) > 0
    order = match(costs)
    assert cost_of(order, costs) == 0
    assert {np.sign(steps[0, 0, channel]) for channel in order[:2]} == {1.0, -1.0}
