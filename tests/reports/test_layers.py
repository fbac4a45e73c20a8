"""Errors of layers, alone and accumulated, their sizes and their share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.reports import observation
from converter_lite.reports.figures import LayerFigures, ModelFigures, RankedBy
from converter_lite.reports.layers import describe
from converter_lite.reports.spread import BINS, OBSERVED_VALUES
from converter_lite.runtime.context import RunContext
from tests.reports.models import CONV_RELU, SAMPLE, activation, conv_relu, plan, weight
from tests.reports.pages import chain, measured
from tests.support import Samples, build, clone, full, normal, random_feed, run, samples_of, written

ONE = Samples([SAMPLE])


def layer(figures: ModelFigures, name: str) -> LayerFigures:
    return next(item for item in figures.layers if item.name == name)


def decibels(expected: np.ndarray, given: np.ndarray) -> float:
    noise = expected.astype(np.float64) - given
    return float(10 * np.log10(np.sum(expected.astype(np.float64) ** 2) / np.sum(noise**2)))


def two_layers() -> QuantizedModel:
    """``y = relu(x) @ w`` in integers; the first grid is so coarse that little is left of its result."""
    model = build(
        "g (float[4,3] x) => (float[4,2] y) { [relu] r = Relu(x) [product] y = MatMul(r, w) }", w=normal(3, 2)
    )
    made = plan(model, relu=NodeMode.INTEGER, product=NodeMode.INTEGER)
    made.activations = {"x": activation(1.0, 128), "r": activation(0.02), "y": activation(0.05, 128)}
    made.weights = {"w": weight([0.02, 0.02], axis=1)}
    return QuantizedModel(model, made)


def test_the_first_layer_is_as_wrong_alone_as_accumulated() -> None:
    quantized = conv_relu()
    found = layer(measured(quantized, quantized.model, ONE), "conv")
    expected = np.array([0, 0, 0.6, 2, 0.5, 0, 0, 0], np.float32)
    assert found.local is not None
    assert found.local == found.accumulated
    assert found.local.sqnr == pytest.approx(decibels(expected, np.array([0, 0, 0.5, 2, 0.5, 0, 0, 0])), rel=1e-5)
    assert found.local.max_error == pytest.approx(0.1, rel=1e-5)


def test_a_layer_behind_a_bad_one_is_good_alone_and_bad_accumulated() -> None:
    quantized = two_layers()
    feed = {"x": np.abs(normal(4, 3))}
    figures = measured(quantized, quantized.model, Samples([feed]))
    good = layer(figures, "product")
    assert good.local is not None
    assert good.accumulated is not None
    grid, stored = quantized.plan.activations, quantized.plan.weights["w"]
    product = grid["r"].fake_quantize(feed["x"]) @ stored.fake_quantize(normal(3, 2))
    expected = feed["x"] @ normal(3, 2)
    assert good.local.sqnr == pytest.approx(decibels(expected, grid["y"].fake_quantize(product)), abs=0.2)
    assert good.local.sqnr > good.accumulated.sqnr + 10
    bad = layer(figures, "relu")
    assert bad.local is not None
    assert bad.local.sqnr < 20


@pytest.mark.parametrize("mode", [NodeMode.WEIGHT, NodeMode.DYNAMIC])
def test_weight_only_and_dynamic_layers_have_errors_of_their_own(mode: NodeMode) -> None:
    text = "g (float[4,3] x) => (float[4,3] y) { [first] a = MatMul(x, w) [second] y = MatMul(a, v) }"
    model = build(text, w=normal(3, 3), v=normal(3, 3, seed=4))
    made = plan(model, first=mode, second=mode)
    made.weights = {"w": weight([0.1] * 3, axis=1), "v": weight([0.02] * 3, axis=1)}
    figures = measured(QuantizedModel(model, made), model, samples_of(model, 2))
    first, second = layer(figures, "first"), layer(figures, "second")
    assert first.local == first.accumulated
    assert second.local is not None
    assert second.accumulated is not None
    assert second.local.sqnr > second.accumulated.sqnr + 3


def test_errors_of_stored_weights_are_those_from_the_network_before_bias_correction() -> None:
    """Corrected biases would be counted as errors of the layers in which they make up for others."""
    text = """g (float[4,16] x) => (float[4,8] y) {
        a = MatMul(x, w1) b = Relu(a) [last] y = Gemm(b, w2, b2) }"""
    model = build(text, w1=normal(16, 64), w2=np.abs(normal(64, 8, seed=2)), b2=normal(8))
    samples, settings = samples_of(model, 8), WeightSettings(bits=4, min_channel=0, min_size=0)
    quantized = quantize_weights(clone(model), settings, target="CPU", samples=samples, context=RunContext())
    assert not np.array_equal(run(quantized.model, samples[0])["y"], run(model, samples[0])["y"])
    found = layer(measured(quantized, model, samples), "last").accumulated
    both = [np.concatenate([run(each, feed)["y"] for feed in samples]) for each in (model, written(quantized))]
    assert found is not None
    assert found.sqnr == pytest.approx(decibels(*both), abs=0.01)


def test_all_layers_of_a_chain_are_measured_and_the_last_accumulated_error_is_that_of_the_network() -> None:
    model = chain(4)
    samples = samples_of(model, 3)
    quantized = full(model, samples=samples)
    figures = measured(quantized, model, samples)
    convolutions = [item for item in figures.layers if item.op_type == "Conv"]
    assert all(item.local is not None and item.accumulated is not None for item in convolutions)
    assert all(item.local is None for item in figures.layers if item.op_type in ("Relu", "Softmax"))
    assert (figures.samples, figures.is_real) == (3, True)
    last = layer(figures, "conv_3").accumulated
    assert last is not None
    before = observation.observable(model, ["c3"])
    after = observation.observable(written(quantized), ["c3"])
    cosines = []
    for feed in samples:
        x, y = run(before, feed)["c3"].reshape(-1).astype(np.float64), run(after, feed)["c3"].reshape(-1)
        cosines.append(float(x @ y / np.linalg.norm(x) / np.linalg.norm(y)))
    assert last.cosine == pytest.approx(float(np.mean(cosines)), abs=1e-3)


def test_layers_in_float_keep_their_reason_and_have_no_error() -> None:
    model = chain(2)
    found = layer(measured(full(model), model, samples_of(model)), "softmax")
    assert (found.mode, found.local, found.accumulated, found.share) == ("float", None, None, None)
    assert found.reason


def test_bytes_are_those_of_the_constants_before_and_as_planned() -> None:
    text = CONV_RELU.replace("(x, w)", "(x, w, b)")
    weights = np.array([1.0, -0.5], np.float32).reshape(2, 1, 1, 1)
    model = build(text, w=weights, b=np.zeros(2, np.float32))
    quantized = QuantizedModel(model, conv_relu().plan)
    quantized.plan.weights["w"] = weight([0.5, 0.25], bits=4)
    found = layer(describe(quantized, model), "conv")
    assert (found.bytes_before, found.bytes_after, found.bits) == (8 + 8, 1 + 8, 4)


def test_a_constant_that_two_nodes_read_is_counted_once() -> None:
    text = "g (float[2,3] x) => (float[2,3] y) { [first] a = MatMul(x, w) [second] y = MatMul(a, w) }"
    model = build(text, w=normal(3, 3))
    made = plan(model, first=NodeMode.WEIGHT, second=NodeMode.WEIGHT)
    made.weights = {"w": weight([0.02] * 3, axis=1)}
    sizes = [(item.bytes_before, item.bytes_after) for item in describe(QuantizedModel(model, made), model).layers]
    assert sizes == [(36, 9), (0, 0)]


def test_tensors_show_extremes_range_clipping_and_their_values_in_bins() -> None:
    quantized = conv_relu()
    quantized.plan.activations["x"] = activation(0.01, 0)  # holds 0 to 2.55, and the sample has -1
    tensors = measured(quantized, quantized.model, ONE).tensors
    x = tensors["x"]
    assert x.grid is not None
    assert (x.minimum, x.maximum, x.shape) == (-1.0, 2.0, (1, 1, 2, 2))
    assert (x.grid.low, round(x.grid.high, 6), x.grid.bits, x.grid.scales) == (0.0, 2.55, 8, 1)
    assert x.clipped == 0.25
    assert x.bins is not None
    assert sum(x.bins.origin) == sum(x.bins.quantized) == 4
    assert len(x.bins.origin) <= BINS
    places = [(x.bins.first + i) * x.bins.width for i, count in enumerate(x.bins.origin) if count]
    assert places == pytest.approx([-1, 0, 0.6, 2], abs=x.bins.width)
    assert tensors["w"].is_weight
    assert tensors["w"].grid is not None
    assert tensors["w"].grid.scales == 2


def test_histograms_of_large_tensors_are_made_of_a_part_of_their_values() -> None:
    model = build("g (float[1,2,200,200] x) => (float[1,2,200,200] y) { [relu] y = Relu(x) }")
    made = plan(model, relu=NodeMode.INTEGER)
    made.activations = {"x": activation(0.05, 128), "y": activation(0.05)}
    bins = measured(QuantizedModel(model, made), model, Samples([random_feed(model)])).tensors["x"].bins
    assert bins is not None
    assert OBSERVED_VALUES / 2 < sum(bins.origin) < 2 * OBSERVED_VALUES < 80_000


def test_values_that_are_not_finite_are_left_out() -> None:
    model = build("g (float[4] x) => (float[4] y) { [relu] y = Relu(x) }")
    made = plan(model, relu=NodeMode.INTEGER)
    made.activations = {"x": activation(0.5, 4), "y": activation(0.5)}
    feed = {"x": np.array([1.0, -np.inf, 2.0, np.nan], np.float32)}
    x = measured(QuantizedModel(model, made), model, Samples([feed])).tensors["x"]
    assert (x.minimum, x.maximum) == (1.0, 2.0)


def test_without_a_fallback_layers_are_ranked_by_the_noise_that_they_add_alone() -> None:
    quantized = two_layers()
    figures = measured(quantized, quantized.model, Samples([{"x": np.abs(normal(4, 3))}]))
    assert figures.ranked_by is RankedBy.LOCAL
    assert [item.name for item in figures.ranking()] == ["product"]  # a Relu loses nothing but what its grids do
    assert sum(item.share or 0.0 for item in figures.layers) == pytest.approx(1.0)


def test_shares_that_a_fallback_measured_are_the_ranking() -> None:
    quantized = replace(two_layers(), sensitivity={"product": 0.2, "relu": 0.7})
    figures = measured(quantized, quantized.model, Samples([{"x": normal(4, 3)}]))
    assert figures.ranked_by is RankedBy.FALLBACK
    assert [item.name for item in figures.ranking()] == ["relu", "product"]


def test_figures_do_not_depend_on_threads_or_on_how_tensors_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    model = chain(3)
    samples = samples_of(model, 2)
    quantized = full(model, samples=samples)
    one = measured(quantized, model, samples, threads=1)
    many = measured(quantized, model, samples, threads=4)
    monkeypatch.setattr(observation, "GROUP_BYTES", 1)
    groups = measured(quantized, model, samples)
    assert one.to_json() == many.to_json() == groups.to_json()


def test_the_quantized_model_is_left_as_it_is() -> None:
    quantized = conv_relu()
    before = ir.to_proto(clone(quantized.model)).SerializeToString(deterministic=True)
    measured(quantized, quantized.model, ONE)
    assert ir.to_proto(quantized.model).SerializeToString(deterministic=True) == before


def test_json_has_no_number_that_json_lacks() -> None:
    quantized = conv_relu()
    data = measured(quantized, quantized.model, Samples([{"x": SAMPLE["x"] * 0}])).to_json()
    assert data["layers"][0]["local"] == {"cosine": 1.0, "sqnr": None, "max_error": 0.0}


@pytest.mark.parametrize("target", ["CPU", "ARM", "DSP"])
def test_what_needs_no_run_is_the_same_with_and_without_one(target: str) -> None:
    text = (
        "g (float[1,3,6,6] x) => (float[1,4,6,6] y, float[1,3,6,6] z) { [first] c = Conv <kernel_shape = [1, 1]> (x, w)"
    )
    text += " [relu] r = Relu(c) [add] a = Add(r, c) [last] y = Clip(a) [own] z = Sigmoid(x) }"
    model = build(text, w=normal(4, 3, 1, 1))
    samples = samples_of(model)
    quantized = full(model, target, samples=samples)
    static, run = describe(quantized, model), measured(quantized, model, samples)
    assert [(item.inputs, item.outputs) for item in static.layers] == [(i.inputs, i.outputs) for i in run.layers]
    assert {name: t.grid for name, t in static.tensors.items()} == {name: t.grid for name, t in run.tensors.items()}


def test_branches_that_read_tensors_of_the_main_graph_do_not_disturb_the_cut() -> None:
    text = "g (float[1,3,6,6] x, bool[1] flag) => (float[1,4,6,6] y) { [first] c = Conv <kernel_shape = [1, 1]> (x, w)"
    text += " [relu] r = Relu(c) [choice] y = If (flag) <then_branch = t () => (float[1,4,6,6] a) { a = Neg(r) },"
    text += " else_branch = e () => (float[1,4,6,6] b) { b = Identity(r) }> }"
    model = build(text, w=normal(4, 3, 1, 1))
    samples = Samples({"x": normal(1, 3, 6, 6, seed=seed), "flag": np.array([True])} for seed in range(2))
    figures = measured(full(model, samples=samples), model, samples)
    conv = layer(figures, "first")
    assert conv.local is not None
    assert conv.local.sqnr > 30
    assert layer(figures, "choice").mode == "float"


def test_weights_in_branches_count_for_the_node_that_runs_them_and_are_shown() -> None:
    text = """g (float[1,8] x, bool[1] flag) => (float[1,4] y) {
        [choice] y = If (flag) <then_branch = t () => (float[1,4] a) { [one] a = MatMul(x, w1) },
                                else_branch = e () => (float[1,4] b) { [two] b = MatMul(x, w2) }> }"""
    model = build(text, w1=normal(8, 4), w2=normal(8, 4, seed=1))
    settings = WeightSettings(min_channel=0, min_size=0, bias_correction=False)
    quantized = quantize_weights(clone(model), settings, target="CPU", context=RunContext())
    figures = measured(quantized, model, Samples([{"x": normal(1, 8), "flag": np.array([True])}]))
    choice = layer(figures, "choice")
    assert (choice.bytes_before, choice.bytes_after, choice.mode) == (2 * 8 * 4 * 4, 2 * 8 * 4, "float")
    assert [(name, tensor.errors is not None) for name, tensor in figures.tensors.items()] == [
        ("w1", True),
        ("w2", True),
    ]
