from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.calibration import runner
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.runner import channel_magnitudes, collect, sample_means
from converter_lite.calibration.statistics import CalibrationStats, Need
from converter_lite.errors import CalibrationError, ModelError
from converter_lite.kernels.histogram import histogram
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, normal, random_feed, run, samples_of

EVERYTHING = Need.MINMAX | Need.OUTLIER | Need.HISTOGRAM


def net(opset: int = 13) -> ir.Model:
    return build(
        "g (float[1,3,40,40] x) => (float[1,8,38,38] y) { a = Conv(x, w, b) y = Relu(a) }",
        opset=opset,
        w=normal(8, 3, 3, 3),
        b=normal(8),
    )


def statistics(model: ir.Model, samples: Samples, need: Need = EVERYTHING, threads: int = 2) -> CalibrationStats:
    return collect(model, ["x", "a", "y"], need, samples, CalibrationContext(threads=threads))


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_statistics_are_those_of_the_tensors(opset: int) -> None:
    model = net(opset)
    samples = samples_of(model, 3)
    stats = statistics(model, samples)
    arrays = [{"x": feed["x"], "y": run(model, feed)["y"]} for feed in samples]
    for name in ("x", "y"):
        found = stats[name]
        assert found.samples == 3
        assert found.rmin == pytest.approx(min(a[name].min() for a in arrays), rel=1e-6)
        assert found.rmax == pytest.approx(max(a[name].max() for a in arrays), rel=1e-6)
        whole = histogram(np.concatenate([a[name].reshape(-1) for a in arrays]))
        assert found.histogram is not None
        assert (found.histogram.exponent, found.histogram.first) == (whole.exponent, whole.first)
        assert found.histogram.total == whole.total
        assert np.abs(found.histogram.counts - whole.counts).sum() <= (0 if name == "x" else 100)
        ordered = [np.sort(a[name].reshape(-1)) for a in arrays]
        size = len(ordered[0])
        assert found.outliers == int(size * 0.0001)
        assert found.low_sum == pytest.approx(sum(float(o[int(size * 0.0001)]) for o in ordered))
        assert found.high_sum == pytest.approx(sum(float(o[min(int(size * 0.9999), size - 1)]) for o in ordered))


@pytest.mark.parametrize("name", ["min_0", "max_0", "sum_1", "low_0", "high_1", "values_2"])
def test_tensors_may_have_names_like_statistics(name: str) -> None:
    model = build(f"g (float[1,3,8] x) => (float[1,3,8] y) {{ {name} = Neg(x) y = Relu({name}) }}")
    stats = collect(model, ["x", name, "y"], EVERYTHING, samples_of(model, 2), CalibrationContext(threads=1))
    assert stats[name].rmin == -stats["x"].rmax


def test_a_sample_that_is_not_finite_is_told_by_its_number() -> None:
    model = net()
    feeds = list(samples_of(model, 3))
    feeds[1]["x"][0, 0, 0, 0] = np.inf
    with pytest.raises(CalibrationError, match=r"tensor x, sample 2: .* NaN or infinite"):
        statistics(model, Samples(feeds))


@pytest.mark.parametrize("need", [Need.MINMAX, EVERYTHING])
def test_statistics_do_not_depend_on_order_and_threads(need: Need) -> None:
    model = net()
    samples = samples_of(model, 6)
    first = statistics(model, samples, need, threads=1)
    second = statistics(model, Samples(reversed(samples)), need, threads=4)
    for name in ("x", "a", "y"):
        a, b = first[name], second[name]
        assert (a.samples, a.rmin, a.rmax, a.outliers) == (b.samples, b.rmin, b.rmax, b.outliers)
        assert a.low_sum == pytest.approx(b.low_sum, rel=1e-12)
        if a.histogram is not None and b.histogram is not None:
            np.testing.assert_array_equal(a.histogram.counts, b.histogram.counts)
        assert (a.histogram is None) == (Need.HISTOGRAM not in need)


def test_groups_of_tensors_give_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    samples = samples_of(model, 2)
    whole = statistics(model, samples)
    monkeypatch.setattr(runner, "GROUP", 1)
    for name, stats in statistics(model, samples).tensors.items():
        assert (stats.rmin, stats.rmax, stats.low_sum) == (whole[name].rmin, whole[name].rmax, whole[name].low_sum)


def test_a_large_tensor_is_represented_by_an_even_subset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "OBSERVED_VALUES", 500)
    model = net()
    samples = samples_of(model, 1)
    found = statistics(model, samples)["x"]
    assert found.histogram is not None
    assert found.histogram.total == len(samples[0]["x"].reshape(-1)[::9])  # 4800 values, every 9th
    assert found.rmax == samples[0]["x"].max()


def test_the_float_model_is_not_changed() -> None:
    model = net()
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    statistics(model, samples_of(model, 1))
    sample_means(model, ["a"], samples_of(model, 1), RunContext())
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before


def test_a_sample_of_the_wrong_shape_is_an_error_of_the_model() -> None:
    model = net()
    with pytest.raises(ModelError, match="could not run"):
        statistics(model, Samples([{"x": np.zeros((1, 2, 40, 40), np.float32)}]))


@pytest.mark.parametrize("opset", [13, 18])
def test_means_of_samples_are_over_everything_but_the_channel(opset: int) -> None:
    model = build(
        """g (float[2,3,6,6] x) => (float[2,5] y, float[2,4,4,4] a) {
            a = Conv(x, w) p = GlobalAveragePool(a) f = Flatten(p) y = Gemm(f, v) }""",
        opset=opset,
        w=normal(4, 3, 3, 3),
        v=normal(4, 5),
    )
    samples = samples_of(model, 3)
    convolution, product = sample_means(model, ["a", "y"], samples, RunContext(threads=2))
    outputs = [run(model, feed) for feed in samples]
    np.testing.assert_allclose(convolution, [o["a"].mean(axis=(0, 2, 3)) for o in outputs], atol=1e-6)
    np.testing.assert_allclose(product, [o["y"].mean(axis=0) for o in outputs], atol=1e-5)


def test_unused_samples_of_other_inputs_do_no_harm() -> None:
    model = net()
    feed = {**random_feed(model), "extra": np.zeros(3, np.float32)}
    assert statistics(model, Samples([feed]))["x"].samples == 1


def test_largest_magnitudes_are_those_of_both_signs() -> None:
    model, samples = net(), samples_of(net(), 3)
    found = channel_magnitudes(model, ["a", "y"], samples, RunContext(threads=2), samples=3)
    outputs = np.stack([run(model, feed)["y"] for feed in samples])
    np.testing.assert_allclose(found["y"], outputs.max(axis=(1, 3, 4)), rtol=1e-6)
    assert np.all(found["a"] >= found["y"]) and np.any(found["a"] > found["y"])


def test_ranges_of_clamped_pictures_are_found_by_pools() -> None:
    model = build("g (float[2,3,12,12] x) => (float[2,8,10,10] y) { a = Conv(x, w) y = Relu(a) }", w=normal(8, 3, 3, 3))
    samples = samples_of(model, 3)
    found = collect(model, ["a", "y"], Need.MINMAX, samples, CalibrationContext())["y"]
    largest = max(run(model, feed)["y"].max() for feed in samples)
    assert (found.rmin, found.rmax) == (0.0, pytest.approx(largest, rel=1e-6))


def test_values_that_are_not_finite_are_found_in_clamped_pictures() -> None:
    model = build("g (float[1,3,12,12] x) => (float[1,3,12,12] y) { y = Relu(x) }")
    for bad in (np.nan, np.inf):
        samples = samples_of(model, 2)
        samples[1]["x"][0, 1, 2, 3] = bad
        with pytest.raises(CalibrationError, match=r"tensor y, sample 2: .* NaN or infinite"):
            collect(model, ["y"], Need.MINMAX, samples, CalibrationContext())


def test_names_of_the_model_are_left_to_it() -> None:
    """PaddlePaddle's converter to ONNX calls results after their nodes."""
    text = "g (float[2,3,4,4] x) => (float[2,3,4,4] y) {{ {0}_0 = Neg(x) {0}_1 = Exp({0}_0) y = Sigmoid({0}_1) }}"
    model = build(text.format("ReduceMean"))
    (means,) = sample_means(model, ["ReduceMean_1"], samples_of(model, 2), RunContext())
    assert means.shape == (2, 3)
    model = build(text.format("ReduceMax"))
    found = channel_magnitudes(model, ["ReduceMax_0", "y"], samples_of(model, 2), RunContext(), samples=2)
    assert found["y"].shape == (2, 3)
