from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from converter_lite.kernels.rounding import round_compensated

SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 9))


@settings(derandomize=True, deadline=None, max_examples=300)
@given(SHAPES, st.integers(0, 2**31))
def test_errors_of_a_channel_cancel_and_no_element_moves_more_than_one_step(
    shape: tuple[int, int, int], seed: int
) -> None:
    scaled = np.random.default_rng(seed).uniform(-100, 100, shape)
    q = round_compensated(scaled, qmin=-128, qmax=127)
    error = q - scaled
    assert q.dtype == np.int32
    assert np.abs(error).max() <= 1.0
    assert np.abs(error.sum(axis=(1, 2))).max() <= 0.5 + 1e-9


@settings(derandomize=True, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**31))
def test_errors_of_a_single_kernel_cancel(channels: int, size: int, seed: int) -> None:
    scaled = np.random.default_rng(seed).uniform(-100, 100, (channels, 1, size))
    error = round_compensated(scaled, qmin=-128, qmax=127) - scaled
    assert np.abs(error.sum(axis=2)).max() <= 0.5 + 1e-9


def test_flips_of_kernels_that_add_up_in_a_channel_are_taken_back() -> None:
    # each kernel alone flips one element (sum -0.6 -> +0.4); the four sums would add up to 1.6 in the channel
    scaled = np.full((1, 4, 2), 10.3)
    q = round_compensated(scaled, qmin=-128, qmax=127)
    assert abs((q - scaled).sum()) <= 0.5


@settings(derandomize=True, deadline=None)
@given(SHAPES, st.integers(0, 2**31))
def test_integers_stay_on_the_grid_and_outside_values_saturate(shape: tuple[int, int, int], seed: int) -> None:
    scaled = np.random.default_rng(seed).uniform(-12, 12, shape)
    q = round_compensated(scaled, qmin=-8, qmax=7)
    assert q.min() >= -8
    assert q.max() <= 7
    np.testing.assert_array_equal(q[scaled > 8], 7)
    np.testing.assert_array_equal(q[scaled < -9], -8)


def test_integers_are_kept_as_they_are() -> None:
    scaled = np.arange(-12.0, 12.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(round_compensated(scaled, qmin=-128, qmax=127), scaled)


def test_many_equal_small_weights_do_not_vanish() -> None:
    q = round_compensated(np.full((1, 1, 100), 0.4), qmin=-8, qmax=7)
    assert q.sum() == 40
