from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.kernels.pairs import convolution_rule, count_violations, repair
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


def plainly_rounded(scaled: NDArray[np.float64], qmin: int, qmax: int) -> NDArray[np.float64]:
    """The same one row and one element after the other: first the kernels, then the channels."""
    q = np.clip(np.rint(scaled), qmin, qmax)
    error = np.where((scaled < qmin) | (scaled > qmax), 0.0, q - scaled)
    rows = [(c, k, slice(None)) for c in range(q.shape[0]) for k in range(q.shape[1])]
    for place in [*rows, *((c, slice(None), slice(None)) for c in range(q.shape[0]))]:
        steps, errors = q[place].reshape(-1), error[place].reshape(-1)
        total = errors.sum()
        sign = np.sign(total)
        order = sorted(range(len(errors)), key=lambda i: -errors[i] * sign)
        movable = [i for i in order if 0 < errors[i] * sign <= 1 and qmin <= steps[i] - sign <= qmax]
        for i in movable[: int(np.rint(abs(total)))]:
            steps[i] -= sign
            errors[i] -= sign
        q[place], error[place] = steps.reshape(q[place].shape), errors.reshape(q[place].shape)
    return q


LONG_ROWS = st.tuples(st.integers(1, 4), st.integers(50, 200), st.sampled_from([1, 9]))


@settings(derandomize=True, deadline=None, max_examples=200)
@given(SHAPES | LONG_ROWS, st.integers(0, 2**31), st.sampled_from([2, 4, 2**20]))
def test_the_integers_are_those_of_the_plain_way(shape: tuple[int, int, int], seed: int, parts: int) -> None:
    # binary fractions: errors and their sums are exact, so that equal ones are equal in both
    scaled = np.rint(np.random.default_rng(seed).uniform(-9, 9, shape) * parts) / parts
    np.testing.assert_array_equal(round_compensated(scaled, qmin=-8, qmax=7), plainly_rounded(scaled, -8, 7))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.tuples(st.integers(1, 4), st.integers(2, 6), st.integers(1, 9)), st.integers(0, 2**31))
def test_no_pair_saturates_a_kernel(shape: tuple[int, int, int], seed: int) -> None:
    scaled = np.clip(np.random.default_rng(seed).normal(size=shape) * 60, -127, 127)
    rule = convolution_rule(shape, 1)
    assert rule is not None
    q = round_compensated(scaled, qmin=-127, qmax=127, pairs=rule.pairs(shape))
    assert count_violations(q, (rule,)) == 0
    nearest = repair(np.rint(scaled).astype(np.int32), lambda: scaled, (rule,))
    assert np.abs(q - nearest).max() <= 1


def test_pairs_that_fit_change_nothing() -> None:
    shape = (3, 4, 9)
    scaled = np.random.default_rng(1).uniform(-40, 40, shape)
    rule = convolution_rule(shape, 1)
    assert rule is not None
    given = round_compensated(scaled, qmin=-127, qmax=127, pairs=rule.pairs(shape))
    np.testing.assert_array_equal(given, round_compensated(scaled, qmin=-127, qmax=127))
