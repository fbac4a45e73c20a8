"""Order and factors of channels, found in samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.analysis.channel_map import ChannelMap, ChannelMapSums
from tests.support import normal

Array = NDArray[np.float32]
Pairs = list[tuple[Array, Array]]
SEEDS = st.integers(0, 2**31)


def found(*samples: tuple[Array, Array]) -> ChannelMap | None:
    sums = ChannelMapSums()
    for expected, given_ in samples:
        sums.add(expected, given_)
    return sums.result()


def samples(shape: tuple[int, ...], held: ChannelMap, *, count: int = 4, noise: float = 0.02, seed: int = 0) -> Pairs:
    """Tensors behind a Relu with channels of their own strength, and what a quantized graph holds for them."""
    rng = np.random.default_rng(seed)
    size = [-1 if axis == held.axis else 1 for axis in range(len(shape))]
    strength = np.geomspace(0.2, 5, shape[held.axis]).reshape(size)
    made = []
    for _ in range(count):
        x = (np.maximum(rng.normal(size=shape) + 0.3, 0) * strength).astype(np.float32)
        made.append((x, held.to_quantized(x + noise * rng.normal(size=shape).astype(np.float32))))
    return made


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.sampled_from([((1, 24, 9, 9), 1), ((2, 16, 5, 6), 3), ((1, 7, 40), 2), ((1, 40, 7), 1), ((30, 20), 1)]),
    st.booleans(),
    SEEDS,
)
def test_order_and_factors_are_found_behind_noise(
    case: tuple[tuple[int, ...], int], is_scaled: bool, seed: int
) -> None:
    shape, axis = case
    rng = np.random.default_rng(seed)
    count = shape[axis]
    order = np.roll(rng.permutation(count), 1)
    if np.count_nonzero(order != np.arange(count)) < count / 2:
        return
    factors = np.exp(rng.uniform(-1, 1, count)) if is_scaled else None
    held = ChannelMap(axis, factors, order)
    made = samples(shape, held, seed=seed)
    result = found(*made)
    assert result is not None and result.axis == axis
    np.testing.assert_array_equal(result.order, order)
    if factors is None:
        assert result.factors is None
    else:
        np.testing.assert_allclose(result.factors, factors, rtol=0.2)
    for x, y in made:
        assert np.square(result.to_float(y) - x).sum() < 0.01 * np.square(x).sum()


def test_some_channels_of_many_are_found_to_have_changed() -> None:
    order = np.arange(32)
    order[[3, 11, 20, 31]] = order[[31, 3, 11, 20]]
    result = found(*samples((1, 32, 8, 8), ChannelMap(1, None, order)))
    assert result is not None and result.order is not None
    np.testing.assert_array_equal(result.order, order)


def test_dead_channels_take_no_part() -> None:
    order = np.roll(np.arange(12), 5)
    made = samples((1, 12, 8, 8), ChannelMap(1), count=3)
    for x, _ in made:
        x[:, [2, 7]] = 0
    dead = [(x, ChannelMap(1, None, order).to_quantized(x)) for x, _ in made]
    result = found(*dead)
    assert result is not None and result.order is not None
    alive = ~np.isin(order, [2, 7])
    np.testing.assert_array_equal(result.order[alive], order[alive])
    assert sorted(result.order.tolist()) == list(range(12))
    for x, y in dead:
        np.testing.assert_array_equal(result.to_float(y), x)


def test_twins_keep_the_numbers_right() -> None:
    order = np.roll(np.arange(10), 3)
    x = normal(2, 10, 8, 8)
    x[:, 4:8] = x[:, 4:5]
    result = found((x, x[:, order]))
    assert result is not None
    np.testing.assert_array_equal(result.to_float(x[:, order]), x)
    np.testing.assert_array_equal(result.to_quantized(x), x[:, order])


def test_what_is_as_it_was_has_no_order() -> None:
    assert found(*samples((1, 24, 9, 9), ChannelMap(1))) is None
    assert found(*samples((1, 24, 9, 9), ChannelMap(1), noise=0.3)) is None


@settings(derandomize=True, deadline=None, max_examples=30)
@given(
    st.sampled_from([(1, 64, 1, 1), (1, 64), (1, 500), (1, 32, 4, 4), (1, 128, 3, 3), (8, 300)]),
    st.integers(1, 16),
    SEEDS,
)
def test_a_destroyed_tensor_has_no_order(shape: tuple[int, ...], count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    made = [tuple(np.maximum(rng.normal(size=(2, *shape)), 0).astype(np.float32)) for _ in range(count)]
    assert found(*((x, y) for x, y in made)) is None


def test_an_order_that_leaves_the_tensors_different_is_none() -> None:
    x, noise = normal(1, 16, 9, 9), normal(1, 16, 9, 9, seed=2)
    assert found((x, (x + 1.5 * noise)[:, ::-1])) is None


def test_few_numbers_suffice_where_they_agree_well() -> None:
    order = np.roll(np.arange(32), 7)
    result = found(*samples((1, 32), ChannelMap(1, None, order), count=32, noise=0.002))
    assert result is not None
    np.testing.assert_array_equal(result.order, order)
    assert found(*samples((1, 32), ChannelMap(1, None, order), count=4, noise=0.002)) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_values_that_are_not_finite_show_nothing(bad: float) -> None:
    x = normal(1, 8, 6, 6)
    y = x[:, ::-1].copy()
    y[0, 0, 0, 0] = bad
    assert found((x, y)) is None


def test_results_do_not_depend_on_chance() -> None:
    made = samples((1, 24, 6, 6), ChannelMap(1, np.geomspace(0.5, 2, 24), np.roll(np.arange(24), 1)))
    first, second = found(*made), found(*made)
    assert first is not None and second is not None
    np.testing.assert_array_equal(first.order, second.order)
    np.testing.assert_array_equal(first.factors, second.factors)


def test_what_is_held_comes_back() -> None:
    held = ChannelMap(2, np.array([0.5, 2.0, 4.0]), np.array([2, 0, 1]))
    x = normal(2, 4, 3)
    np.testing.assert_allclose(held.to_float(held.to_quantized(x)), x)
    np.testing.assert_array_equal(held.to_quantized(x)[..., 0], x[..., 2] * 4)
    assert held.fits((2, 4, 3))
    assert not held.fits((2, 3))
    assert not held.fits((2, 4, 4))
