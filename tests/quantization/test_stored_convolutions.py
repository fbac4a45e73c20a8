"""Convolutions in dynamic quantization: stored as integers, computed with as floats, and none of their means shifts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.context import CalibrationContext
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.quantization.quantizer import Quantizer, Resources
from converter_lite.quantization.score import Scorer
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import CPU
from tests.support import build, clone, normal, operators, positive, random_feed, run, samples_of, sqnr, written

NETWORK = """g (float[1,8,9,9] x) => (float[1,6] y) {
    a = Conv<group = 8, pads = [1,1,1,1]>(x, depthwise)
    b = Conv(a, wide, bias) c = Relu(b)
    d = ConvTranspose<strides = [2,2]>(c, up) e = Conv(d, last, last_bias) f = Relu(e)
    m = GlobalAveragePool(f) v = Flatten(m) y = Gemm(v, w)
}"""


def network() -> ir.Model:
    """Convolutions with and without bias, a small one, and a product."""
    weights = {"depthwise": normal(8, 1, 3, 3), "wide": normal(40, 8, 3, 3, seed=2), "up": normal(40, 24, 2, 2, seed=3)}
    weights |= {"last": normal(32, 24, 3, 3, seed=4), "w": normal(32, 6, seed=5)}
    return build(NETWORK, **weights, bias=normal(40, seed=6), last_bias=normal(32, seed=7))


def dynamic(model: ir.Model, *, count: int = 0) -> QuantizedModel:
    samples = samples_of(model, count) if count else None
    return quantize_dynamic(clone(model), DynamicSettings(), target="CPU", samples=samples, context=RunContext())


@pytest.mark.parametrize("count", [0, 8])
def test_weights_take_a_quarter_of_the_bytes_and_compute_with_floats(tmp_path: Path, count: int) -> None:
    model = network()
    quantized = dynamic(model, count=count)
    modes = {node.op_type: quantized.plan.mode(node) for node in quantized.model.graph if node.op_type != "Conv"}
    assert (modes["ConvTranspose"], modes["Gemm"]) == (NodeMode.WEIGHT, NodeMode.DYNAMIC)
    assert {params.spec.axis for name, params in quantized.plan.weights.items() if name in ("wide", "last")} == {0}
    assert "depthwise" not in quantized.plan.weights
    OnnxFormat().write(quantized, tmp_path / "o.onnx")
    ir.save(model, tmp_path / "float.onnx")
    assert (tmp_path / "o.onnx").stat().st_size < 0.4 * (tmp_path / "float.onnx").stat().st_size
    file = ir.load(tmp_path / "o.onnx")
    assert not {"ConvInteger", "DequantizeLinear"} & operators(file).keys()
    assert sqnr(model, file, [random_feed(model, seed=seed) for seed in range(3)]) > 30


def test_a_ms_file_keeps_floats_that_its_released_packages_would_not_load() -> None:
    settings = DynamicSettings(portable=False, rows=False, layers=False)
    plan = quantize_dynamic(network(), settings, target="CPU", context=RunContext()).plan
    assert {plan.nodes[name].op_type for name in plan.quantized_nodes} == {"Gemm"}


def channel_means(model: ir.Model, name: str, feeds: list[dict[str, NDArray[np.float32]]]) -> NDArray[np.float64]:
    value = next(v for node in model.graph for v in node.outputs if v.name == name)
    model.graph.outputs.append(value)
    return np.mean([run(model, feed)[name].astype(np.float64).mean(axis=(0, 2, 3)) for feed in feeds], axis=0)


def test_samples_correct_the_means_of_all_channels() -> None:
    text = "g (float[1,8,9,9] x) => (float[1,40,5,5] y) { a = Conv(x, v) r = Relu(a) y = Conv(r, w) }"
    model = build(text, v=normal(48, 8, 3, 3), w=positive(40, 48, 3, 3))
    samples, plain = samples_of(model, 8), dynamic(model)
    goal, shifted = (channel_means(m, "y", samples.head(8)) for m in (clone(model), written(plain)))
    corrected = channel_means(written(dynamic(model, count=8)), "y", samples.head(8))
    assert np.abs(corrected - goal).max() < 0.1 * np.abs(shifted - goal).max()


def test_normalizations_correct_them_without_samples() -> None:
    """The statistics of what a layer reads say how far its means would shift."""
    text = "g (float[1,48,5,5] x) => (float[1,40,3,3] y) { r = Relu(x) y = Conv(r, w) }"
    model = build(text, w=positive(40, 48, 3, 3))
    mean, spread = np.linspace(-1, 9, 48), np.linspace(0.5, 2, 48)
    rng = np.random.default_rng(0)
    shape = (1, 48, 5, 5)
    feeds = [
        {"x": rng.normal(mean[:, None, None], spread[:, None, None], shape).astype(np.float32)} for _ in range(400)
    ]
    known = clone(model)
    known.graph.inputs[0].meta[BATCHNORM] = (mean, spread)
    quantized = quantize_dynamic(known, DynamicSettings(), target="CPU", context=RunContext())
    goal, plain, corrected = (
        channel_means(m, "y", feeds) for m in (clone(model), written(dynamic(model)), written(quantized))
    )
    assert np.abs(corrected - goal).max() < 0.5 * np.abs(plain - goal).max()


def test_filters_in_front_of_a_logarithm_stay_float() -> None:
    text = "g (float[1,1,400] x) => (float[1,64,21] y) { a = Conv<strides = [16]>(x, w) s = Mul(a, a) y = Log(s) }"
    quantized = dynamic(build(text, w=normal(64, 1, 80)))
    assert quantized.plan.quantized_nodes == []
    assert any("logarithm" in reason for reason, _ in quantized.plan.float_reasons())


def test_a_product_without_an_integer_form_is_stored_if_it_is_not_small() -> None:
    text = "g (float[4,2,32] x) => (float[4,2,40] y) { y = MatMul(x, w) }"
    quantized = dynamic(build(text, w=normal(4, 32, 40)))
    assert [quantized.plan.mode(node) for node in quantized.model.graph] == [NodeMode.WEIGHT]


def test_a_plan_gives_the_same_integers_and_biases() -> None:
    model = network()
    samples = samples_of(model, 8)
    first = dynamic(model, count=8)
    again = quantize_dynamic(
        clone(model), DynamicSettings(), target="CPU", plan=first.plan, samples=samples, context=RunContext()
    )
    for name in first.q_weights:
        np.testing.assert_array_equal(first.integers(name), again.integers(name))
    feed = random_feed(model, seed=5)
    np.testing.assert_array_equal(run(written(first), feed)["y"], run(written(again), feed)["y"])


def test_nodes_are_measured_in_the_network_whose_channels_are_in_the_order_of_the_plan() -> None:
    """What ranks nodes, and what learning learns from, is the float network with this order, before biases are corrected."""
    text = """g (float[1,8,9,9] x) => (float[1,400] y) {
        a = Conv(x, v, b) r = Relu(a) c = Conv(r, w) p = GlobalAveragePool(c) f = Flatten(p) y = MatMul(f, u) }"""
    uneven = normal(48, 8, 3, 3) * np.geomspace(0.1, 10, 48, dtype=np.float32)[:, None, None, None]
    bias = np.linspace(-50, 50, 48, dtype=np.float32)
    model = build(text, v=uneven, b=bias, w=normal(40, 48, 3, 3), u=normal(40, 400))
    samples = samples_of(model, 4)
    choice = Choice(DynamicSettings(smoothing=False), CPU)
    quantizer = Quantizer(model, choice, Resources(samples, CalibrationContext()))
    first = quantizer.quantize(choice)
    assert np.any(g.constant(first.model.graph.initializers["v"]) != uneven)
    everything = quantizer.measure(first, samples.head(4)).left_out(frozenset())
    whole = Scorer(model, samples.head(4), RunContext())(qdq_model(first))
    assert everything.cosine == pytest.approx(whole.cosine, abs=1e-3)
    assert everything.cosine > 0.999
