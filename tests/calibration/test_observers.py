from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from converter_lite.calibration import observers
from converter_lite.calibration.observers import METHODS, quantization_error
from converter_lite.calibration.statistics import CalibrationStats, Need, TensorStatistics
from converter_lite.errors import CalibrationError
from converter_lite.kernels.histogram import histogram

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=20_000).astype(np.float32)
RELU = np.maximum(NORMAL, 0)
PICTURE = (RNG.integers(0, 256, 20_000) / np.float32(127.5) - 1).astype(np.float32)


def observe(values: NDArray[np.float32]) -> TensorStatistics:
    """Statistics of one sample, as the calibration collects them."""
    ordered = np.sort(values.reshape(-1))
    low, high = int(len(ordered) * 0.0001), int(len(ordered) * 0.9999)
    return TensorStatistics(
        1,
        float(ordered[0]),
        float(ordered[-1]),
        low,
        float(ordered[low]),
        float(ordered[min(high, len(ordered) - 1)]),
        histogram(values),
    )


def ranges(values: NDArray[np.float32], method: str, bits: int = 8) -> tuple[float, float]:
    return METHODS[method][1](observe(values), bits)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(st.permutations(range(6)), st.integers(1, 5), st.sampled_from(sorted(METHODS)))
def test_the_range_does_not_depend_on_the_order_and_split_of_samples(order: list[int], cut: int, method: str) -> None:
    samples = [RNG_SAMPLES[i] for i in order]
    parts = [TensorStatistics(), TensorStatistics()]
    for i, sample in enumerate(samples):
        parts[int(i >= cut)].add(observe(sample))
    parts[0].add(parts[1])
    straight = TensorStatistics()
    for sample in RNG_SAMPLES:
        straight.add(observe(sample))
    assert METHODS[method][1](parts[0], 8) == pytest.approx(METHODS[method][1](straight, 8), rel=1e-12)
    assert parts[0].samples == straight.samples == 6


RNG_SAMPLES = [np.random.default_rng(i).normal(i / 3, 1 + i, 500).astype(np.float32) for i in range(6)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "values", [NORMAL, RELU, -RELU, PICTURE, NORMAL + 100], ids=["normal", "relu", "-relu", "picture", "far"]
)
def test_every_range_lies_within_what_was_observed_and_holds_zero_or_an_observed_bound(
    values: NDArray[np.float32], method: str
) -> None:
    low, high = ranges(values, method)
    assert min(values.min(), 0) <= low <= high <= max(values.max(), 0)


def test_max_min_is_exact() -> None:
    assert ranges(NORMAL, "MAX_MIN") == (NORMAL.min(), NORMAL.max())


@pytest.mark.parametrize("method", METHODS)
def test_behind_a_relu_no_level_is_wasted_on_negative_values(method: str) -> None:
    low, high = ranges(RELU, method)
    assert low == 0
    assert high > 2


@pytest.mark.parametrize("method", METHODS)
def test_pictures_keep_their_range(method: str) -> None:
    low, high = ranges(PICTURE, method)
    assert low == pytest.approx(-1, abs=0.02)
    assert high == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("method", ["PERCENTILE", "REMOVAL_OUTLIER"])
def test_a_lonely_outlier_is_cut(method: str) -> None:
    values = np.append(NORMAL, np.float32(30.0))
    _, high = ranges(values, method)
    assert high < 8


@pytest.mark.parametrize("tail", [4.5, 6.0, 12.0, 30.0])
def test_kl_never_costs_more_error_than_the_full_range(tail: float) -> None:
    values = np.append(NORMAL, np.float32(tail))
    h = histogram(values)
    full = (float(values.min()), float(values.max()))
    assert quantization_error(h, ranges(values, "KL"), 8) <= quantization_error(h, full, 8)


def test_kl_cuts_a_long_thin_tail() -> None:
    values = np.random.default_rng(0).laplace(size=200_000).astype(np.float32)
    low, high = ranges(values, "KL")
    assert high - low < 0.97 * (values.max() - values.min())


@pytest.mark.parametrize("scale", [1.0, 0.3])
@pytest.mark.parametrize("shape", ["laplace", "normal", "logistic", "gumbel"])
def test_the_search_of_kl_finds_nearly_the_least_divergence(shape: str, scale: float) -> None:
    values = getattr(np.random.default_rng(0), shape)(scale=scale, size=100_000).astype(np.float32)
    counts = observers._magnitudes(observers._reaching_zero(histogram(values)))
    counts[0] = counts[1]

    def divergence(end: int) -> float:
        return observers._divergence(counts[:end], float(counts[end:].sum()))

    least = min(divergence(end) for end in range(observers.KL_LEVELS, len(counts) + 1, 4))
    assert divergence(int(observers._kl_threshold(counts))) < least + 1e-3


@pytest.mark.parametrize("bits", [4, 8])
def test_mse_is_no_worse_than_any_other_method(bits: int) -> None:
    values = np.append(NORMAL, np.float32(12.0))
    h = histogram(values)
    best = quantization_error(h, ranges(values, "MSE", bits), bits)
    assert best <= quantization_error(h, (float(values.min()), float(values.max())), bits)
    assert best <= quantization_error(h, ranges(values, "PERCENTILE", bits), bits) * 1.05


def test_the_quantization_error_of_a_histogram_is_that_of_the_values() -> None:
    for low, high in ((-4.0, 4.0), (-1.0, 2.0)):
        step = (high - low) / 255
        quantized = np.clip(np.rint(NORMAL / step) * step, low, high)
        expected = np.mean((quantized.astype(np.float64) - NORMAL) ** 2)
        assert quantization_error(histogram(NORMAL), (low, high), 8) == pytest.approx(expected, rel=0.1)
    assert quantization_error(histogram(NORMAL), (0.0, 0.0), 8) == pytest.approx(
        np.mean(NORMAL.astype(np.float64) ** 2), rel=0.01
    )


def test_removal_outlier_averages_positions_over_samples_and_leaves_small_tensors_alone() -> None:
    stats = TensorStatistics()
    for shift in (0.0, 1.0):
        stats.add(observe(NORMAL + np.float32(shift)))
    ordered = np.sort(NORMAL)
    low, high = METHODS["REMOVAL_OUTLIER"][1](stats, 8)
    assert low == pytest.approx(float(ordered[2]) + 0.5, abs=1e-6)
    assert high == pytest.approx(float(ordered[19998]) + 0.5, abs=1e-6)
    small = observe(NORMAL[:100])
    assert METHODS["REMOVAL_OUTLIER"][1](small, 8) == (small.rmin, small.rmax)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 1e-30, 7.5, -7.5, 1e30])
def test_values_that_are_all_equal_have_a_range_without_much_memory(method: str, value: float) -> None:
    low, high = ranges(np.full(1000, value, np.float32), method)
    assert min(value, 0) * 1.001 <= low <= high <= max(value, 0) * 1.001


@pytest.mark.parametrize("method", [name for name, (need, _) in METHODS.items() if Need.HISTOGRAM in need])
def test_a_method_without_its_statistics_says_so(method: str) -> None:
    with pytest.raises(CalibrationError, match="distribution"):
        METHODS[method][1](TensorStatistics(1, 0.0, 1.0), 8)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_statistics_that_are_not_finite_are_refused_by_name(bad: float) -> None:
    stats = CalibrationStats()
    for part in (TensorStatistics(1, bad, 1.0), TensorStatistics(1, 0.0, bad)):
        with pytest.raises(CalibrationError, match="tensor conv_1"):
            stats.add("conv_1", part)


def test_a_tensor_that_no_sample_reached_is_named() -> None:
    with pytest.raises(CalibrationError, match="tensor conv_1: no calibration sample"):
        CalibrationStats()["conv_1"]
