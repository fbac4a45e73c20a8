"""Each statistic of the debug reports against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from converter_lite.reports.distribution import Distribution, clipped_share, distribution, similarity


def test_quartiles_are_elements_of_the_sorted_values_without_interpolation() -> None:
    found = distribution(np.array([[5, 1, 4], [2, 3, 6]], np.float32))
    # n = 6: positions 1, 3, 4 of 1 2 3 4 5 6
    assert (found.minimum, found.q1, found.median, found.q3, found.maximum) == (1, 2, 4, 5, 6)


def test_a_single_value_is_all_of_its_quartiles() -> None:
    assert distribution(np.array(-2.5, np.float32)) == Distribution(-2.5, -2.5, -2.5, -2.5, -2.5, -2.5, 0.0, 0.0)


def test_the_deviation_is_that_of_the_population() -> None:
    found = distribution(np.array([2, 4, 4, 4, 5, 5, 7, 9], np.float32))
    assert (found.mean, found.deviation) == (5.0, 2.0)


def test_the_mean_of_many_equal_values_does_not_drift() -> None:
    found = distribution(np.full(3_000_001, 0.1, np.float32))
    assert found.mean == pytest.approx(float(np.float32(0.1)), rel=1e-12)


def test_sparsity_counts_exact_zeros_of_either_sign() -> None:
    assert distribution(np.array([0.0, -0.0, 1e-30, 3.0], np.float32)).sparsity == 0.5


def test_an_empty_tensor_has_zero_statistics() -> None:
    empty = np.zeros((0, 3), np.float32)
    assert distribution(empty) == Distribution()
    assert clipped_share(empty, empty) == 0.0
    assert similarity(empty, empty) == 1.0


def test_values_that_are_not_finite_give_statistics_that_are_not_numbers() -> None:
    found = distribution(np.array([1.0, np.nan, np.inf], np.float32))
    assert found.minimum == 1.0
    assert math.isnan(found.maximum) and math.isnan(found.mean) and math.isnan(found.deviation)
    assert math.isnan(similarity(np.array([np.inf, 1.0], np.float32), np.array([1.0, 1.0], np.float32)))


def test_clip_is_the_share_of_original_values_outside_the_dequantized_range() -> None:
    origin = np.array([-2.0, -1.0, 0.0, 1.0, 3.0], np.float32)
    assert clipped_share(origin, np.array([-1.0, 0.5, 1.0], np.float32)) == 2 / 5
    assert clipped_share(origin, origin) == 0.0


def test_there_is_no_angle_between_tensors_of_different_shapes() -> None:
    assert math.isnan(similarity(np.ones(3, np.float32), np.ones(4, np.float32)))
