"""Layer-wise sensitivity, and the kernels of a written model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

from converter_lite.analysis.kernels import Arithmetic, kernels, summary
from converter_lite.analysis.kernels import table as kernel_table
from converter_lite.analysis.layer_sensitivity import Sensitivity, analyse, csv_text, decibels, table, to_json
from converter_lite.calibration.context import CalibrationContext
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.quantizer import Quantizer, Resources
from converter_lite.quantization.settings import Blocks, FullSettings, Goal, WeightSettings
from converter_lite.targets.devices import target_spec
from tests.analysis.networks import network, quantized_network
from tests.support import build, normal, samples_of, since


def delicate() -> ir.Model:
    """The network with one weight in the second convolution that spoils its grid."""
    model = network()
    value = model.graph.initializers["w2"]
    assert value.const_value is not None
    array = value.const_value.numpy().copy()
    array[:, 0, 0, 0] *= 1000.0
    value.const_value = ir.Tensor(array, name="w2")
    return model


def quantizer(model: ir.Model, **settings: object) -> Quantizer:
    chosen = FullSettings(**{"bias_correction": False, "equalization": False, **settings})
    choice = Choice(chosen, target_spec("CPU"))
    return Quantizer(model, choice, Resources(samples_of(model), CalibrationContext()))


def analysed(goal: Goal | None = None) -> tuple[Sensitivity, QuantizedModel, Quantizer]:
    made = quantizer(delicate())
    result, quantized = analyse(made, judges=samples_of(made.model), samples=3, goal=goal)
    return result, quantized, made


def test_the_delicate_layer_is_ranked_first_by_both_measurements() -> None:
    result, _, _ = analysed()
    assert result.ranked[0].op_type == "Conv"
    worst = max(result.layers, key=lambda layer: layer.alone.noise)
    best = min(result.layers, key=lambda layer: layer.without.noise)
    assert worst.name == best.name == result.ranked[0].name
    assert result.samples == 3
    assert sum(layer.work for layer in result.layers) == pytest.approx(1.0)


def test_layers_with_blocks_are_measured_with_their_weights_turned() -> None:
    """Kernels for blocks know one layout of a Gemm; the network that is measured has to have it, too."""
    graph = "g (float[4,32] x) => (float[4,8] y) { a = Gemm<transB=1>(x, w1, b) r = Relu(a) y = Gemm<transB=1>(r, w2) }"
    model = build(graph, w1=normal(32, 32), b=normal(32), w2=normal(8, 32, seed=2))
    settings = WeightSettings(bits=4, min_channel=0, min_size=0, blocks=Blocks(16, True), bias_correction=False)
    choice = Choice(settings, target_spec("CPU"))
    made = Quantizer(model, choice, Resources(samples_of(model), CalibrationContext()))
    result, _ = analyse(made, judges=samples_of(model), samples=3, goal=None)
    assert [decibels(layer.alone) > 20 for layer in result.layers] == [True, True]


def test_a_layer_is_measured_alone_though_integers_would_not_pay_there() -> None:
    graph = """g (float[1,8,24,24] x) => (float[1,8,24,24] y) {
        a = Conv<pads = [1,1,1,1]>(x, w1)
        b = Conv<pads = [1,1,1,1]>(a, w2)
        c = Add(a, b)
        y = Conv<pads = [1,1,1,1]>(c, w3)
    }"""
    model = build(graph, **{name: normal(8, 8, 3, 3, seed=i) / 8 for i, name in enumerate(("w1", "w2", "w3"))})
    made = quantizer(model)
    result, quantized = analyse(made, judges=samples_of(model), samples=3, goal=None)
    found = {layer.op_type: decibels(layer.alone) for layer in result.layers}
    assert (
        quantized.plan.mode(next(node for node in quantized.model.graph if node.op_type == "Add")) is NodeMode.INTEGER
    )
    assert 35.0 < found["Add"] < 40.0


def test_without_a_goal_nothing_is_left_out() -> None:
    result, quantized, _ = analysed()
    assert (result.reached, result.skip, result.line) == (None, (), "")
    assert all(quantized.plan.nodes[layer.name].mode is not NodeMode.FLOAT for layer in result.layers)


def test_the_line_reaches_the_wanted_cosine_when_it_is_given_back() -> None:
    start, _, _ = analysed()
    wanted = 1.0 - (1.0 - start.quantized.cosine) / 4
    result, _, made = analysed(Goal(wanted))
    assert result.is_reached
    assert result.line == f"skip_quant_node={','.join(result.skip)}"
    again = replace(made.choice, settings=replace(made.choice.settings, skip=frozenset(result.skip)))
    repeated, _ = analyse(replace(made, choice=again), judges=samples_of(made.model), samples=1, goal=None)
    assert repeated.quantized.cosine >= wanted


def test_a_goal_that_holds_already_needs_no_line() -> None:
    result, _, _ = analysed(Goal(0.5))
    assert result.is_reached
    assert result.line == ""


def test_csv_json_and_table_have_every_layer() -> None:
    result, _, _ = analysed()
    assert len(csv_text(result).splitlines()) == 1 + len(result.layers)
    assert [layer["name"] for layer in to_json(result)["layers"]] == [layer.name for layer in result.layers]
    assert len(list(table(result, shown=2))) == 3


@since("onnxruntime", 1, 20, reason="has fewer integer kernels")
def test_integer_kernels_are_told_from_float_ones() -> None:
    feeds = samples_of(network(), 2)
    integer = {use.operator: use for use in kernels(quantized_network(), feeds) if use.node}
    assert integer["Conv"].arithmetic is Arithmetic.INTEGER
    assert integer["Conv"].kernel == "QLinearConv"
    assert not integer["Conv"].fell_back
    plain = kernels(network(), feeds)
    assert {use.arithmetic for use in plain} <= {Arithmetic.FLOAT, Arithmetic.NONE}
    assert "0 of 3 layers with weights compute in integers" in summary(plain)


@pytest.mark.skipif(
    tuple(map(int, ort.__version__.split(".")[:2])) < (1, 24),
    reason="this onnxruntime fuses the convolution all the same",
)
def test_a_node_between_integers_that_runs_in_float_fell_back() -> None:
    model = quantized_network()
    quantize = next(node for node in model.graph if node.outputs[0].name == "r1_quantized")
    scale = quantize.inputs[1]  # as an input of the model: the runtime cannot fuse the convolution behind it
    assert scale is not None and scale.const_value is not None
    model.graph.inputs.append(scale)
    del model.graph.initializers[str(scale.name)]
    value, scale.const_value = scale.const_value.numpy(), None
    feeds = [{**feed, str(scale.name): np.asarray(value)} for feed in samples_of(network(), 2)]
    uses = kernels(model, feeds)
    assert any(use.fell_back and use.operator == "Conv" and use.arithmetic is Arithmetic.FLOAT for use in uses)
    assert any("fell back" in row for row in kernel_table(uses))
