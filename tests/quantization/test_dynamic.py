from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import CalibrationError
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.format import rebuild
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.quantization.dynamic import decide_dynamic, quantize_dynamic
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.runtime.context import RunContext
from converter_lite.targets.devices import CPU
from tests.support import build, clone, full, normal, operators, optimized, random_feed, run, samples_of, sqnr, written

Array = NDArray[np.float32]


def dynamic(model: ir.Model, *, alwc: bool = True, skip: frozenset[str] = frozenset()) -> QuantizedModel:
    return quantize_dynamic(clone(model), DynamicSettings(alwc, skip=skip), target="CPU", context=RunContext())


def matmul(opset: int = 13) -> ir.Model:
    return build("g (float[B,6,16] x) => (float[B,6,20] y) { y = MatMul(x, w) }", opset=opset, w=normal(16, 20))


def symmetric_weight(w: Array, *, per_channel: bool) -> tuple[NDArray[np.int32], Array]:
    scale = (np.abs(w).max(axis=0 if per_channel else None) / np.float64(127)).astype(np.float32)
    return np.clip(np.rint(w / scale), -127, 127).astype(np.int32), scale


def dynamic_quantize(x: Array) -> tuple[NDArray[np.int32], np.float32, int]:
    """DynamicQuantizeLinear as the ONNX specification defines it."""
    low, high = min(x.min(), np.float32(0)), max(x.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255))
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int32), scale, zero


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_alwc_is_dynamic_per_layer_times_weights_per_channel(opset: int) -> None:
    model = matmul(opset)
    w = model.graph.initializers["w"].const_value.numpy()  # type: ignore[union-attr]
    x = random_feed(model)["x"]
    params = dynamic(model).plan.weights["w"]
    q_w, scale_w = params.quantize(w), params.scale
    assert np.all(scale_w >= symmetric_weight(w, per_channel=True)[1])
    q_x, scale_x, zero = dynamic_quantize(x)
    expected = ((q_x - zero) @ q_w).astype(np.float32) * (scale_x * scale_w)
    np.testing.assert_allclose(run(written(dynamic(model)), {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_acwl_is_symmetric_per_row_times_weights_per_layer(opset: int) -> None:
    model = matmul(opset)
    w = model.graph.initializers["w"].const_value.numpy()  # type: ignore[union-attr]
    x = random_feed(model)["x"]
    x[0, 2] *= 1000  # a row of its own scale does not hurt the others
    x[0, 3] = 0
    q_w, scale_w = symmetric_weight(w, per_channel=False)
    high, low = x.max(axis=-1, keepdims=True), x.min(axis=-1, keepdims=True)
    scale_x = np.maximum(np.maximum(high * np.float32(1 / 127), low * np.float32(-1 / 128)), np.float32(1e-30))
    q_x = np.clip(np.rint(x / scale_x), -128, 127).astype(np.int32)
    expected = (q_x @ q_w).astype(np.float32) * (scale_x * scale_w)
    y = run(written(dynamic(model, alwc=False)), {"x": x})["y"]
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(y[0, 3], 0)
    np.testing.assert_allclose(y[0, 0], x[0, 0] @ w, atol=0.3)


@pytest.mark.parametrize("alwc", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("bias", ["", ", b"])
def test_gemm_with_and_without_bias_and_transposition(alwc: bool, transposed: bool, bias: str) -> None:
    attribute = "<transB=1>" if transposed else ""
    model = build(
        f"g (float[3,16] x) => (float[3,20] y) {{ y = Gemm{attribute}(x, w{bias}) }}",
        w=normal(20, 16) if transposed else normal(16, 20),
        **({"b": normal(20) * 3} if bias else {}),
    )
    result = written(dynamic(model, alwc=alwc))
    assert operators(result)["MatMulInteger"] == 1
    assert sqnr(model, result, samples_of(model)) > 30


def test_onnxruntime_makes_one_kernel_of_an_alwc_product(tmp_path: Path) -> None:
    kernels = optimized(written(dynamic(matmul())), tmp_path)
    assert kernels == {"DynamicQuantizeMatMul": 1}


def test_onnxruntime_makes_one_kernel_of_an_acwl_product_up_to_the_scales_of_rows(tmp_path: Path) -> None:
    kernels = optimized(written(dynamic(matmul(), alwc=False)), tmp_path)
    assert kernels["MatMulIntegerToFloat"] == 1
    assert kernels["MatMulInteger"] == kernels["Cast"] == 0


def test_one_quantization_serves_every_product_that_reads_a_tensor() -> None:
    model = build(
        "g (float[3,16] x) => (float[3,16] y) { q = MatMul(x, w1) k = MatMul(x, w2) y = Mul(q, k) }",
        w1=normal(16, 16, seed=1),
        w2=normal(16, 16, seed=2),
    )
    assert operators(written(dynamic(model)))["DynamicQuantizeLinear"] == 1
    assert operators(written(dynamic(model, alwc=False)))["QuantizeLinear"] == 1


@pytest.mark.parametrize("alwc", [True, False])
def test_a_shared_weight_is_stored_once(alwc: bool) -> None:
    model = build("g (float[3,16] x) => (float[3,16] y) { a = MatMul(x, w) y = MatMul(a, w) }", w=normal(16, 16))
    result = written(dynamic(model, alwc=alwc))
    assert sum(v.dtype is ir.DataType.INT8 and v.shape == [16, 16] for v in result.graph.initializers.values()) == 1
    assert sqnr(model, result, samples_of(model)) > 25


@pytest.mark.parametrize("alwc", [True, False])
@pytest.mark.parametrize("first", ["MatMul(x, w)", "Gemm<transB=1>(x, w)"])
def test_a_weight_used_along_both_axes_has_one_scale(first: str, alwc: bool) -> None:
    second = "Gemm<transB=1>(a, w)" if "MatMul" in first else "MatMul(a, w)"
    weight = normal(16, 16) * np.linspace(0.1, 3, 16, dtype=np.float32)
    model = build(f"g (float[3,16] x) => (float[3,16] y) {{ a = {first} y = {second} }}", w=weight)
    quantized = dynamic(model, alwc=alwc)
    assert not quantized.plan.weights["w"].is_per_channel
    assert sqnr(model, written(quantized), samples_of(model)) > 25


@pytest.mark.parametrize("alwc", [True, False])
def test_an_embedding_table_that_is_the_last_weight_too(alwc: bool) -> None:
    model = build(
        """g (int64[1,5] ids) => (float[1,5,30] y) {
            e = Gather(w, ids) f = Reshape(e, s) h = Gemm<transB=1>(f, w) y = Reshape(h, o) }""",
        w=normal(30, 8),
        s=np.array([5, 8], np.int64),
        o=np.array([1, 5, 30], np.int64),
    )
    assert sqnr(model, written(dynamic(model, alwc=alwc)), samples_of(model)) > 25


def test_a_table_keeps_one_scale_per_row() -> None:
    model = build("g (int64[2,3] ids) => (float[2,3,8] y) { y = Gather(w, ids) }", w=normal(150, 8))
    quantized = dynamic(model)
    assert quantized.plan.nodes["Gather_0"].mode is NodeMode.WEIGHT
    ids = np.array([[0, 29, 5], [7, 7, 1]])
    params = quantized.plan.weights["w"]
    assert params.spec.axis == 0
    y = run(written(quantized), {"ids": ids})["y"]
    np.testing.assert_allclose(y, params.fake_quantize(normal(150, 8))[ids], rtol=1e-6)


LSTM = "g (float[6,1,16] x) => (float[6,1,1,24] y) { y = LSTM<hidden_size = 24>(x, w, r) }"


def lstm(hidden: int = 24) -> ir.Model:
    return build(
        LSTM.replace("24", str(hidden)), opset=14, w=normal(1, 4 * hidden, 16), r=normal(1, 4 * hidden, hidden)
    )


def test_weights_of_recurrent_layers_are_integers_that_become_floats_at_load(tmp_path: Path) -> None:
    model = lstm()
    quantized = dynamic(model)
    assert quantized.plan.nodes["LSTM_0"].mode is NodeMode.WEIGHT
    assert {name: params.spec.axis for name, params in quantized.plan.weights.items()} == {"w": 1, "r": 1}
    assert sqnr(model, written(quantized), samples_of(model)) > 30
    OnnxFormat().write(quantized, tmp_path / "o.onnx")
    stored = ir.load(tmp_path / "o.onnx")
    assert operators(stored) == {"LSTM": 1, "Cast": 2, "Mul": 2}
    assert sqnr(model, stored, samples_of(model)) > 30


def test_full_quantization_for_the_cpu_stores_recurrent_weights_too(tmp_path: Path) -> None:
    model = lstm()
    quantized = full(model)
    assert quantized.plan.nodes["LSTM_0"].mode is NodeMode.WEIGHT
    OnnxFormat().write(quantized, tmp_path / "o.onnx")
    assert "DequantizeLinear" not in operators(ir.load(tmp_path / "o.onnx"))
    assert sqnr(model, ir.load(tmp_path / "o.onnx"), samples_of(model)) > 30


def test_recurrent_weights_have_one_scale_where_a_device_wants_it() -> None:
    settings = DynamicSettings(recurrent=NodeMode.WEIGHT, recurrent_per_channel=False)
    plan = quantize_dynamic(lstm(), settings, target="CPU", context=RunContext()).plan
    assert {name: params.spec.axis for name, params in plan.weights.items()} == {"w": None, "r": None}


REASONS = {
    "its weights are so small that integers save nothing": (
        LSTM.replace("24", "2"),
        normal(1, 8, 16),
    ),
    "its table is so small that floats are faster": (
        "g (int64[1,5] x) => (float[1,5,512] y) { y = Gather(w, x) }",
        normal(2, 512),
    ),
    "has no weight to quantize": ("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }", None),
    "its weight is not constant": ("g (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }", None),
    "its weight is not a matrix of float32": (
        "g (float[2,2,3] x) => (float[2,2,3] y) { y = MatMul(x, w) }",
        normal(2, 3, 3),
    ),
    "Gemm with transA, alpha, beta or a computed bias has no integer form": (
        "g (float[3,2] x) => (float[2,4] y) { y = Gemm<transA=1>(x, w) }",
        normal(3, 4),
    ),
}


@pytest.mark.parametrize("reason", REASONS)
def test_every_refusal_has_its_reason(reason: str) -> None:
    text, weight = REASONS[reason]
    weights = {} if weight is None else {"w": weight}
    model = build(text, **weights, **({"r": normal(1, 8, 2)} if "LSTM" in text else {}))
    plan = dynamic(model).plan
    assert plan.quantized_nodes == []
    assert plan.float_reasons() == [(reason, 1)]


def test_a_product_of_constants_is_only_stored_as_integers() -> None:
    text = """g (float[1,300,64] x) => (float[1,300,64] y, float[300,4] t) {
        y = MatMul(x, w)
        b = MatMul(table, v)
        r = Relu(b)
        t = MatMul(r, u)
    }"""
    weights = {"w": normal(64, 64), "table": normal(300, 2), "v": normal(2, 1024), "u": normal(1024, 4)}
    quantized = dynamic(build(text, **weights))
    assert [quantized.plan.mode(node) for node in quantized.model.graph] == [
        *(NodeMode.DYNAMIC, NodeMode.WEIGHT, NodeMode.FLOAT, NodeMode.DYNAMIC)
    ]
    rebuild(write(quantized), like=quantized.model)


def test_a_node_named_in_skip_quant_node_stays_float() -> None:
    plan = dynamic(matmul(), skip=frozenset({"MatMul_0"})).plan
    assert plan.float_reasons() == [("named in skip_quant_node", 1)]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_named(bad: float) -> None:
    weight = normal(16, 20)
    weight[1, 2] = bad
    model = build("g (float[3,16] x) => (float[3,20] y) { y = MatMul(x, w) }", w=weight)
    with pytest.raises(CalibrationError, match="constant w"):
        dynamic(model)


@pytest.mark.parametrize("alwc", [True, False])
def test_inputs_that_are_all_zero_and_batches_of_any_size(alwc: bool) -> None:
    result = written(dynamic(matmul(), alwc=alwc))
    for batch in (1, 3):
        y = run(result, {"x": np.zeros((batch, 6, 16), np.float32)})["y"]
        np.testing.assert_array_equal(y, np.zeros((batch, 6, 20), np.float32))


def test_a_given_plan_is_used_as_it_is() -> None:
    model = matmul()
    plan = dynamic(model).plan
    again = quantize_dynamic(
        clone(model), DynamicSettings(weight_per_channel=False), target="CPU", plan=plan, context=RunContext()
    )
    assert again.plan is plan


def perceptron(rows: int | str, *widths: int) -> ir.Model:
    """Products p0, p1, ... of these widths, each behind a Relu."""
    steps = "".join(f"r{i} = Relu(p{i - 1}) p{i} = MatMul(r{i}, w{i}) " for i in range(1, len(widths) - 1))
    last = len(widths) - 2
    weights = {f"w{i}": normal(*size, seed=i) for i, size in enumerate(pairwise(widths))}
    text = f"g (float[{rows},{widths[0]}] x) => (float[{rows},{widths[-1]}] p{last}) {{ p0 = MatMul(x, w0) {steps} }}"
    return build(text, **weights)


def by_costs(model: ir.Model, skip: frozenset[str] = frozenset()) -> dict[str, NodeMode]:
    plan = decide_dynamic(clone(model), DynamicSettings(skip=skip, costs=CPU.costs), target="CPU")
    return {name: node.mode for name, node in plan.nodes.items() if node.op_type == "MatMul"}


@pytest.mark.parametrize("rows", [1, 64, "N"])
def test_small_products_are_only_stored_as_integers_where_computing_with_them_takes_longer(rows: int | str) -> None:
    modes = by_costs(perceptron(rows, 512, 512, 48, 48, 16))
    assert list(modes.values()) == [NodeMode.DYNAMIC, NodeMode.DYNAMIC, NodeMode.WEIGHT, NodeMode.FLOAT]


def test_how_many_rows_a_product_has_decides_with_its_weight() -> None:
    assert set(by_costs(perceptron(1, 64, 256, 64, 256, 64)).values()) == {NodeMode.WEIGHT}
    assert set(by_costs(perceptron(64, 64, 256, 64, 256, 64)).values()) == {NodeMode.DYNAMIC}


@pytest.mark.parametrize(
    ("axes", "mode"), [("N,1", NodeMode.WEIGHT), ("1,T", NodeMode.DYNAMIC), ("N,T", NodeMode.DYNAMIC)]
)
def test_an_open_axis_holds_one_sample_if_it_is_the_first_and_many_rows_otherwise(axes: str, mode: NodeMode) -> None:
    assert set(by_costs(perceptron(axes, 64, 256, 64, 256, 64)).values()) == {mode}


@pytest.mark.parametrize(("axes", "mode"), [("16", NodeMode.WEIGHT), ("1,16", NodeMode.DYNAMIC)])
def test_a_bias_that_floats_add_with_an_operator_of_its_own_counts(axes: str, mode: NodeMode) -> None:
    steps = "".join(f"p{i} = MatMul(r{i}, w) s{i} = Add(p{i}, b) r{i + 1} = Relu(s{i}) " for i in range(4))
    text = f"g (float[{axes},64] x) => (float[{axes},64] r4) {{ r0 = Relu(x) {steps} }}"
    assert set(by_costs(build(text, w=normal(64, 64), b=normal(64))).values()) == {mode}


def test_where_all_products_are_small_even_the_smallest_are_stored() -> None:
    assert set(by_costs(perceptron(4, *[24] * 8)).values()) == {NodeMode.WEIGHT}


def test_a_network_as_short_as_the_call_of_a_runtime_gets_what_was_asked_for() -> None:
    assert set(by_costs(perceptron(4, 24, 24)).values()) == {NodeMode.DYNAMIC}


@pytest.mark.parametrize("widths", [(512, 512, 48, 16), [24] * 8], ids=["some", "all small"])
def test_a_node_that_is_left_out_decides_no_other_one(widths: tuple[int, ...]) -> None:
    model = perceptron(4, *widths)
    before = by_costs(model)
    for name in before:
        assert by_costs(model, frozenset({name})) == {**before, name: NodeMode.FLOAT}
