"""Factors of columns against the balance written out slowly, and against other choices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.kernels.input_scales import LIMIT, NORM, ROUNDS, expected_error, fit_input_scales

Matrix = NDArray[np.float64]


def plain(weight: Matrix, variances: Matrix) -> Matrix:
    """The balance with loops: each column's share of what the steps are due to, against its share of the error."""
    groups, rows, columns = weight.shape
    input_scales = np.ones(columns)
    for _ in range(ROUNDS):
        due, borne = np.zeros(columns), np.zeros(columns)
        for group in range(groups):
            noise = [input_scales[c] ** 2 * variances[group, c] for c in range(columns)]
            for row in range(rows):
                powers = [(abs(weight[group, row, c]) / input_scales[c]) ** NORM for c in range(columns)]
                step = sum(powers) ** (2 / NORM)
                for c in range(columns):
                    due[c] += powers[c] / sum(powers) * step * sum(noise)
                    borne[c] += noise[c] * step
        input_scales *= (due / borne) ** (1 / (NORM + 2))
        input_scales = np.clip(input_scales / np.prod(input_scales) ** (1 / columns), 1 / LIMIT, LIMIT)
    return input_scales


def uneven(seed: int, groups: int = 2, rows: int = 5, columns: int = 7) -> tuple[Matrix, Matrix]:
    """A weight whose columns differ in size, and inputs of which the columns differ in variance."""
    rng = np.random.default_rng(seed)
    weight = rng.normal(size=(groups, rows, columns)) * rng.uniform(0.3, 3, size=columns)
    return weight, rng.uniform(0.1, 5, size=(groups, columns))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_balance_written_out(seed: int) -> None:
    weight, variances = uneven(seed)
    input_scales = fit_input_scales(weight, variances)
    assert input_scales is not None
    np.testing.assert_allclose(input_scales, plain(weight, variances), rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_no_single_scale_could_be_changed_to_much_gain(seed: int) -> None:
    weight, variances = uneven(seed, rows=60)
    input_scales = fit_input_scales(weight, variances)
    assert input_scales is not None
    least = expected_error(weight, variances, input_scales)
    for column in range(len(input_scales)):
        for change in (0.8, 0.9, 1.1, 1.25):
            other = input_scales.copy()
            other[column] *= change
            assert expected_error(weight, variances, other) > 0.97 * least


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 9), st.integers(1, 12))
def test_scales_are_bounded_and_always_gain(seed: int, groups: int, rows: int, columns: int) -> None:
    weight, variances = uneven(seed, groups, rows, columns)
    weight[:, :, 0] *= seed % 2  # a column that is all zero
    input_scales = fit_input_scales(weight, variances)
    if input_scales is not None:
        assert input_scales.shape == (columns,)
        assert input_scales.min() >= 1 / LIMIT
        assert input_scales.max() <= LIMIT
        np.testing.assert_array_equal(input_scales, input_scales.astype(np.float32))
        assert expected_error(weight, variances, input_scales) < expected_error(weight, variances, np.ones(columns))


def test_columns_that_are_alike_need_none() -> None:
    assert fit_input_scales(np.where(np.arange(24).reshape(1, 4, 6) % 2, 1.0, -1.0), np.ones((1, 6))) is None


def test_a_weight_of_zeros_needs_none() -> None:
    assert fit_input_scales(np.zeros((1, 3, 4)), np.ones((1, 4))) is None


def test_a_large_column_gets_a_large_scale_unless_its_inputs_are_large_too() -> None:
    weight, _ = uneven(1, groups=1, rows=40)
    weight[:, :, 2] *= 2
    quiet, loud = (fit_input_scales(weight, np.where(np.arange(7) == 2, v, 1.0)[None]) for v in (1.0, 9.0))
    assert quiet is not None
    assert np.argmax(quiet) == 2
    assert loud is not None
    assert loud[2] < 0.8 * quiet[2]
