"""LSTMs that compute with integers: the operator, what is chosen for it, and reading it back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ConfigError
from converter_lite.formats.onnx.format import OnnxFormat
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.kernels.pairs import count_violations
from converter_lite.quantization.dynamic import quantize_dynamic
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.recurrent import DOMAIN, GRIDS, LEAST_WORK, OPERATOR
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.saturation import saturating_weights
from tests.support import build, clone, normal, operators, run, samples_of, sqnr, written

Array = NDArray[np.float32]

UNITS, COLUMNS = 64, 48


def lstm(
    *,
    attributes: str = "",
    directions: int = 1,
    inputs: str = "x, w, r, b",
    graph_inputs: str = f"float[7,2,{COLUMNS}] x",
    units: int = UNITS,
    **constants: object,
) -> ir.Model:
    text = f"""g ({graph_inputs}) => (float[7,{directions},2,{units}] y, float[{directions},2,{units}] h,
        float[{directions},2,{units}] c) {{ y, h, c = LSTM<hidden_size = {units}{attributes}>({inputs}) }}"""
    root = np.float32(np.sqrt(units))
    return build(
        text,
        opset=14,
        w=normal(directions, 4 * units, COLUMNS, seed=2) / root,
        r=normal(directions, 4 * units, units, seed=3) / root,
        **({"b": normal(directions, 8 * units, seed=4) / 4} if ", b" in inputs else {}),
        **constants,  # type: ignore[arg-type]
    )


def dynamic(model: ir.Model, plan: QuantPlan | None = None, **settings: object) -> QuantizedModel:
    choices = DynamicSettings(**settings)  # type: ignore[arg-type]
    return quantize_dynamic(clone(model), choices, target="CPU", plan=plan, context=RunContext())


def mode(quantized: QuantizedModel) -> NodeMode:
    return next(node.mode for node in quantized.plan.nodes.values())


def rounded(values: Array) -> tuple[NDArray[np.int64], float, int]:
    """DynamicQuantizeLinear as the ONNX specification defines it."""
    low, high = min(values.min(), np.float32(0)), max(values.max(), np.float32(0))
    scale = np.float32((high - low) / np.float32(255))
    zero = int(np.clip(np.rint(-low / scale), 0, 255))
    return np.clip(np.rint(values / scale) + zero, 0, 255).astype(np.int64) - zero, float(scale), zero


def steps(x: Array, model: onnx.ModelProto) -> Array:
    """One direction of the operator, step by step: products of integers, all else as the LSTM of the ONNX specification."""
    node = next(node for node in model.graph.node if node.op_type == OPERATOR)
    constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    (w, w_scale, w_zero), (r, r_scale, r_zero) = ([constants[node.input[i]] for i in grid] for grid in GRIDS)
    assert not w_zero.any() and not r_zero.any()
    b = constants[node.input[3]][0]
    units = r.shape[1]
    q_x, x_scale, _ = rounded(x)
    h, c, found = np.zeros((x.shape[1], units), np.float32), np.zeros((x.shape[1], units), np.float32), []
    for step in range(len(x)):
        q_h, h_scale, _ = rounded(h) if h.any() else (h.astype(np.int64), 1.0, 0)
        gates = (q_x[step] @ w[0].astype(np.int64)) * x_scale * w_scale[0]
        gates = gates + (q_h @ r[0].astype(np.int64)) * h_scale * r_scale[0] + b[: 4 * units] + b[4 * units :]
        i, o, f, g = np.split(gates, 4, axis=1)
        sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
        c = (sigmoid(f) * c + sigmoid(i) * np.tanh(g)).astype(np.float32)
        h = (sigmoid(o) * np.tanh(c)).astype(np.float32)
        found.append(h)
    return np.stack(found)


def test_it_multiplies_integers(tmp_path: Path) -> None:
    model = lstm()
    quantized = dynamic(model)
    assert mode(quantized) is NodeMode.DYNAMIC
    made = OnnxFormat().write(quantized, tmp_path / "o.onnx")
    assert any("recurrent_operator=false" in note for note in made.notes)
    proto = onnx.load(tmp_path / "o.onnx")
    x = samples_of(model)[0]["x"]
    found = run(tmp_path / "o.onnx", {"x": x})["y"][:, 0]
    np.testing.assert_allclose(found, steps(x, proto), atol=2e-6)
    assert sqnr(model, ir.load(tmp_path / "o.onnx"), samples_of(model)) > 30


def test_no_pair_of_its_weights_saturates_a_kernel() -> None:
    model = lstm(directions=2, attributes=', direction="bidirectional"')
    quantized = dynamic(model)
    for name, params in quantized.plan.weights.items():
        integers = quantized.integers(name)
        assert params.pair_rules and count_violations(integers, params.pair_rules) == 0
        assert np.abs(integers).max() > 64
    assert saturating_weights(written(quantized)) == []
    free = dynamic(model, portable=False)
    assert len(saturating_weights(written(free))) == 2
    for name, params in quantized.plan.weights.items():  # its numbers would depend on the processor
        assert np.all(free.plan.weights[name].scale <= params.scale)
        assert np.any(free.plan.weights[name].scale < params.scale)


FORMS = {
    "both directions": {"directions": 2, "attributes": ', direction="bidirectional"'},
    "backwards": {"attributes": ', direction="reverse"'},
    "lengths and first states": {
        "inputs": "x, w, r, b, lengths, h0, c0",
        "graph_inputs": f"float[7,2,{COLUMNS}] x, float[1,2,{UNITS}] h0, float[1,2,{UNITS}] c0",
        "lengths": np.array([7, 4], np.int32),
    },
    "peepholes": {"inputs": "x, w, r, b, , , , p", "p": normal(1, 3 * UNITS, seed=9) / 8},
    "no bias": {"inputs": "x, w, r"},
    "limits and other activations": {"attributes": ', clip = 3.0, activations = ["HardSigmoid", "Tanh", "Tanh"]'},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    model = lstm(**FORMS[form])  # type: ignore[arg-type]
    quantized = dynamic(model)
    assert mode(quantized) is NodeMode.DYNAMIC
    result = written(quantized)
    assert operators(result) == {OPERATOR: 1}
    assert sqnr(model, result, samples_of(model)) > 28


def test_layers_with_the_same_weights_share_the_integers() -> None:
    model = build(
        f"""g (float[3,1,{UNITS}] x) => (float[3,1,1,{UNITS}] y, float[3,1,1,{UNITS}] z) {{
            y = LSTM<hidden_size = {UNITS}>(x, w, w) n = Neg(x) z = LSTM<hidden_size = {UNITS}>(n, w, w) }}""",
        opset=14,
        w=normal(1, 4 * UNITS, UNITS) / 8,
    )
    result = written(dynamic(model))
    assert operators(result)[OPERATOR] == 2
    assert len(result.graph.initializers) == 3
    assert sqnr(model, result, samples_of(model)) > 28


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (lstm(units=32), NodeMode.WEIGHT),  # 10,240 multiplications
        (lstm(units=48), NodeMode.WEIGHT if 4 * 48 * (48 + COLUMNS) < LEAST_WORK else NodeMode.DYNAMIC),
        (lstm(), NodeMode.DYNAMIC),
    ],
)
def test_small_layers_are_faster_with_floats(model: ir.Model, expected: NodeMode) -> None:
    assert mode(dynamic(model)) is expected


@pytest.mark.parametrize("kind", ["layout", "GRU", "recurrent_operator=false"])
def test_what_has_no_such_operator_only_stores_integers(kind: str) -> None:
    if kind == "layout":
        model = build(
            f"g (float[2,7,{COLUMNS}] x) => (float[2,7,1,{UNITS}] y) {{ y = LSTM<hidden_size={UNITS}, layout=1>(x, w, r) }}",
            opset=14,
            w=normal(1, 4 * UNITS, COLUMNS),
            r=normal(1, 4 * UNITS, UNITS),
        )
    elif kind == "GRU":
        model = build(
            f"g (float[7,2,{COLUMNS}] x) => (float[7,1,2,{UNITS}] y) {{ y = GRU<hidden_size={UNITS}>(x, w, r) }}",
            opset=14,
            w=normal(1, 3 * UNITS, COLUMNS),
            r=normal(1, 3 * UNITS, UNITS),
        )
    else:
        model = lstm()
    settings = {"recurrent": NodeMode.WEIGHT} if kind == "recurrent_operator=false" else {}
    assert mode(dynamic(model, **settings)) is NodeMode.WEIGHT


def test_a_plan_gives_the_same_file_and_is_checked() -> None:
    model = lstm()
    first = dynamic(model)
    plan = QuantPlan.from_json(first.plan.to_json(), where="plan")
    again = dynamic(model, plan)
    for name in first.plan.weights:
        np.testing.assert_array_equal(again.integers(name), first.integers(name))
    free = dynamic(model, portable=False).plan
    with pytest.raises(ConfigError, match="has no pair_rules"):
        dynamic(model, free)
    gru = build(
        f"g (float[7,2,{COLUMNS}] x) => (float[7,1,2,{UNITS}] y) {{ y = GRU<hidden_size={UNITS}>(x, w, r) }}",
        opset=14,
        w=normal(1, 3 * UNITS, COLUMNS),
        r=normal(1, 3 * UNITS, UNITS),
    )
    plan = dynamic(gru).plan
    plan.quantize(gru.graph.node("GRU_0"), NodeMode.DYNAMIC)
    with pytest.raises(ConfigError) as error:
        dynamic(gru, plan)
    assert error.value.problems == ("plan: GRU_0 (GRU) cannot be dynamic: its operator has no dynamic form",)


def test_a_plan_with_a_dynamic_convolution_is_refused() -> None:
    model = build("g (float[1,1,4,4] x) => (float[1,1,4,4] y) { y = Conv(x, w) }", w=normal(1, 1, 1, 1))
    plan = dynamic(model).plan
    plan.quantize(model.graph.node("Conv_0"), NodeMode.DYNAMIC)
    with pytest.raises(ConfigError) as error:
        dynamic(model, plan)
    assert "Conv_0 (Conv) cannot be dynamic" in error.value.problems[0]


@pytest.mark.parametrize("directions", [1, 2])
def test_a_written_file_is_read_back_with_its_plan(directions: int, tmp_path: Path) -> None:
    model = lstm(directions=directions, attributes=', direction="bidirectional"' if directions == 2 else "")
    quantized = dynamic(model)
    OnnxFormat().write(quantized, tmp_path / "o.onnx")
    again = read_qdq(ir.load(tmp_path / "o.onnx"))
    assert [node.mode for node in again.plan.nodes.values()] == [NodeMode.DYNAMIC]
    assert operators(again.model) == {"LSTM": 1}
    for (name, before), after in zip(quantized.plan.weights.items(), again.plan.weights, strict=True):
        np.testing.assert_array_equal(again.integers(after), quantized.integers(name))
        np.testing.assert_array_equal(again.plan.weights[after].scale, before.scale)
    OnnxFormat().write(again, tmp_path / "again.onnx")
    x = samples_of(model)[0]
    for name, expected in run(tmp_path / "o.onnx", x).items():
        np.testing.assert_array_equal(run(tmp_path / "again.onnx", x)[name], expected)


@pytest.mark.parametrize("form", ["a scale per direction", "uint8", "scales of their own"])
def test_files_of_other_tools(form: str) -> None:
    """onnxruntime's quantizer gives each direction one scale, or each its own rows of them."""
    rng = np.random.default_rng(5)
    directions = 2
    unsigned = form == "uint8"
    dtype = np.uint8 if unsigned else np.int8
    shape = (directions,) if form == "a scale per direction" else (directions, 4 * UNITS)
    arrays = {}
    for name, columns in (("w", COLUMNS), ("r", UNITS)):
        integers = rng.integers(-64, 65, (directions, columns, 4 * UNITS)) + (128 if unsigned else 0)
        scale = rng.uniform(0.001, 0.002, shape) if form != "uint8" else np.full(shape, 0.001)
        zero = np.full(shape, 128 if unsigned else 0)
        arrays |= {name: integers.astype(dtype), f"{name}s": scale.astype(np.float32), f"{name}z": zero.astype(dtype)}
    text = f"""g (float[7,2,{COLUMNS}] x) => (float[7,2,2,{UNITS}] y) {{
        y = com.microsoft.{OPERATOR}<hidden_size = {UNITS}, direction = "bidirectional">(x, w, r, , , , , , ws, wz, rs, rz) }}"""
    model = build(text, opset=14, **arrays)
    model.graph.opset_imports[DOMAIN] = 1
    samples = samples_of(model)
    again = read_qdq(clone(model))
    assert operators(again.model) == {"LSTM": 1}
    kept = form == "uint8"  # the only one whose directions share their scales
    assert [node.mode for node in again.plan.nodes.values()] == [NodeMode.DYNAMIC if kept else NodeMode.FLOAT]
    assert sqnr(model, again.model, samples) > 35
