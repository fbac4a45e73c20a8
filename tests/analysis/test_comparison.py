"""Comparing two models layer by layer."""

from __future__ import annotations

import math
import re

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.analysis.channel_map import ChannelMapSums
from converter_lite.analysis.comparison import Comparison, compare_models
from converter_lite.analysis.comparison_report import csv_text, summary, table, to_json
from converter_lite.analysis.isolation import Scaled
from converter_lite.analysis.taps import Tap
from converter_lite.analysis.tensor_errors import TensorErrorSums
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.runtime.context import RunContext
from tests.analysis.networks import LAYERS, broken, network, quantized_network, reordered_network
from tests.support import build, clone, normal, samples_of


def compare(reference: ir.Model, quantized: ir.Model, threads: int = 1) -> Comparison:
    feeds = samples_of(reference, 3)
    return compare_models(reference, quantized, feeds, context=RunContext(threads=threads))


def renamed(model: ir.Model) -> ir.Model:
    """A copy whose inner tensors have names that say nothing."""
    copy = clone(model)
    outputs = {value.name for value in copy.graph.outputs}
    for index, node in enumerate(copy.graph):
        node.name = f"n{index}"
        for output in node.outputs:
            if output.name not in outputs:
                output.name = f"t{index}"
    return copy


def test_every_layer_is_found_by_name_and_close() -> None:
    result = compare(network(), quantized_network())
    assert [error.layer.tensor for error in result.layers] == LAYERS
    assert result.by_name == len(LAYERS)
    assert result.alignment.unmatched == []
    assert result.alignment.unmatched_quantized == 0
    assert all(error.accumulated.sqnr > 25 for error in result.layers)
    assert all(error.local is not None and error.local.sqnr > 25 for error in result.layers)
    assert result.first_broken is None


def test_a_layer_is_called_after_its_weights_and_names_all_its_nodes() -> None:
    first = compare(network(), quantized_network()).layers[0]
    assert first.layer.op_type == "Conv"
    assert [name.split("_")[0] for name in first.layer.nodes] == ["Conv", "Relu"]


def test_layers_are_found_by_position_where_names_say_nothing() -> None:
    named, nameless = (compare(network(), model) for model in (quantized_network(), renamed(quantized_network())))
    assert nameless.by_name == 1  # the output
    found = {error.layer.tensor: error for error in nameless.layers}
    assert set(found) >= {"r1", "r2", "pooled", "y"}
    for error in named.layers:
        if error.layer.tensor in found:
            assert found[error.layer.tensor].accumulated == error.accumulated


def test_the_broken_layer_is_the_first_that_breaks_and_the_worst() -> None:
    result = compare(network(), broken(quantized_network(), "w2"))
    assert result.first_broken is not None
    assert result.first_broken.layer.tensor == "r2"
    assert result.worst_first[0].layer.tensor == "r2"
    behind = result.layers[2]
    assert behind.local is not None
    assert behind.local.sqnr > 25  # alone it is right: only what it reads is wrong
    assert behind.accumulated.sqnr < 10


def test_what_is_not_finite_is_fed_as_integers_all_the_same() -> None:
    params = QuantParams(np.float32(0.5), np.int32(3), QuantSpec(8, signed=False))
    fed = Scaled(Tap("a", "a", params)).to_quantized(np.array([np.nan, np.inf, -np.inf, 2.0], np.float32))
    assert (fed.dtype, fed.tolist()) == (np.uint8, [3, 255, 0, 7])


def test_factors_of_an_equalization_are_undone() -> None:
    reference = network()
    scaled = clone(reference)
    factors = np.geomspace(0.25, 4.0, 8).astype(np.float32)
    constants = scaled.graph.initializers
    for name, factor in (("w1", factors.reshape(8, 1, 1, 1)), ("b1", factors), ("w2", 1 / factors.reshape(1, 8, 1, 1))):
        value = constants[name]
        assert value.const_value is not None
        value.const_value = ir.Tensor(value.const_value.numpy() * factor, name=name)
    result = compare(reference, scaled)
    assert result.equalized == 1  # the convolution with its Relu
    assert all(error.accumulated.sqnr > 80 for error in result.layers)
    assert all(error.local is not None and error.local.sqnr > 80 for error in result.layers)


def factors_of(expected: np.ndarray, given: np.ndarray) -> np.ndarray | None:
    sums = ChannelMapSums()
    sums.add(expected, given)
    held = sums.result()
    assert held is None or held.order is None
    return None if held is None else held.factors


def test_one_factor_for_a_whole_tensor_is_an_error() -> None:
    values = normal(1, 4, 10, 10)
    assert factors_of(values, 1.5 * values) is None


def test_noise_and_few_numbers_show_no_factors() -> None:
    values = normal(1, 4, 10, 10)
    assert factors_of(values, values + 0.3 * normal(1, 4, 10, 10, seed=2)) is None
    assert factors_of(values[:, :, :2, :1], values[:, :, :2, :1] * np.arange(1, 5).reshape(1, 4, 1, 1)) is None


def test_a_factor_per_channel_is_found_behind_noise() -> None:
    values, factors = normal(1, 4, 10, 10), np.array([0.5, 1.0, 2.0, 4.0])
    noise = 0.01 * normal(1, 4, 10, 10, seed=2)
    found = factors_of(values, (values + noise) * factors.reshape(1, 4, 1, 1))
    np.testing.assert_allclose(found, factors, rtol=0.01)


def test_channels_in_another_order_are_put_back() -> None:
    reference, quantized = reordered_network()
    result, same = compare(reference, quantized), compare(network(), quantized_network())
    assert [error.layer.tensor for error in result.layers] == LAYERS
    assert result.reordered == len(LAYERS) - 1
    assert result.equalized == 0
    for error, other in zip(result.layers, same.layers, strict=True):
        assert error.accumulated.sqnr == pytest.approx(other.accumulated.sqnr, abs=3)
        assert error.local is not None and other.local is not None
        assert error.local.sqnr == pytest.approx(other.local.sqnr, abs=3)
    assert any("another order" in line for line in summary(result))
    assert any("reordered" in line for line in table(result, worst_first=False))
    assert [layer["reordered"] for layer in to_json(result)["layers"]] == [True, True, True, True, False]


def test_order_and_factors_are_found_together() -> None:
    reference, quantized = reordered_network(equalization=True)
    result = compare(reference, quantized)
    assert result.reordered == len(LAYERS) - 1
    assert all(error.accumulated.sqnr > 25 for error in result.layers)
    assert all(error.local is not None and error.local.sqnr > 25 for error in result.layers)


def test_a_broken_layer_is_the_worst_behind_another_order_too() -> None:
    reference, quantized = reordered_network()
    result = compare(reference, broken(quantized, "w2"))
    assert result.first_broken is not None
    assert result.first_broken.layer.tensor == "r2"
    assert result.layers[0].scaled.is_reordered
    assert not result.layers[1].scaled.is_reordered  # nothing tells the order of a tensor that is destroyed


def test_outputs_of_the_model_have_no_other_order() -> None:
    reference = network()
    wrong = clone(reference)
    for name in ("w3", "b3"):
        value = wrong.graph.initializers[name]
        assert value.const_value is not None
        value.const_value = ir.Tensor(value.const_value.numpy()[::-1].copy(), name=name)
    last = compare(reference, wrong).layers[-1]
    assert not last.scaled.is_reordered
    assert last.accumulated.cosine < 0.95


def test_results_do_not_depend_on_threads() -> None:
    first, second = (compare(network(), quantized_network(), threads) for threads in (1, 4))
    assert to_json(first) == to_json(second)


def test_values_that_are_not_finite_are_broken_and_null_in_json() -> None:
    model = network()
    value = model.graph.initializers["w1"]
    assert value.const_value is not None
    value.const_value = ir.Tensor(np.full_like(value.const_value.numpy(), math.nan), name="w1")
    result = compare(network(), model)
    assert result.first_broken is not None
    assert result.first_broken.order == 1
    assert to_json(result)["layers"][0]["accumulated"]["cosine"] is None
    assert ",nan," in csv_text(result).splitlines()[1]


def test_csv_has_every_layer_and_disarms_formulas() -> None:
    model = network()
    next(node for node in model.graph if node.outputs[0].name == "flat").outputs[0].name = "=flat"
    result = compare(model, clone(model))
    lines = csv_text(result).splitlines()
    assert len(lines) == 1 + len(result.layers)
    assert any(line.split(",")[1] == "'=flat" for line in lines)
    assert all(len(line.split(",")) == 15 for line in lines)


@pytest.mark.parametrize(("worst_first", "first"), [(False, "r1"), (True, "r2")])
def test_the_table_has_the_asked_order(worst_first: bool, first: str) -> None:
    result = compare(network(), broken(quantized_network(), "w2"))
    rows = list(table(result, worst_first=worst_first, shown=2))
    assert len(rows) == 3
    assert rows[1][0] == first
    assert any("first layer that breaks: r2" in line for line in summary(result))


def test_a_cosine_and_the_threshold_that_it_misses_are_different_numbers() -> None:
    result = compare(network(), quantized_network())
    cosine = next(error.accumulated.cosine for error in result.layers if error.accumulated.cosine < 1)
    result.threshold = cosine + 1e-9
    sentence = next(line for line in summary(result) if "first layer that breaks" in line)
    reached, threshold = map(float, re.findall(r"cosine (\S+) below (\S+)", sentence)[0])
    assert reached < threshold == pytest.approx(result.threshold, abs=1e-14)


def test_sizes_and_indices_are_no_layers() -> None:
    graph = "g (float[2,6] x) => (float[3,4] y) { s = Shape(x) r = Reshape(x, target) y = Mul(r, two) }"
    model = build(graph, target=np.array([3, 4]), two=np.array(2.0, np.float32))
    assert [error.layer.tensor for error in compare(model, clone(model)).layers] == ["r", "y"]


@pytest.mark.parametrize("spelled_out", [False, True])
def test_a_layer_that_keeps_its_name_with_a_folded_normalization_is_no_false_alarm(spelled_out: bool) -> None:
    weight, bias = normal(8, 3, 3, 3), normal(8)
    scale, shift = np.linspace(-4, 4, 8, dtype=np.float32), np.linspace(9, -9, 8, dtype=np.float32)
    column = (1, 8, 1, 1)
    normalization = "m = Mul(conv, s) n = Add(m, t)" if spelled_out else "n = BatchNormalization(conv, s, t, mean, var)"
    along = column if spelled_out else (8,)
    rest = {} if spelled_out else {"mean": np.zeros(8, np.float32), "var": np.full(8, 1 - 1e-5, np.float32)}
    head = "g (float[1,3,9,9] x) => (float[1,8,7,7] y)"
    reference = build(
        f"{head} {{ conv = Conv(x, w, b) {normalization} y = Tanh(n) }}",
        opset=17,
        w=weight,
        b=bias,
        s=scale.reshape(along),
        t=shift.reshape(along),
        **rest,
    )
    folded = build(
        f"{head} {{ conv = Conv(x, w, b) y = Tanh(conv) }}",
        opset=17,
        w=weight * scale.reshape(8, 1, 1, 1),
        b=bias * scale + shift,
    )
    result = compare_models(reference, folded, samples_of(reference, 2), context=RunContext(threads=1))
    assert [error.layer.tensor for error in result.layers] == ["n", "y"]
    assert result.first_broken is None


def test_a_normalization_that_is_kept_is_compared_behind_its_layer() -> None:
    model = build(
        "g (float[1,3,9,9] x) => (float[1,8,7,7] y) { conv = Conv(x, w) m = Mul(conv, s) y = Tanh(m) }",
        w=normal(8, 3, 3, 3),
        s=np.linspace(-4, 4, 8, dtype=np.float32).reshape(1, 8, 1, 1),
    )
    result = compare_models(model, renamed(clone(model)), samples_of(model, 2), context=RunContext(threads=1))
    assert result.first_broken is None
    same = compare_models(model, clone(model), samples_of(model, 2), context=RunContext(threads=1))
    assert [error.layer.tensor for error in same.layers] == ["conv", "m", "y"]


def test_an_output_that_finds_nothing_breaks_no_layer() -> None:
    quiet = build("g (float[1,4] x) => (float[1,4] y) { a = Add(x, b) y = Sigmoid(a) }", b=np.full(4, -16, np.float32))
    other = build(
        "g (float[1,4] x) => (float[1,4] y) { a = Add(x, b) y = Sigmoid(a) }", b=-17 - np.arange(4, dtype=np.float32)
    )
    result = compare(quiet, other)
    (found,) = (error.accumulated for error in result.layers if error.is_output)
    assert (found.cosine, found.empty) == (1, 3)
    assert "y: 3 samples without a cosine, because neither model finds anything" in list(summary(result))
    assert [layer["empty"] for layer in to_json(result)["layers"] if layer["is_output"]] == [3]


def test_values_that_a_relu_cuts_off_break_no_layer() -> None:
    text = """g (float[1,3,8,8] x) => (float[1,5] y) {
        c = Conv(x, w, b) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p) y = MatMul(f, v) }"""
    weight, bias, last = normal(8, 3, 3, 3) / 4, normal(8), normal(8, 5)
    bias[3] = -100.0
    wild = weight.copy(), bias.copy()
    for array in wild:
        array[3] *= 1e5
    plain, other = (build(text, w=w, b=b, v=last) for w, b in ((weight, bias), wild))
    result = compare(plain, other)
    assert result.layers[0].layer.tensor == "r"
    assert result.first_broken is None


def test_sequences_are_no_layers() -> None:
    model = build(
        "g (float[2,3] x) => (float[1,3] y, float[0,3] none) { m = MatMul(x, w) s = SplitToSequence(m) y = SequenceAt(s, one) "
        "none = Slice(y, one, one) }",
        w=normal(3, 3),
        one=np.array([1]),
    )
    assert [error.layer.tensor for error in compare(model, clone(model)).layers] == ["m", "y", "none"]


def test_a_tensor_without_channels_has_no_order() -> None:
    sums = ChannelMapSums()
    sums.add(np.zeros((2, 0), np.float32), np.zeros((2, 0), np.float32))
    assert sums.result() is None


def test_outputs_in_another_order_are_found_by_their_names() -> None:
    text = "g (float[1,8] x) => (float[1,6] y, float[1,6] z) { y = MatMul(x, v) z = MatMul(x, w) }"
    model = build(text, v=normal(8, 6, seed=1), w=normal(8, 6, seed=2))
    turned = clone(model)
    turned.graph.outputs[:] = list(turned.graph.outputs)[::-1]
    assert [error.accumulated.max_error for error in compare(model, turned).layers] == [0, 0]
    for value in turned.graph.outputs:  # other names: their places count
        value.name = f"other_{value.name}"
    assert all(error.accumulated.max_error > 1 for error in compare(model, turned).layers)


def test_an_output_of_another_shape_is_said_to_be_missed() -> None:
    model, other = (
        build(f"g (float[1,8] x) => (float[1,{n}] y) {{ y = MatMul(x, w) }}", w=normal(8, n)) for n in (6, 5)
    )
    result = compare(model, other)
    assert (result.layers, result.missed, to_json(result)["missed_outputs"]) == ([], ("y",), ["y"])
    assert list(summary(result))[-1] == "nothing could be compared"


def test_the_largest_value_is_that_of_the_float_model_where_the_other_is_not_finite() -> None:
    sums = TensorErrorSums()
    sums.add(np.array([1.0, -3.0]), np.array([np.nan, 0.0]))
    found = sums.result()
    assert found is not None
    assert (math.isnan(found.cosine), found.max_error, found.max_value) == (True, math.inf, 3.0)
