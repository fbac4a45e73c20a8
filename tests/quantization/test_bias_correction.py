from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.quantization.bias_correction import (
    COARSE_SAMPLES,
    CORRECTION_SAMPLES,
    FITTING_SAMPLES,
    LayerFit,
    correctable,
    fit_layers,
    mean_shift,
    samples_wanted,
)
from converter_lite.quantization.constants import BIAS_OPERATORS, ensure_biases
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.quantization.qdq.materialize import materialize
from converter_lite.quantization.sequential import SequentialRun
from converter_lite.runtime.context import RunContext
from converter_lite.targets.operands import bias_of
from tests.support import Samples, build, clone, full, normal, run, samples_of, written

HALF = 1e-3
"""Accuracy of means where float tensors are kept in half precision."""

CHAIN = """g (float[2,3,8,8] x) => (float[2,5] y) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a) c = Conv<group=6>(r, w2, b2) r2 = Clip(c, low, high)
    d = Conv(r2, w3, b3) p = GlobalAveragePool(d) f = Flatten(p) y = Gemm<transB=1>(f, w4, b4) }"""
BRANCHES = """g (float[2,3,8,8] x) => (float[2,6,8,8] y, float[2,6,8,8] s) {
    a = Conv<pads=[1,1,1,1]>(x, w1, b1) l = Conv(a, v1, b2) r = Conv<pads=[1,1,1,1]>(a, v2, b2) lr = Relu(l)
    s = Add(lr, r) k = Concat<axis=1>(s, a) q = Conv(k, v3, b4) y = Add(q, s) }"""
CONSTANTS = {
    "w1": normal(6, 3, 3, 3, seed=1),
    "b1": normal(6, seed=2),
    "b2": normal(6, seed=3),
}
NETS: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": (
        CHAIN,
        {
            **CONSTANTS,
            "w2": normal(6, 1, 3, 3, seed=4),
            "w3": normal(4, 6, 1, 1, seed=5),
            "b3": normal(4, seed=6),
            "w4": normal(5, 4, seed=7),
            "b4": normal(5, seed=8),
            "low": np.float32(0),
            "high": np.float32(6),
        },
    ),
    "branches": (
        BRANCHES,
        {
            **CONSTANTS,
            "v1": normal(6, 6, 1, 1, seed=4),
            "v2": normal(6, 6, 3, 3, seed=5) * 0.3,
            "v3": normal(6, 12, 1, 1, seed=6),
            "b4": normal(6, seed=8),
        },
    ),
}


def net(name: str) -> ir.Model:
    text, constants = NETS[name]
    return build(text, **constants)


def with_outputs(model: ir.Model, names: list[str]) -> ir.Model:
    """The model with these tensors as its only outputs."""
    model = model.clone()
    values = {value.name: value for node in model.graph for value in node.outputs}
    model.graph.outputs.clear()
    for name in names:
        values[name].dtype = ir.DataType.FLOAT
        model.graph.outputs.append(values[name])
    return model


def channel_mean(array: NDArray[np.float32]) -> NDArray[np.float64]:
    axes = tuple(i for i in range(array.ndim) if i != 1)
    return array.astype(np.float64).mean(axis=axes)


def reference_shifts(model: ir.Model, quantized: QuantizedModel, feeds: Samples) -> dict[str, NDArray[np.float64]]:
    """Layer by layer: run the whole float and the whole quantized graph, compare, add to the bias, start again."""
    shifts = {}
    for node in correctable(quantized):
        tensor = node.outputs[0].name or ""
        expected = np.mean([channel_mean(run(with_outputs(model, [tensor]), f)[tensor]) for f in feeds], axis=0)
        working = materialize(quantized)
        inner = next(n for n in working.graph if n.name == node.name).outputs[0]
        name = inner.name or ""
        given = np.mean([channel_mean(run(with_outputs(working, [name]), f)[name]) for f in feeds], axis=0)
        shifts[node.name or ""] = expected - given
        bias = bias_of(node)
        assert bias is not None
        array = g.constant(bias)
        assert array is not None
        bias.const_value = ir.Tensor((array + (expected - given)).astype(np.float32), name=bias.name)
    return shifts


@pytest.mark.parametrize("target", ["CPU", "DSP", "ASCEND", "ARM"])
@pytest.mark.parametrize("name", NETS)
def test_the_shifts_equal_those_of_the_plain_method(name: str, target: str) -> None:
    model = net(name)
    feeds = samples_of(model, CORRECTION_SAMPLES)
    slow, fast = full(model, target, samples=feeds), full(model, target, samples=feeds)
    expected = reference_shifts(model, slow, feeds)
    shifts = fit_layers(fast, feeds, LayerFit(), RunContext(threads=2))
    assert list(shifts) == list(expected)
    assert max(np.abs(shift).max() for shift in shifts.values()) > 1e-3
    for node, shift in expected.items():
        np.testing.assert_allclose(shifts[node], shift, atol=HALF)
    for a, b in zip(correctable(slow), correctable(fast), strict=True):
        np.testing.assert_allclose(g.constant(bias_of(b)), g.constant(bias_of(a)), atol=HALF)


@pytest.mark.parametrize("name", NETS)
def test_the_result_does_not_depend_on_the_number_of_threads(name: str) -> None:
    model = net(name)
    feeds = samples_of(model, 5)
    shifts = []
    for threads in (1, 3):
        quantized = full(model, samples=feeds)
        shifts.append(fit_layers(quantized, feeds, LayerFit(), RunContext(threads=threads)))
    for node, shift in shifts[0].items():
        np.testing.assert_array_equal(shifts[1][node], shift)


@pytest.mark.parametrize("name", NETS)
def test_corrected_outputs_keep_their_mean(name: str) -> None:
    model = net(name)
    feeds = samples_of(model, 6)

    def shift(quantized: QuantizedModel) -> float:
        result = written(quantized)
        return float(
            np.abs(np.mean([channel_mean(run(result, f)["y"] - run(model, f)["y"]) for f in feeds], axis=0)).mean()
        )

    assert shift(full(model, samples=feeds, bias_correction=True)) < 0.5 * shift(full(model, samples=feeds))


def test_a_device_that_takes_no_corrected_biases_keeps_its_own() -> None:
    model = net("chain")
    quantized = full(model, "NVGPU", bias_correction=True)
    for name in ("b1", "b2", "b3", "b4"):
        np.testing.assert_array_equal(g.constant(quantized.model.graph.initializers[name]), NETS["chain"][1][name])


def test_without_samples_or_layers_nothing_is_corrected() -> None:
    model = net("chain")
    quantized = full(model)
    assert fit_layers(quantized, [], LayerFit(), RunContext()) == {}
    plain = build("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }")
    assert fit_layers(full(plain), samples_of(plain), LayerFit(), RunContext()) == {}


@pytest.mark.parametrize("is_quantized", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_a_sequential_run_gives_what_the_whole_graph_gives(name: str, is_quantized: bool) -> None:
    model = net(name)
    feeds = samples_of(model, 3)
    graph = materialize(full(model, samples=feeds)) if is_quantized else model
    readers = [node for node in graph.graph if node.op_type in ("Conv", "Gemm", "Add", "Concat")][1:]
    values = [node.inputs[0] for node in readers if node.inputs[0] is not None]
    names = [value.name or "" for value in values]
    expected = [run(with_outputs(graph, list(dict.fromkeys(names))), feed) for feed in feeds]
    sequential = SequentialRun(graph, feeds, RunContext(threads=2))
    for i, value in enumerate(values):
        later = [reader.outputs[0] for reader in readers[i:]]
        given = list(sequential.map(value, lambda sample, array: (sample, array), later=later))
        assert [sample for sample, _ in given] == [0, 1, 2]
        for sample, array in given:
            whole = expected[sample][names[i]]
            tolerance = 1e-5 if is_quantized else 5 * HALF * float(np.abs(whole).max())
            np.testing.assert_allclose(array, whole, rtol=0, atol=tolerance)


@pytest.mark.parametrize("again", [0, 100])
def test_large_tensors_are_computed_again_with_the_same_result(again: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = net("chain")
    feeds = samples_of(model, 3)
    values = [node.outputs[0] for node in model.graph if node.op_type in ("Conv", "Gemm")]
    sequential = SequentialRun(model, feeds, RunContext())
    expected = [sequential.means(value, later=values[i + 1 :]) for i, value in enumerate(values)]
    monkeypatch.setattr("converter_lite.quantization.sequential.KEPT_BYTES", 0)
    monkeypatch.setattr("converter_lite.quantization.sequential.COMPUTED_AGAIN", again)
    frugal = SequentialRun(model, feeds, RunContext())
    held = []
    for i, value in enumerate(values):
        np.testing.assert_allclose(frugal.means(value, later=values[i + 1 :]), expected[i], rtol=2 * HALF, atol=1e-3)
        held.append(set(frugal._stored[0]) - {"x"})
    assert any(held) == (again == 0)
    assert frugal._stored == [{}, {}, {}]


def test_a_sequential_run_holds_only_what_is_still_needed_and_floats_in_half_precision() -> None:
    model = net("chain")
    feeds = samples_of(model, 2)
    for graph, kept in ((materialize(full(model, samples=feeds)), np.uint8), (model, np.float16)):
        values = [node.outputs[0] for node in graph.graph if node.op_type in ("Conv", "Gemm")]
        sequential = SequentialRun(graph, feeds, RunContext())
        for i, value in enumerate(values):
            sequential.means(value, later=values[i + 1 :])
            held = sequential._stored[0]
            assert len(held) <= 2
            assert {array.dtype for name, array in held.items() if name != "x"} <= {np.dtype(kept)}
        assert sequential._stored == [{}, {}]


def test_a_mapped_tensor_takes_the_place_of_what_it_was_computed_from_sample_by_sample() -> None:
    model = build("g (float[1,4] x) => (float[1,4] y) { a = Relu(x) b = Neg(a) y = Relu(b) }")
    feeds = samples_of(model, 3)
    relu, neg, last = model.graph
    sequential = SequentialRun(model, feeds, RunContext())
    list(sequential.map(relu.outputs[0], lambda *_: None, later=neg.outputs))
    assert [set(stored) for stored in sequential._stored] == [{"a"}] * 3
    results = sequential.map(neg.outputs[0], lambda *_: None, later=last.outputs)
    next(results)
    assert [set(stored) for stored in sequential._stored] == [{"b"}, {"a"}, {"a"}]


def test_what_does_not_fit_into_half_precision_is_kept_as_it_is() -> None:
    model = build("g (float[1,4] x) => (float[1,4] y) { a = Mul(x, big) b = Relu(a) y = Neg(b) }", big=np.float32(1e6))
    feeds = samples_of(model, 2)
    relu, neg = (node for node in model.graph if node.op_type in ("Relu", "Neg"))
    sequential = SequentialRun(model, feeds, RunContext())
    assert relu.inputs[0] is not None
    list(sequential.map(relu.inputs[0], lambda *_: None, later=neg.outputs))
    assert sequential._stored[0]["a"].dtype == np.float32
    for array, feed in zip(sequential.map(neg.outputs[0], lambda _, a: a, later=()), feeds, strict=True):
        np.testing.assert_allclose(array, run(model, feed)["y"])


def test_a_sample_that_does_not_fit_into_half_precision_leaves_the_others_there() -> None:
    model = build("g (float[1,4] x) => (float[1,4] y) { a = Mul(x, two) b = Relu(a) y = Neg(b) }", two=np.float32(2))
    feeds = [{"x": np.full((1, 4), size, np.float32)} for size in (1.0, 29_999.0, 40_000.0, 3.0)]
    relu, neg = (node for node in model.graph if node.op_type in ("Relu", "Neg"))
    sequential = SequentialRun(model, feeds, RunContext(threads=2))
    assert relu.inputs[0] is not None
    asked = list(sequential.map(relu.inputs[0], lambda _, array: float(array.max()), later=neg.outputs))
    assert asked == [2.0, 59_998.0, 80_000.0, 6.0]
    assert [stored["a"].dtype for stored in sequential._stored] == [np.float16, np.float16, np.float32, np.float16]
    given = list(sequential.map(neg.outputs[0], lambda _, array: float(array.min()), later=()))
    np.testing.assert_allclose(given, [-2.0, -59_998.0, -80_000.0, -6.0], rtol=HALF)


def test_a_mapped_value_sees_what_was_changed_before_it() -> None:
    model = net("chain")
    feeds = samples_of(model, 2)
    gemm = next(node for node in model.graph if node.op_type == "Gemm")
    sequential = SequentialRun(model, feeds, RunContext())
    assert gemm.inputs[0] is not None
    list(sequential.map(gemm.inputs[0], lambda *_: None, later=gemm.outputs))
    bias = model.graph.initializers["b4"]
    bias.const_value = ir.Tensor(np.full(5, 100, np.float32), name="b4")
    for array, feed in zip(sequential.map(gemm.outputs[0], lambda _, a: a, later=()), feeds, strict=True):
        np.testing.assert_allclose(array, run(model, feed)["y"], rtol=HALF)


def test_an_input_that_is_an_output_is_held_for_it() -> None:
    text = "g (float[2,8] x) => (float[2,4] y, float[2,8] x) { a = MatMul(x, w1) r = Relu(a) y = MatMul(r, w2) }"
    model = build(text, w1=normal(8, 8), w2=normal(8, 4))
    feeds = samples_of(model, 2)
    last = list(model.graph)[-1]
    sequential = SequentialRun(model, feeds, RunContext())
    sequential.hold(last, later=set(model.graph.outputs))
    outputs = sequential.behind(model)
    for sample, feed in enumerate(feeds):
        y, x = outputs(sample)
        np.testing.assert_allclose(y, run(model, feed)["y"], rtol=HALF, atol=HALF)
        np.testing.assert_array_equal(x, feed["x"])


@pytest.mark.parametrize("opset", [13, 17])
def test_a_normalization_of_a_value_in_half_precision_runs(opset: int) -> None:
    """onnxruntime makes one operator of it."""
    model = build(
        """g (float[2,4,8] x) => (float[2,4,8] y, float[2,4,8] z) {
            a = MatMul(x, w1) r = Relu(a) y = MatMul(r, w2)
            m = ReduceMean<axes=[-1]>(r) d = Sub(r, m) p = Pow(d, two) v = ReduceMean<axes=[-1]>(p) e = Add(v, least) s = Sqrt(e)
            q = Div(d, s) t = Mul(q, gain) n = Add(t, bias) z = MatMul(n, w3) }""",
        opset=opset,
        two=np.float32(2),
        least=np.float32(1e-5),
        gain=normal(8),
        bias=normal(8),
        **{f"w{i}": normal(8, 8, seed=i) for i in (1, 2, 3)},
    )
    feeds = samples_of(model, 2)
    y, z = model.graph.outputs
    sequential = SequentialRun(model, feeds, RunContext())
    sequential.means(y, later={z})
    assert sequential._stored[0]["r"].dtype == np.float16
    for array, feed in zip(sequential.map(z, lambda _, found: found, later=()), feeds, strict=True):
        np.testing.assert_allclose(array, run(model, feed)["z"], rtol=0.01, atol=0.01)


def test_a_sequential_mean_is_the_mean_per_channel() -> None:
    model = net("branches")
    feeds = samples_of(model, 2)
    value = next(node for node in model.graph if node.op_type == "Add").outputs[0]
    rows = SequentialRun(model, feeds, RunContext()).means(value, later=())
    for row, feed in zip(rows, feeds, strict=True):
        np.testing.assert_allclose(row, channel_mean(run(model, feed)["s"]), atol=1e-5)


def test_every_layer_gets_a_bias_of_its_own() -> None:
    model = build(
        """g (float[1,3,8,8] x) => (float[1,5,16] y) { a = Conv(x, w) t = ConvTranspose<group=2>(a, v) s = Reshape(t, shape)
            f = MatMul(s, m) y = Add(f, m2) }""",
        w=normal(4, 3, 3, 3),
        v=normal(4, 3, 1, 1),
        shape=np.array([1, 6, 36], np.int64),
        m=normal(36, 16),
        m2=normal(1),
    )
    feed = samples_of(model, 1)[0]
    before = run(clone(model), feed)["y"]
    ensure_biases(model, operators=BIAS_OPERATORS)
    assert {n.name: len(n.inputs) for n in model.graph if n.op_type in BIAS_OPERATORS} == {
        "Conv_0": 3,
        "ConvTranspose_1": 3,
    }
    assert model.graph.initializers["ConvTranspose_1_bias"].shape == [6]
    np.testing.assert_array_equal(run(model, feed)["y"], before)


def test_a_shared_bias_is_copied_once_per_reader_but_the_last() -> None:
    model = net("branches")
    ensure_biases(model, operators=BIAS_OPERATORS)
    biases = [bias_of(node) for node in model.graph if node.op_type == "Conv"]
    assert len({bias.name for bias in biases if bias is not None}) == len(biases)


@pytest.mark.parametrize(("size", "samples"), [(8, FITTING_SAMPLES), (240, 42), (300, CORRECTION_SAMPLES)])
def test_small_networks_are_corrected_on_more_samples(size: int, samples: int) -> None:
    model = build(f"g (float[1,64,{size},{size}] x) => (float[n,c,h,w] y) {{ y = Conv(x, w) }}", w=normal(64, 64, 1, 1))
    assert samples_wanted(model, fitted_rounding=False, coarse=True) == samples
    assert samples_wanted(model, fitted_rounding=True, coarse=False) == FITTING_SAMPLES
    assert samples_wanted(model, fitted_rounding=True, coarse=True) == COARSE_SAMPLES


def test_few_samples_correct_only_what_they_agree_on() -> None:
    wanted = normal(8, 2).astype(np.float64)
    plain = np.array([1.0, 0.1])  # clear, and lost in the noise
    found = wanted - plain - np.outer([1, -1] * 4, [0.1, 1.0])
    shift = mean_shift(wanted, found)
    assert 0.9 < shift[0] < 1.0
    assert shift[1] == 0.0
    many = mean_shift(np.tile(wanted, (4, 1)), np.tile(found, (4, 1)))
    np.testing.assert_allclose(many, plain)
    np.testing.assert_allclose(mean_shift(wanted[:1], found[:1]), wanted[0] - found[0])


def test_a_layer_whose_input_has_an_unknown_number_of_axes_is_corrected() -> None:
    """The series come from a Reshape to sizes that are an input; the filters say how many axes there are."""
    text = "g (float[12] x, int64[n] sizes) => (float[a,b,c] y) { s = Reshape(x, sizes) c = Conv(s, w) y = Relu(c) }"
    model = build(text, w=normal(4, 3, 2))
    feeds = Samples({"x": normal(12, seed=i), "sizes": np.array([1, 3, 4])} for i in range(CORRECTION_SAMPLES))
    quantized = full(model, "ARM", samples=feeds, bias_correction=True)
    assert np.any(quantized.model.graph.initializers["Conv_1_bias"].const_value.numpy())
