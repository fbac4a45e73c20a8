"""Weights that a runtime dequantizes when it loads the file."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from converter_lite.formats.onnx.at_load import can_cast, dequantize_at_load, recognize_dequantizers
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.misread_weights import hide_misread_weights
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.graph import add_tensor
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.settings import WeightSettings
from converter_lite.quantization.weight_only import quantize_weights
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.support import build, full, normal, operators, optimized, run, written

GRIDS = {
    "per tensor": (None, np.float32(0.03), np.int8(0)),
    "per tensor with a zero point": (None, np.float32(0.03), np.int8(-3)),
    "columns": (1, np.geomspace(0.01, 0.1, 5).astype(np.float32), np.zeros(5, np.int8)),
    "columns with zero points": (1, np.geomspace(0.01, 0.1, 5).astype(np.float32), np.arange(-2, 3).astype(np.int8)),
    "columns counted from the end": (-1, np.geomspace(0.01, 0.1, 5).astype(np.float32), np.ones(5, np.int8)),
    "rows": (0, np.geomspace(0.01, 0.1, 8).astype(np.float32), np.arange(8).astype(np.int8)),
}


def product(grid: str, kind: str = "INT8") -> ir.Model:
    axis, scale, zero = GRIDS[grid]
    attributes = "" if axis is None else f"<axis={axis}>"
    text = f"g (float[2,3,8] x) => (float[2,3,5] y) {{ w = DequantizeLinear{attributes}(w_quantized, s, z) y = MatMul(x, w) }}"
    dtype = ir.DataType[kind]
    low, high = (-8, 8) if kind.endswith("4") else (-128, 128)
    integers = np.random.default_rng(1).integers(low, high, (8, 5))
    shift = 0 if dtype.is_signed() else -low
    model = build(
        text.replace("w_quantized", "q").replace(", z)", ", t)"), opset=21, s=scale, q=np.zeros((8, 5), np.int8), t=zero
    )
    for name, array in (("q", integers), ("t", np.asarray(zero, np.int32))):
        old = model.graph.initializers.pop(name)
        stored = ir.Tensor((array + shift).astype(dtype.numpy()), dtype=dtype)
        old.replace_all_uses_with(add_tensor(model.graph, "w_quantized" if name == "q" else "z", stored))
    return model


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT4", "UINT4"])
@pytest.mark.parametrize("grid", GRIDS)
def test_both_forms_give_the_same_numbers_and_lead_to_each_other(grid: str, kind: str) -> None:
    model = product(grid, kind)
    feed = {"x": normal(2, 3, 8)}
    before, plan = run(model, feed)["y"], read_qdq(model.clone()).plan
    if not can_cast(ir.DataType[kind], 21):
        assert dequantize_at_load(model) == 0
        assert operators(model) == {"DequantizeLinear": 1, "MatMul": 1}
        return
    assert dequantize_at_load(model) == 1
    assert "DequantizeLinear" not in operators(model)
    assert np.array_equal(run(model, feed)["y"], before)
    assert recognize_dequantizers(model) == 1
    assert operators(model) == {"DequantizeLinear": 1, "MatMul": 1}
    assert np.array_equal(run(model, feed)["y"], before)
    again = read_qdq(model).plan
    assert [str(node.mode) for node in again.nodes.values()] == [str(node.mode) for node in plan.nodes.values()]
    for name, params in plan.weights.items():
        assert np.array_equal(again.weights[name].scale, params.scale)
        assert np.array_equal(again.weights[name].zero_point, params.zero_point)


def test_a_reader_of_a_shared_weight_gets_its_own_form() -> None:
    text = """g (float[2,3,8] x) => (float[2,3,5] y, float[2,3,5] z) {
        w = DequantizeLinear<axis=1>(q, s, o)
        y = MatMul(x, w)
        z = MatMul(x, w)
    }"""
    model = build(text, opset=21, s=GRIDS["columns"][1], q=normal(8, 5).astype(np.int8), o=np.zeros(5, np.int8))
    feed = {"x": normal(2, 3, 8)}
    before = run(model, feed)
    assert dequantize_at_load(model, of=lambda node: node.outputs[0].name == "y") == 1
    after = run(model, feed)
    assert all(np.array_equal(after[name], before[name]) for name in "yz")
    products = [node for node in model.graph if node.op_type == "MatMul"]
    assert [is_op(node.inputs[1].producer(), "Mul") for node in products] == [True, False]  # type: ignore[union-attr]
    assert recognize_dequantizers(model) == 1
    assert operators(model) == {"DequantizeLinear": 2, "MatMul": 2}


@pytest.mark.parametrize("grid", GRIDS)
def test_onnxruntime_computes_with_floats_from_the_start(grid: str, tmp_path: Path) -> None:
    model = product(grid)
    dequantize_at_load(model)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    ort.InferenceSession(ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert operators(ir.load(tmp_path / "optimized.onnx")) == {"MatMul": 1}


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("m = Mul(c, s) y = Add(x, m)", {"s": np.float32(-1)}),
        ("m = Mul(c, s) y = Greater(x, m)", {"s": np.float32(1)}),
        ("m = Mul(c, s) y = Add(x, m)", {"s": np.ones((8, 5), np.float32)}),
        ("m = Sub(c, z) n = Mul(m, s) y = Add(x, n)", {"s": np.float32(1), "z": np.float32(0.5)}),
        ("m = Sub(s, c) y = Add(x, m)", {"s": np.float32(1)}),
        ("m = Mul(c, s) n = Mul(c, x) y = Add(n, m)", {"s": np.float32(1)}),
    ],
    ids=["negative", "compared", "scale per element", "half a zero point", "other order", "two readers"],
)
def test_other_arithmetic_with_integers_stays(text: str, constants: dict[str, NDArray[Any]]) -> None:
    kind = "bool" if "Greater" in text else "float"
    graph = f"g (float[8,5] x) => ({kind}[8,5] y) {{ c = Cast<to=1>(q) {text} }}"
    model = build(graph, q=np.arange(40, dtype=np.int8).reshape(8, 5), **constants)
    before = operators(model)
    assert recognize_dequantizers(model) == 0
    assert operators(model) == before


def test_judging_keeps_what_products_read_in_float() -> None:
    """onnxruntime rounds it to int8 by default."""
    model = product("columns")
    feed = {"x": normal(2, 3, 8)}
    proto = ir.to_proto(model).SerializeToString()
    judged, plain = (DEFAULT_ENGINE.session(proto, threads=1, optimize=fused).run(feed)["y"] for fused in (True, False))
    np.testing.assert_allclose(judged, plain, rtol=0, atol=1e-6 * np.abs(plain).max())


@pytest.mark.parametrize(("rows", "count"), [(500, 1), (5000, 0)])
def test_tables_are_recognized_that_are_written_so(rows: int, count: int) -> None:
    text = "g (int64[4] i) => (float[4,16] y) { t = Cast<to=1>(q) w = Mul(t, s) y = Gather(w, i) }"
    model = build(text, q=np.ones((rows, 16), np.int8), s=np.geomspace(0.1, 1, rows).astype(np.float32).reshape(-1, 1))
    assert recognize_dequantizers(model) == count


GUARDED = {
    "a convolution of single elements beside a Transpose": (
        "g (float[1,40,6,5] x) => (float[1,5,6,32] y) { a = Conv(x, w) y = Transpose<perm = [0,3,2,1]>(a) }",
        normal(32, 40, 1, 1),
        8,
    ),
    "an odd number of elements, 4 bits": (
        "g (float[2,45] x) => (float[2,32] y) { y = MatMul(x, w) }",
        normal(45, 32),
        4,
    ),
}
"""Weights with a Max behind them, for OpenVINO."""


@pytest.mark.parametrize("at_load", [False, True])
@pytest.mark.parametrize("case", GUARDED)
def test_a_guarded_weight_is_read_as_one(case: str, at_load: bool) -> None:
    text, weight, bits = GUARDED[case]
    model = build(text, w=weight)
    before = operators(model)
    settings = WeightSettings(bits=bits, min_channel=0)
    quantized = quantize_weights(model, settings, target="CPU", context=RunContext())
    file = written(quantized)
    if at_load and (bits == 8 or can_cast(ir.DataType.INT4, 21)):
        assert dequantize_at_load(file) == 1
    assert hide_misread_weights(file, quantized.plan) == 1
    assert operators(file)["Max"] == 1
    again = read_qdq(file)
    assert operators(again.model) == before
    (params,) = again.plan.weights.values()
    assert np.array_equal(params.scale, quantized.plan.weights["w"].scale)


def test_stored_weights_beside_integers_become_floats_at_load_behind_their_guard(tmp_path: Path) -> None:
    """A file with integer activations, too, whose recurrent layers compute with floats."""
    text = """g (float[1,32,40] x) => (float[40,1,1,64] y) {
        a = Conv<pads = [1,1]>(x, w1) b = Relu(a) c = Conv<pads = [1,1]>(b, w2) d = Relu(c)
        t = Transpose<perm = [2,0,1]>(d) y = GRU<hidden_size = 64>(t, w, r) }"""
    weights = {"w1": normal(128, 32, 3), "w2": normal(128, 128, 3), "w": normal(1, 192, 128), "r": normal(1, 192, 64)}
    OnnxFormat().write(full(build(text, **weights)), tmp_path / "out.onnx")
    model = ir.load(tmp_path / "out.onnx")
    assert operators(model)["QuantizeLinear"] > 0
    (gru,) = [node for node in model.graph if node.op_type == "GRU"]
    for value in gru.inputs[1:3]:
        guard = value.producer() if value is not None else None
        assert guard is not None and guard.op_type == "Max" and guard.inputs[0] is not None
        spelled_out = guard.inputs[0].producer()
        assert spelled_out is not None and spelled_out.op_type == "Mul"


def test_a_convolution_beside_a_transpose_keeps_its_integer_kernel(tmp_path: Path) -> None:
    """What keeps OpenVINO from stored weights is not written where the convolution computes with integers."""
    text = """g (float[1,40,6,6] x) => (float[1,36,32] y) {
        r = Relu(x) a = Conv(r, w) t = Transpose<perm = [0,3,2,1]>(a) y = Reshape(t, s) }"""
    OnnxFormat().write(full(build(text, w=normal(32, 40, 1, 1), s=np.array([1, 36, 32]))), tmp_path / "out.onnx")
    model = ir.load(tmp_path / "out.onnx")
    assert "Max" not in operators(model)
    assert optimized(model, tmp_path)["QLinearConv"] == 1
