"""Scales per input channel of a weight, from the fit through plan and file and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.config.names import Rounding
from converter_lite.errors import CalibrationError, ConfigError
from converter_lite.formats.base import FileOptions
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.onnx.writer import save
from converter_lite.formats.registry import output_format
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights, quantize_weights_as_planned
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import target_spec
from tests.support import assert_same_outputs, build, clone, normal, operators, random_feed, samples_of, sqnr, written

SETTINGS = WeightSettings(bits=4, rounding=Rounding.ADAPTIVE, min_channel=0, input_scales=True)


def net() -> ir.Model:
    """Convolutions of every kind and a Gemm; some input channels have far larger weights than others."""
    uneven = np.where(np.arange(8) % 3, 0.3, 2.0).astype(np.float32)
    return build(
        """g (float[1,3,10,10] x) => (float[1,5] y) {
        a = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(a) d = Conv<group=8, pads=[1,1,1,1]>(r, w2, b2) r2 = Relu(d)
        c = Conv(r2, w3, b3) p = GlobalAveragePool(c) f = Flatten(p) y = Gemm(f, w4, b4) }""",
        w1=normal(8, 3, 3, 3, seed=1),
        b1=normal(8, seed=2),
        w2=normal(8, 1, 3, 3, seed=3) * np.array([[0.2, 1, 0.2], [1, 3, 1], [0.2, 1, 0.2]], np.float32),
        b2=normal(8, seed=4),
        w3=normal(8, 8, 1, 1, seed=5) * uneven[:, None, None],
        b3=normal(8, seed=6),
        w4=normal(8, 5, seed=7) * uneven[:, None],
        b4=normal(5, seed=8),
    )


def quantize(settings: WeightSettings = SETTINGS, plan: QuantPlan | None = None) -> QuantizedModel:
    model = net()
    samples = samples_of(model, 16)
    if plan is not None:
        return quantize_weights_as_planned(model, settings, plan, samples=samples, context=RunContext())
    return quantize_weights(model, settings, target="CPU", samples=samples, context=RunContext())


@pytest.fixture(scope="module")
def quantized() -> QuantizedModel:
    return quantize()


def input_scales_of(quantized: QuantizedModel) -> dict[str, tuple[int, ...]]:
    weights = quantized.plan.weights
    return {name: p.input_scales.shape for name, p in weights.items() if p.input_scales is not None}


def test_each_weight_has_one_input_scale_per_element_of_a_channel(quantized: QuantizedModel) -> None:
    expected = {"w1": (1, 3, 3, 3), "w2": (1, 1, 3, 3), "w3": (1, 8, 1, 1), "w4": (8, 1)}
    found = input_scales_of(quantized)
    assert {"w2", "w3", "w4"} <= set(found)
    assert found.items() <= expected.items()


def test_the_file_multiplies_the_weight_and_computes_what_the_plan_says(quantized: QuantizedModel) -> None:
    file = written(quantized)
    assert operators(file)["Mul"] == len(input_scales_of(quantized))
    plain = clone(quantized.model)
    for name, params in quantized.plan.weights.items():
        plain.graph.initializers[name].const_value = ir.Tensor(params.dequantize(quantized.integers(name)), name=name)
    assert_same_outputs(plain, file, *(random_feed(plain, seed=seed) for seed in range(3)))


def test_they_pay(quantized: QuantizedModel) -> None:
    feeds = samples_of(net(), 30)[16:]
    without = quantize(replace(SETTINGS, input_scales=False))
    assert not input_scales_of(without)
    assert sqnr(net(), written(quantized), feeds) > sqnr(net(), written(without), feeds) + 1.0  # dB


def test_a_saved_plan_gives_the_same_file_again(quantized: QuantizedModel, tmp_path: Path) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    again = quantize(plan=QuantPlan.from_json(data, where="plan.json"))
    for name, params in quantized.plan.weights.items():
        np.testing.assert_array_equal(again.plan.weights[name].input_scales, params.input_scales)
        np.testing.assert_array_equal(again.integers(name), quantized.integers(name))
    first, second = (save(built, tmp_path / f"{i}.onnx")[0] for i, built in enumerate(map(written, (quantized, again))))
    assert first.read_bytes() == second.read_bytes()


def test_the_same_input_gives_the_same_integers(quantized: QuantizedModel) -> None:
    again = quantize()
    for name in quantized.plan.weights:
        np.testing.assert_array_equal(again.integers(name), quantized.integers(name))


def test_a_plan_with_input_scales_is_refused_where_the_file_cannot_hold_them(quantized: QuantizedModel) -> None:
    with pytest.raises(ConfigError, match="the plan has scales per input channel for"):
        quantize(replace(SETTINGS, input_scales=False), plan=quantized.plan)


@pytest.mark.parametrize("shape", [(8,), (8, 1, 1, 1), (1, 4, 1, 2)])
def test_input_scales_that_do_not_fit_the_weight_are_refused(quantized: QuantizedModel, shape: tuple[int, ...]) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    data["weights"]["w3"]["input_scales_shape"] = list(shape)
    with pytest.raises(ConfigError) as error:
        QuantPlan.from_json(data, where="plan.json").check(net())
    assert any("w3: 8 scales and 8 input scales do not fit" in problem for problem in error.value.problems)


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, np.nan])
def test_input_scales_are_finite_and_positive(wrong: float) -> None:
    with pytest.raises(CalibrationError, match="an input scale is not finite and positive"):
        QuantParams(np.float32([1, 1]), np.int32([0, 0]), QuantSpec(4, axis=0), np.float32([[1, wrong]]))


def test_a_file_with_input_scales_is_read_back_with_float_weights(quantized: QuantizedModel) -> None:
    file = written(quantized)
    back = read_qdq(clone(file))
    assert_same_outputs(file, back.model, random_feed(file))
    assert "Mul" not in operators(back.model)
    held = input_scales_of(quantized)
    for node in back.model.graph:
        source = next((name for name in held if any(v is not None and name in str(v.name) for v in node.inputs)), None)
        if source is not None and len(node.inputs) > 1:
            assert back.plan.mode(node) is NodeMode.FLOAT
            assert g.is_constant(node.inputs[1])


@pytest.mark.parametrize(("name", "holds"), [("ONNX", True), ("MINDIR_LITE", False)])
def test_only_onnx_files_hold_input_scales(name: str, holds: bool) -> None:
    choice = output_format(name, FileOptions()).restrict(
        Choice(WeightSettings(bits=4), target_spec("CPU")), build("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    )
    assert isinstance(choice.settings, WeightSettings)
    assert choice.settings.input_scales is holds


@pytest.mark.parametrize("change", [lambda q: q, lambda q: replace(q, q_weights={})])
def test_integers_without_a_fit_are_those_of_the_divided_weight(
    quantized: QuantizedModel, change: Callable[[QuantizedModel], QuantizedModel]
) -> None:
    held = change(quantized)
    for name in input_scales_of(quantized):
        weight = g.constant(held.model.graph.initializers[name])
        assert weight is not None
        dequantized = held.plan.weights[name].dequantize(held.integers(name))
        assert np.abs(dequantized - weight).max() < 0.35 * np.abs(weight).max()
