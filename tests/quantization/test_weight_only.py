from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.config.names import Rounding
from converter_lite.data.inputs import input_specs
from converter_lite.data.iterables import IterableDataset
from converter_lite.data.remember import RememberingDataset
from converter_lite.errors import CalibrationError
from converter_lite.formats.mindspore_lite.policy import MsStorage
from converter_lite.formats.onnx.at_load import recognize_dequantizers
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.onnx.writer import save
from converter_lite.graph import constant
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import (
    decide_weights,
    left_by_filters,
    quantize_weights,
    quantize_weights_as_planned,
)
from converter_lite.runtime.context import RunContext
from tests.support import Samples, build, clone, normal, operators, optimized, run, samples_of, sqnr, written

ALL_KINDS = """g (float[1,3,8,8] x, int64[1,4] ids) => (float[1,24] y) {
    a = Conv<pads=[1,1,1,1]>(x, w_conv, b_conv)
    r = Relu(a)
    t = ConvTranspose<strides=[2,2]>(r, w_transposed, b_transposed)
    p = GlobalAveragePool(t)
    f = Flatten(p)
    h = Gemm<transB=1>(f, w_gemm, b_gemm)
    e = Gather(w_table, ids)
    m = ReduceMean<axes=[1], keepdims=0>(e)
    s = Add(h, m)
    y = MatMul(s, w_matmul) }"""


def all_kinds(opset: int = 13) -> ir.Model:
    return build(
        ALL_KINDS,
        opset=opset,
        w_conv=normal(20, 3, 3, 3, seed=1),
        b_conv=normal(20, seed=2),
        w_transposed=normal(20, 18, 2, 2, seed=3) * 0.2,
        b_transposed=normal(18, seed=4),
        w_gemm=normal(32, 18, seed=5),
        b_gemm=normal(32, seed=6),
        w_table=normal(40, 32, seed=7),
        w_matmul=normal(32, 24, seed=8),
    )


KINDS = ("w_conv", "w_transposed", "w_gemm", "w_table", "w_matmul")


def weights(
    model: ir.Model,
    *,
    samples: Samples | RememberingDataset | None = None,
    plan: QuantPlan | None = None,
    **settings: Any,
) -> QuantizedModel:
    chosen = WeightSettings(**{"bias_correction": False, "min_channel": 0, **settings})
    if plan is not None:
        return quantize_weights_as_planned(clone(model), chosen, plan, samples=samples, context=RunContext())
    return quantize_weights(clone(model), chosen, target="CPU", samples=samples, context=RunContext())


def storage(bits: int) -> ir.DataType:
    return ir.DataType.INT4 if bits <= 4 else ir.DataType.INT8 if bits <= 8 else ir.DataType.INT16


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("bits", range(1, 17))
def test_every_width_is_stored_in_the_narrowest_type_and_stays_close(bits: int, per_channel: bool) -> None:
    model = all_kinds()
    quantized = weights(model, bits=bits, per_channel=per_channel)
    assert {quantized.plan.weights[name].is_per_channel for name in KINDS} == {per_channel}
    for name in KINDS:
        integers = quantized.integers(name)
        spec = quantized.plan.weights[name].spec
        assert (spec.bits, spec.qmax - spec.qmin) == (bits, 2**bits - 1)
        assert spec.qmin <= integers.min() <= integers.max() <= spec.qmax
    result = written(quantized)
    types = {name: result.graph.initializers[f"{name}_quantized"].dtype for name in KINDS if name != "w_table"}
    assert set(types.values()) == {storage(bits)}
    assert not set(KINDS) & set(result.graph.initializers)
    least = {1: -10.0, 2: -4.0, 3: 6.0}.get(bits, 5.0 * bits - 8)
    assert sqnr(model, result, samples_of(model)) > least


@pytest.mark.parametrize("per_channel", [True, False])
def test_the_error_decreases_with_every_second_bit(per_channel: bool) -> None:
    model = all_kinds()
    samples = samples_of(model)
    quality = [
        sqnr(model, written(weights(model, bits=bits, per_channel=per_channel)), samples) for bits in range(2, 17, 2)
    ]
    assert quality == sorted(quality)
    assert quality[-1] > quality[0] + 60


def test_the_file_shrinks_with_the_bits(tmp_path: Path) -> None:
    model = build("g (float[1,256] x) => (float[1,256] y) { y = MatMul(x, w) }", w=normal(256, 256))
    sizes = {32: save(clone(model), tmp_path / "float.onnx")[0].stat().st_size}
    for bits in (16, 8, 4):
        sizes[bits] = save(written(weights(model, bits=bits)), tmp_path / f"{bits}.onnx")[0].stat().st_size
    for bits in (16, 8, 4):
        assert sizes[bits] < sizes[32] * bits / 32 + 4000


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("with_data", [True, False])
def test_corrections_work_at_every_width_with_and_without_data(bits: int, with_data: bool) -> None:
    model = all_kinds()
    samples = samples_of(model, 8)
    plain = sqnr(model, written(weights(model, bits=bits)), samples)
    corrected = weights(model, bits=bits, bias_correction=True, samples=samples if with_data else None)
    least = plain if with_data else -25 if bits == 1 else plain - 3
    assert sqnr(model, written(corrected), samples) > least


@pytest.mark.parametrize(("bits", "is_fitted"), [(4, True), (8, False)])
def test_narrow_weights_are_fitted_to_more_samples_than_a_pass_keeps_in_memory(bits: int, is_fitted: bool) -> None:
    model = build(
        "g (float[1,8] x) => (float[1,6] y) { y = Gemm(x, w, b) }", w=normal(8, 6, seed=1), b=normal(6, seed=2)
    )

    def corrected(later: float) -> QuantizedModel:
        feeds = samples_of(model, 60)
        for feed in feeds[50:]:
            feed["x"] = feed["x"] + np.float32(later)
        samples = RememberingDataset(IterableDataset(feeds, input_specs(model)))
        assert len(list(samples)) == 60
        rounding = Rounding.ADAPTIVE if bits < 8 else Rounding.NEAREST
        return weights(model, samples=samples, bits=bits, bias_correction=True, rounding=rounding)

    biases = [constant(result.model.graph.initializers["b"]) for result in (corrected(0.0), corrected(1.0))]
    assert biases[0] is not None and biases[1] is not None
    assert (not np.array_equal(biases[0], biases[1])) == is_fitted


def test_one_bit_is_zero_or_the_lower_end() -> None:
    model = build(
        "g (float[1,3] x) => (float[1,2] y) { y = MatMul(x, w) }", w=np.array([[-4, 1], [-1, -2], [3, 0]], np.float32)
    )
    quantized = weights(model, bits=1)
    np.testing.assert_array_equal(quantized.integers("w"), [[-1, 0], [0, -1], [0, 0]])
    np.testing.assert_array_equal(quantized.plan.weights["w"].scale, [4, 2])


REASONS = [
    ({"min_size": 576}, {"Gemm_5": "its weight has at most min_quant_weight_size=576 elements"}, "ConvTranspose_2"),
    ({"min_channel": 18}, {"ConvTranspose_2": "it has at most min_quant_weight_channel=18 output channels"}, "Conv_0"),
    ({"min_channel": 1000}, {"Conv_0": "it has at most min_quant_weight_channel=1000 output channels"}, "Gemm_5"),
    ({"skip": frozenset({"Gemm_5"})}, {"Gemm_5": "named in skip_quant_node"}, "Conv_0"),
    ({}, {"Relu_1": "has no weight to quantize"}, "Conv_0"),
]


@pytest.mark.parametrize(("settings", "reasons", "quantized"), REASONS)
def test_filters_leave_weights_in_float_with_the_reason(
    settings: dict[str, Any], reasons: dict[str, str], quantized: str
) -> None:
    result = weights(all_kinds(), **settings)
    for name, reason in reasons.items():
        assert result.plan.nodes[name].reason == reason
    assert result.plan.nodes[quantized].mode is NodeMode.WEIGHT
    kept = written(result).graph.initializers
    assert ("w_gemm" in kept) == ("Gemm_5" in reasons)


def test_the_log_can_say_what_the_filters_cost() -> None:
    model = all_kinds()
    left = decide_weights(model, WeightSettings(min_channel=1000), target="CPU").nodes
    names = [name for name, node in left.items() if "min_quant_weight_channel" in node.reason]
    elements = sum(np.size(constant(node.inputs[1])) for node in model.graph if node.name in names)
    line = left_by_filters(model, WeightSettings(bits=4, min_channel=1000))
    assert f"about {elements * 28 // 8:,} bytes more: {', '.join(names)}" in line
    assert left_by_filters(model, WeightSettings(min_channel=0, skip=frozenset({"Conv_0"}))) == ""


def test_the_limits_themselves_are_excluded() -> None:
    model = build("g (float[1,17,4,4] x) => (float[1,17,4,4] y) { y = Conv(x, w) }", w=normal(17, 17, 1, 1))
    assert weights(model, min_channel=16).plan.quantized_nodes
    assert not weights(model, min_channel=17).plan.quantized_nodes
    assert weights(model, min_size=288).plan.quantized_nodes
    assert not weights(model, min_size=289).plan.quantized_nodes


def test_weights_that_cannot_be_stored_have_a_reason() -> None:
    model = build("g (float[2,3] x, float[3,4] w) => (float[2] y) { a = MatMul(x, w) y = MatMul(a, v) }", v=normal(4))
    assert dict(weights(model).plan.float_reasons()) == {
        "its weight is not constant": 1,
        "its weight has less than two dimensions": 1,
    }


@pytest.mark.parametrize("axes", ["", "<transB=1>"])
def test_a_shared_weight_is_stored_once(axes: str) -> None:
    text = f"g (float[2,5] x) => (float[2,5] y) {{ a = Gemm(x, w, b) c = Gemm{axes}(a, w, b) y = Gemm(c, w, b) }}"
    model = build(text, w=normal(5, 5), b=normal(5))
    quantized = weights(model, bias_correction=True)
    result = written(quantized)
    assert operators(result)["DequantizeLinear"] == 1
    assert quantized.plan.weights["w"].is_per_channel == (not axes)
    samples = samples_of(model)
    assert sqnr(model, result, samples) > 30


def test_a_large_table_is_gathered_as_integers_not_converted_as_a_whole() -> None:
    model = build("g (int64[2,3] ids) => (float[2,3,8] y) { y = Gather(w, ids) }", w=normal(5000, 8))
    quantized = weights(model)
    result = written(quantized)
    gather = next(node for node in result.graph if node.op_type == "Gather")
    assert gather.inputs[0].dtype is ir.DataType.INT8  # type: ignore[union-attr]
    assert "DequantizeLinear" not in operators(result)
    ids = np.array([[0, 29, 5], [7, 7, 1]])
    expected = quantized.plan.weights["w"].dequantize(quantized.integers("w"))[ids]
    np.testing.assert_allclose(run(result, {"ids": ids})["y"], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(300, 8), (30, 2000)], ids=["few elements", "few rows"])
def test_a_small_table_is_dequantized_once_and_read_back(tmp_path: Path, shape: tuple[int, int]) -> None:
    text = f"g (int64[2,3] ids) => (float[2,3,{shape[1]}] y) {{ y = Gather(w, ids) }}"
    model = build(text, w=normal(*shape))
    quantized = weights(model)
    OnnxFormat().write(quantized, tmp_path / "model.onnx")
    assert optimized(ir.load(tmp_path / "model.onnx"), tmp_path) == {"Gather": 1}
    ids = np.array([[0, 29, 5], [7, 7, 1]])
    expected = quantized.plan.weights["w"].dequantize(quantized.integers("w"))[ids]
    np.testing.assert_array_equal(run(ir.load(tmp_path / "model.onnx"), {"ids": ids})["y"], expected)
    model = read_onnx(tmp_path / "model.onnx")
    recognize_dequantizers(model)
    plan = read_qdq(model).plan
    assert [decision.mode for decision in plan.nodes.values()] == [NodeMode.WEIGHT]


@pytest.mark.parametrize("rows", [30, 5000])
@pytest.mark.parametrize("bits", [3, 4, 12, 16])
def test_a_table_of_any_width(bits: int, rows: int) -> None:
    model = build("g (int64[2,3] ids) => (float[2,3,8] y) { y = Gather(w, ids) }", w=normal(rows, 8))
    quantized = weights(model, bits=bits)
    ids = np.array([[0, 29, 5], [7, 7, 1]])
    expected = quantized.plan.weights["w"].dequantize(quantized.integers("w"))[ids]
    np.testing.assert_allclose(run(written(quantized), {"ids": ids})["y"], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [5, 5000])
def test_a_table_with_rows_of_two_dimensions_keeps_one_scale_per_row(rows: int) -> None:
    table = normal(rows, 5, 2) * np.linspace(0.1, 3, rows, dtype=np.float32).reshape(rows, 1, 1)
    model = build("g (int64[2,5] ids) => (float[2,5,5,2] y) { y = Gather(w, ids) }", w=table)
    quantized = weights(model)
    assert quantized.plan.weights["w"].spec.axis == 0
    ids = np.array([[0, 4, 3, 2, 2], [1, 1, 2, 0, 4]])
    expected = quantized.plan.weights["w"].dequantize(quantized.integers("w"))[ids]
    np.testing.assert_allclose(run(written(quantized), {"ids": ids})["y"], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("rows", [30, 5000])
def test_a_table_read_along_another_axis_has_one_scale(rows: int) -> None:
    model = build(f"g (int64[3] ids) => (float[{rows},3] y) {{ y = Gather<axis=1>(w, ids) }}", w=normal(rows, 8))
    quantized = weights(model)
    ids = np.array([0, 7, 3])
    expected = quantized.plan.weights["w"].dequantize(quantized.integers("w"))[:, ids]
    np.testing.assert_allclose(run(written(quantized), {"ids": ids})["y"], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("shape", [(1,), (2, 20), (1, 20), (2, 1)])
@pytest.mark.parametrize("with_data", [True, False])
def test_gemm_biases_of_every_shape_pass_bias_correction(shape: tuple[int, ...], with_data: bool) -> None:
    model = build("g (float[2,8] x) => (float[2,20] y) { y = Gemm(x, w, b) }", w=normal(8, 20), b=normal(*shape))
    samples = samples_of(model)
    quantized = weights(model, bias_correction=True, samples=samples if with_data else None)
    assert sqnr(model, written(quantized), samples) > 35


@pytest.mark.parametrize("bits", [1, 8])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", KINDS)
def test_a_weight_that_is_not_finite_is_named(name: str, bad: float, bits: int) -> None:
    model = all_kinds()
    value = model.graph.initializers[name]
    array = value.const_value.numpy().copy()  # type: ignore[union-attr]
    array.reshape(-1)[3] = bad
    value.const_value = ir.Tensor(array, name=name)
    with pytest.raises(CalibrationError) as error:
        weights(model, bits=bits, bias_correction=True)
    assert error.value.where == f"constant {name}"


@pytest.mark.parametrize("bits", [4, 8])
def test_zero_weights_stay_zero(bits: int) -> None:
    weight = normal(20, 3, 3, 3)
    weight[np.abs(weight) < 1] = 0
    weight[4] = 0
    model = build("g (float[1,3,8,8] x) => (float[1,20,6,6] y) { y = Conv(x, w) }", w=weight)
    for correct in (True, False):
        quantized = weights(model, bits=bits, bias_correction=correct)
        params = quantized.plan.weights["w"]
        assert np.all(params.dequantize(quantized.integers("w"))[weight == 0] == 0)


def test_corrections_keep_the_mean_of_every_output_channel() -> None:
    model = build(
        "g (float[1,6,8,8] x) => (float[1,20,6,6] y) { y = Conv(x, w, b) }", w=normal(20, 6, 3, 3), b=normal(20)
    )
    samples = Samples([{"x": np.abs(feed["x"])} for feed in samples_of(model, 8)])
    plain = weights(model, bits=4)
    corrected = weights(model, bits=4, bias_correction=True, samples=samples)

    def shift(quantized: QuantizedModel) -> float:
        result = written(quantized)
        means = [(run(result, feed)["y"] - run(model, feed)["y"]).mean(axis=(0, 2, 3)) for feed in samples]
        return float(np.abs(np.mean(means, axis=0)).max())

    assert shift(corrected) < 1e-5
    assert shift(plain) > 0.02


def test_a_saved_plan_gives_the_same_weights_again() -> None:
    model = all_kinds()
    first = weights(model, bits=5, bias_correction=True)
    plan = QuantPlan.from_json(first.plan.to_json(), where="plan.json")
    second = weights(model, bits=5, bias_correction=True, plan=plan)
    for name in KINDS:
        np.testing.assert_array_equal(second.integers(name), first.integers(name))


RECURRENT = """g (float[5,1,6] x) => (float[5,1,2,12] y) {{
    h = {op}<hidden_size=12, direction="bidirectional">(x, w, r, b)
    y = Transpose<perm=[0,2,1,3]>(h) }}"""


def recurrent(op_type: str) -> ir.Model:
    rows = {"LSTM": 48, "GRU": 36, "RNN": 12}[op_type]
    return build(
        RECURRENT.format(op=op_type),
        opset=14,
        w=normal(2, rows, 6, seed=1) * 0.3,
        r=normal(2, rows, 12, seed=2) * 0.3,
        b=normal(2, 2 * rows, seed=3) * 0.1,
    )


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("op_type", ["LSTM", "GRU", "RNN"])
def test_both_weights_of_a_recurrent_node_are_stored_and_its_bias_is_not(op_type: str, corrected: bool) -> None:
    model = recurrent(op_type)
    samples = samples_of(model)
    quantized = weights(model, bias_correction=corrected, samples=samples if corrected else None)
    assert {name: params.spec.axis for name, params in quantized.plan.weights.items()} == {"w": 1, "r": 1}
    result = written(quantized)
    assert {"w_quantized", "r_quantized", "b"} <= set(result.graph.initializers) and not {"w", "r"} & set(
        result.graph.initializers
    )
    assert sqnr(model, result, samples) > 35


def test_the_work_of_a_recurrent_node_is_that_of_both_products() -> None:
    node = next(node for node in recurrent("LSTM").graph if node.op_type == "LSTM")
    node.outputs[0].shape = ir.Shape([5, 2, 1, 12])
    assert multiplications(node) == 5 * 2 * 48 * (6 + 12)


@pytest.mark.parametrize(("rows", "bits"), [(100, 4), (3000, 8)])
def test_a_table_that_takes_a_byte_an_element_has_the_grid_of_a_byte(rows: int, bits: int) -> None:
    text = "g (int64[1,5] i) => (float[1,5,16] y) { y = Gather(w, i) }"
    quantized = weights(build(text, w=normal(rows, 16)), bits=4)
    assert quantized.plan.weights["w"].spec.bits == bits
    stored = [value for name, value in written(quantized).graph.initializers.items() if name == "w_quantized"]
    assert [value.dtype for value in stored] == [ir.DataType.INT4 if bits == 4 else ir.DataType.INT8]


def test_a_table_that_is_multiplied_too_keeps_the_width_that_was_asked_for() -> None:
    text = """g (int64[1,5] i, float[1,16] x) => (float[1,5,16] y, float[1,3000] z)
        { y = Gather(w, i) t = Transpose<perm=[1,0]>(w) z = MatMul(x, t) }"""
    assert weights(build(text, w=normal(3000, 16)), bits=4).plan.weights["w"].spec.bits == 4


@pytest.mark.parametrize("bits", [4, 8, 16])
def test_ms_files_have_one_scale_and_eight_bits_or_more_for_a_recurrent_weight(bits: int) -> None:
    quantized = weights(recurrent("GRU"), storage=MsStorage(), bits=bits)
    assert {(params.spec.axis, params.spec.bits) for params in quantized.plan.weights.values()} == {
        (None, max(bits, 8))
    }


def test_recurrent_weights_stay_float_where_both_are_small() -> None:
    assert decide_weights(recurrent("GRU"), WeightSettings(min_size=863), target="CPU").quantized_nodes
    assert not decide_weights(recurrent("GRU"), WeightSettings(min_size=864), target="CPU").quantized_nodes


@pytest.mark.parametrize("bits", [4, 8])
def test_quantized_recurrent_models_are_read_as_what_was_written(bits: int, tmp_path: Path) -> None:
    model = recurrent("LSTM")
    quantized = weights(model, bits=bits)
    path = save(written(quantized), tmp_path / "out.onnx")[0]
    again = read_qdq(read_onnx(path))
    assert again.plan.mode(next(node for node in again.model.graph if node.op_type == "LSTM")) is NodeMode.WEIGHT
    for name in ("w", "r"):
        np.testing.assert_array_equal(again.q_weights[name], quantized.integers(name))


@pytest.mark.parametrize("op_type", ["Gemm", "Conv", "ConvTranspose"])
def test_rounding_channels_in_blocks_changes_nothing(op_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quantized = [weights(all_kinds(), bias_correction=True).q_weights]
    monkeypatch.setattr("converter_lite.targets.operands.BLOCK_VALUES", 50)
    quantized.append(weights(all_kinds(), bias_correction=True).q_weights)
    names = [n.inputs[1].name or "" for n in all_kinds().graph if n.op_type == op_type and n.inputs[1] is not None]
    assert names
    for name in names:
        np.testing.assert_array_equal(quantized[0][name], quantized[1][name])
