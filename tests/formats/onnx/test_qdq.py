"""Quantized ONNX models keep their own scales."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.onnx import writer as qdq
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.kernels.params import QuantParams, QuantSpec, params_from_range
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.device_rules import violations
from tests.formats.paddle.models import random, small_network
from tests.formats.paddle.plans import convert_to_nb, plan_full, plan_weights
from tests.support import build, normal


def full() -> QuantizedModel:
    model = small_network()
    return plan_full(model, target="arm", bound=4.0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "q.onnx"
    qdq.save(qdq_model(full()), path)
    return path


def test_scales_and_integers_come_back(file: Path) -> None:
    quantized, want = read_qdq(read_onnx(file)), full()
    assert {op.op_type for op in quantized.model.graph}.isdisjoint({"QuantizeLinear", "DequantizeLinear"})
    scales = {name: float(params.scale) for name, params in quantized.plan.activations.items()}
    assert scales == {name: float(params.scale) for name, params in want.plan.activations.items()}
    for name in want.plan.weights:
        assert np.array_equal(quantized.integers(name), want.integers(name))
        assert np.array_equal(quantized.plan.weights[name].scale, want.plan.weights[name].scale)
    assert [node.mode for node in quantized.plan.nodes.values()].count(NodeMode.INTEGER) == 4


def test_the_float_graph_is_the_original_with_dequantized_weights(file: Path) -> None:
    feed = {"x": random(1, 3, 12, 12)}
    quantized, want = read_qdq(read_onnx(file)), full()
    for name, params in want.plan.weights.items():
        values = params.dequantize(want.integers(name))
        want.model.graph.initializers[name].const_value = ir.Tensor(values, name=name)
    results = [
        DEFAULT_ENGINE.session(ir.to_proto(model).SerializeToString(), threads=1).run(feed)["y"]
        for model in (quantized.model, want.model)
    ]
    assert results[0] == pytest.approx(results[1], abs=1e-6)


def test_a_quantized_model_goes_to_nb_with_its_own_scales(file: Path, tmp_path: Path) -> None:
    convert_to_nb(file, tmp_path / "q.nb")
    ops = [op for op in parse((tmp_path / "q.nb").read_bytes()).program.main.operators if op.get("enable_int8")]
    assert [op.type for op in ops] == ["conv2d", "depthwise_conv2d", "conv2d", "fc"]
    assert {op.get("Input0_scale")[0] for op in ops} == {float(np.float32(4.0) / np.float32(127))}


def test_a_model_with_zero_points_computes_in_float_on_arm_and_that_is_reported(tmp_path: Path) -> None:
    quantized = full()
    for name in quantized.plan.activations:
        quantized.plan.activations[name] = params_from_range(-2.0, 4.0, QuantSpec(bits=8, signed=False))
    qdq.save(qdq_model(quantized), tmp_path / "q.onnx")
    (note,) = convert_to_nb(tmp_path / "q.onnx", tmp_path / "q.nb").warnings
    assert note.startswith("4 quantized nodes compute in float: 4 x its data are not symmetric int8")
    operators = parse((tmp_path / "q.nb").read_bytes()).program.main.operators
    assert not any(op.get("enable_int8") for op in operators)


def test_weights_of_minus_128_become_minus_127_where_kernels_are_symmetric(tmp_path: Path) -> None:
    quantized = full()
    params, integers = quantized.plan.weights["w1"], quantized.integers("w1").copy()
    integers.flat[0] = -128
    spec = replace(params.spec, narrow_range=False)
    quantized.plan.weights["w1"] = QuantParams(params.scale.copy(), params.zero_point.copy(), spec)
    quantized.q_weights["w1"] = integers
    qdq.save(qdq_model(quantized), tmp_path / "q.onnx")
    (note,) = convert_to_nb(tmp_path / "q.onnx", tmp_path / "q.nb").warnings
    assert note.startswith("1 weights hold -128")
    file = parse((tmp_path / "q.nb").read_bytes())
    assert violations(file) == []
    stored = file.parameters[file.program.main.operators[2].inputs["Filter"][0]]
    assert np.array_equal(stored, np.maximum(integers, -127))


def test_integer_weights_alone_are_weight_mode(tmp_path: Path) -> None:
    path = tmp_path / "w.onnx"
    qdq.save(qdq_model(plan_weights(small_network(), target="arm", bits=8)), path)
    modes = [node.mode for node in read_qdq(read_onnx(path)).plan.nodes.values()]
    assert modes.count(NodeMode.WEIGHT) >= 3
    assert NodeMode.INTEGER not in modes


@pytest.mark.parametrize(("kind", "most"), [("INT8", 127), ("INT4", 7), ("UINT8", 255)])
def test_weights_are_stored_in_the_type_that_their_quantizer_names(kind: str, most: int) -> None:
    weight, low = normal(6, 4), 0 if kind.startswith("U") else -most
    scale = np.float32(np.abs(weight).max() / most)
    stored = f"q = QuantizeLinear<output_dtype={ir.DataType[kind].value}>(w, s) d = DequantizeLinear(q, s)"
    model = build(f"g (float[2,6] x) => (float[2,4] y) {{ {stored} y = MatMul(x, d) }}", opset=21, w=weight, s=scale)
    (name,) = (quantized := read_qdq(model)).plan.weights
    np.testing.assert_array_equal(quantized.integers(name), np.clip(np.rint(weight / scale), low, most))


@pytest.mark.parametrize("grid", ["double, zero", "scale, five", "double"])
def test_integers_that_are_taken_for_those_of_another_grid_are_refused(grid: str) -> None:
    nodes = f"q = QuantizeLinear(x, scale, zero) y = DequantizeLinear(q, {grid})"
    known = {"scale": np.float32(0.1), "double": np.float32(0.2), "zero": np.int8(0), "five": np.int8(5)}
    model = build(f"g (float[4] x) => (float[4] y) {{ {nodes} }}", **{n: a for n, a in known.items() if n in nodes})
    with pytest.raises(ModelError, match="is not that of QuantizeLinear_0"):
        read_qdq(model)


def test_an_output_behind_qdq_keeps_its_name() -> None:
    model = build(
        "g (float[2] x) => (float[2] y) { r = Relu(x) q = QuantizeLinear(r, s, z) y = DequantizeLinear(q, s, z) }",
        s=np.float32(0.1),
        z=np.int8(0),
    )
    quantized = read_qdq(model)
    assert [value.name for value in quantized.model.graph.outputs] == ["y"]
    assert [node.op_type for node in quantized.model.graph] == ["Relu", "Identity"]
    assert list(quantized.plan.activations) == ["r"]


def test_integer_operators_are_refused_with_their_names() -> None:
    model = build(
        "g (float[2,2] x) => (float[2,2] y) { q, s, z = DynamicQuantizeLinear(x) y = DequantizeLinear(q, s, z) }"
    )
    with pytest.raises(ModelError, match="DynamicQuantizeLinear"):
        read_qdq(model)


@pytest.mark.parametrize(
    ("graph", "sentence"),
    {
        "g (uint8[2] x) => (float[2] y) { y = DequantizeLinear(x, s, z) }": "input 'x' takes integers",
        "g (float[2] x) => (uint8[2] y) { y = QuantizeLinear(x, s, z) }": "output 'y' gives integers",
    }.items(),
)
def test_integers_at_the_interface_are_refused_with_the_name_of_the_end(graph: str, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence) as caught:
        read_qdq(build(graph, s=np.float32(0.1), z=np.uint8(3)))
    assert "--saveType=ONNX" in str(caught.value)
