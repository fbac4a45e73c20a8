"""Extrapolation of a tail: against known distributions, and where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from converter_lite.kernels.tails import exceeded_by


@pytest.mark.parametrize("share", [0.002, 0.0005])
def test_the_level_of_an_exponential_tail_is_found(share: float) -> None:
    rng = np.random.default_rng(1)
    found = [exceeded_by(share, rng.exponential(0.02, size=100)) for _ in range(50)]
    assert np.mean(found) == pytest.approx(-0.02 * math.log(share), rel=0.1)


def test_fewer_unseen_values_exceed_it_than_exceed_the_largest_seen_one() -> None:
    """Half-normal and log-normal values: the tail need not be exponential."""
    rng = np.random.default_rng(2)
    for draw in (lambda size: np.abs(rng.normal(size=size)), lambda size: rng.lognormal(sigma=0.7, size=size)):
        others = draw(100_000)
        seen = [draw(100) for _ in range(30)]
        beyond = np.mean([np.mean(others > exceeded_by(0.001, values)) for values in seen])
        assert beyond < 0.004 < np.mean([np.mean(others > values.max()) for values in seen])


@pytest.mark.parametrize("values", [[0.5], [0.1] * 23, [0.2] * 100, [0.1] * 50 + [math.inf]])
def test_without_a_tail_it_is_the_largest_value(values: list[float]) -> None:
    assert exceeded_by(0.001, values) == max(values)


def test_each_column_has_its_own_level() -> None:
    """One that is constant, one that held no value in some samples (-inf), one with a tail."""
    rng = np.random.default_rng(3)
    tail = rng.exponential(size=40)
    values = np.stack([np.full(40, 2.0), np.where(np.arange(40) < 38, -np.inf, 3.0), tail], axis=1)
    found = exceeded_by(0.001, values)
    assert found[:2].tolist() == [2.0, 3.0]
    assert found[2] == exceeded_by(0.001, tail) > tail.max()
