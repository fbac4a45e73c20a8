"""Models in which a kernel could saturate, and the same models with uint8 weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from numpy.typing import NDArray

from converter_lite.errors import ConfigError
from converter_lite.graph import all_nodes, constant
from converter_lite.quantization.plan import QuantizedModel, QuantPlan
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.saturation import has_integer_weights, saturating_weights, without_saturation
from converter_lite.runtime.serializing import open_file, open_session
from tests.support import build, build_proto, clone, full, normal, run, samples_of, since

LARGE = np.array([[127, 120, -5, 3], [100, 90, 80, -70]], np.int8)
"""Two sums of four products; the first pair of each can saturate."""

STEP = np.float32(0.05)
INPUT = {"s": STEP, "zx": np.uint8(100), "sw": np.float32(0.02)}


def qdq(
    operator: str, weight: NDArray[np.int8], x: str, y: str, *, per_channel: bool = False, zero: bool = True
) -> ir.Model:
    """One product between DequantizeLinear and QuantizeLinear."""
    axis = 1 if operator.startswith("MatMul") else 0
    scale = np.full(weight.shape[axis], 0.02, np.float32) if per_channel else np.float32(0.02)
    point = np.zeros(scale.shape, np.int8)
    dequantize = f"DequantizeLinear<axis = {axis}>(w, sw{', zw' if zero else ''})"
    name, _, attributes = operator.partition("<")
    attributes = f"<{attributes}" if attributes else ""
    return build(
        f"""g (float[{x}] x) => (float[{y}] y) {{
            q = QuantizeLinear(x, s, zx) d = DequantizeLinear(q, s, zx) v = {dequantize}
            r = {name}{attributes}(d, v) qr = QuantizeLinear(r, s, zx) y = DequantizeLinear(qr, s, zx) }}""",
        **INPUT | {"sw": scale, "w": weight} | ({"zw": point} if zero else {}),
    )


def integer(expression: str, x: str, y: str, *, of: str = "uint8", to: str = "uint8", **constants: Any) -> ir.Model:
    """One integer operator."""
    return build(f"g ({of}[{x}] x) => ({to}[{y}] y) {{ y = {expression} }}", **INPUT | constants)


LINEAR = "(x, s, zx, w, sw, zw, s, zx)"

SATURATING: dict[str, Callable[[], ir.Model]] = {
    "Conv": lambda: qdq("Conv", LARGE.reshape(2, 4, 1, 1), "1,4,3,3", "1,2,3,3"),
    "Conv, a step for each channel": lambda: qdq(
        "Conv", LARGE.reshape(2, 4, 1, 1), "1,4,3,3", "1,2,3,3", per_channel=True
    ),
    "Conv in groups": lambda: qdq("Conv<group = 2>", LARGE.reshape(2, 4, 1, 1), "1,8,3,3", "1,2,3,3"),
    "Conv, two readers of each channel": lambda: qdq(
        "Conv<group = 1>", np.repeat(LARGE[1], 2).reshape(2, 1, 2, 2), "1,1,3,3", "1,2,2,2"
    ),
    "Gemm": lambda: qdq("Gemm<transB = 1>", LARGE, "3,4", "3,2"),
    "MatMul": lambda: qdq("MatMul", LARGE.T.copy(), "3,4", "3,2"),
    "MatMul, a step for each channel": lambda: qdq("MatMul", LARGE.T.copy(), "3,4", "3,2", per_channel=True),
    "MatMul, no zero point": lambda: qdq("MatMul", LARGE.T.copy(), "3,4", "3,2", zero=False),
    "MatMul, steps and no zero point": lambda: qdq(
        "MatMul", LARGE.T.copy(), "3,4", "3,2", per_channel=True, zero=False
    ),
    "QLinearConv": lambda: integer(
        f"QLinearConv{LINEAR}", "1,4,3,3", "1,2,3,3", w=LARGE.reshape(2, 4, 1, 1), zw=np.int8(0)
    ),
    "QLinearConv, a step for each channel": lambda: integer(
        f"QLinearConv{LINEAR}",
        "1,4,3,3",
        "1,2,3,3",
        w=LARGE.reshape(2, 4, 1, 1),
        sw=np.full(2, 0.02, np.float32),
        zw=np.zeros(2, np.int8),
    ),
    "QLinearMatMul": lambda: integer(f"QLinearMatMul{LINEAR}", "3,4", "3,2", w=LARGE.T.copy(), zw=np.int8(3)),
    "MatMulInteger": lambda: integer("MatMulInteger(x, w)", "3,4", "3,2", to="int32", w=LARGE.T.copy()),
    "MatMulInteger, zero points": lambda: integer(
        "MatMulInteger(x, w, zx, zw)", "3,4", "3,2", to="int32", w=LARGE.T.copy(), zw=np.array([2, -3], np.int8)
    ),
    "ConvInteger": lambda: integer(
        "ConvInteger(x, w, zx, zw)", "1,4,3,3", "1,2,3,3", to="int32", w=LARGE.reshape(2, 4, 1, 1), zw=np.int8(0)
    ),
}

FITTING: dict[str, Callable[[], ir.Model]] = {
    "small weights": lambda: qdq("Gemm<transB = 1>", LARGE // 2, "3,4", "3,2"),
    "depthwise": lambda: qdq("Conv<group = 2>", np.full((2, 1, 2, 2), 127, np.int8), "1,2,3,3", "1,2,2,2"),
    "QLinearConv, depthwise": lambda: integer(
        f"QLinearConv<group = 2>{LINEAR}", "1,2,3,3", "1,2,2,2", w=np.full((2, 1, 2, 2), 127, np.int8), zw=np.int8(0)
    ),
    "uint8 weights": lambda: integer(
        f"QLinearMatMul{LINEAR}", "3,4", "3,2", w=(LARGE.T.astype(np.int16) + 128).astype(np.uint8), zw=np.uint8(128)
    ),
    "QLinearConv, int8 activations": lambda: integer(
        f"QLinearConv{LINEAR}",
        "1,4,3,3",
        "1,2,3,3",
        of="int8",
        to="int8",
        w=LARGE.reshape(2, 4, 1, 1),
        zw=np.int8(0),
        zx=np.int8(-10),
    ),
    "MatMulInteger, int8 activations": lambda: integer(
        "MatMulInteger(x, w)", "3,4", "3,2", of="int8", to="int32", w=LARGE.T.copy()
    ),
    "weights that are stored as integers": lambda: build(
        "g (float[3,4] x) => (float[3,2] y) { v = DequantizeLinear(w, sw) y = MatMul(x, v) }",
        w=LARGE.T.copy(),
        sw=np.float32(0.02),
    ),
}


def feeds(model: ir.Model) -> dict[str, NDArray[Any]]:
    """Real numbers, or integers so small that two products of them fit into 16 bits: kernels of no processor saturate."""
    (value,) = model.graph.inputs
    assert value.shape is not None and value.dtype is not None
    shape, dtype = value.shape.numpy(), value.dtype.numpy()
    if dtype == np.float32:
        return {"x": normal(*shape) * 5}
    largest = min(np.iinfo(dtype).max, 128)
    return {"x": np.random.default_rng(1).integers(np.iinfo(dtype).min, largest, shape, dtype, endpoint=True)}


def real_weights(model: ir.Model) -> list[NDArray[np.float32]]:
    """What the dequantized constants are."""
    found = []
    for node in all_nodes(model.graph):
        array = constant(node.inputs[0]) if node.op_type == "DequantizeLinear" else None
        if array is None:
            continue
        zero = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        scale = constant(node.inputs[1])
        assert scale is not None
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
        shape = [-1 if i == axis and scale.size > 1 else 1 for i in range(array.ndim)]
        shift = np.int64(0) if zero is None else zero.astype(np.int64).reshape(shape)
        found.append((array.astype(np.int64) - shift) * scale.reshape(shape))
    return found


def types_of_constants(model: ir.Model) -> dict[ir.DataType | None, int]:
    values = [value for graph in model.graphs() for value in graph.initializers.values()]
    return {dtype: sum(1 for v in values if v.dtype is dtype) for dtype in (ir.DataType.INT8, ir.DataType.UINT8)}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=since("onnxruntime", 1, 20, reason="has no ConvInteger") if case == "ConvInteger" else ()
        )
        for case in SATURATING
    ],
)
def test_weights_that_saturate_become_uint8_and_stay_the_same_numbers(case: str) -> None:
    model = SATURATING[case]()
    before = ir.to_proto(model).SerializeToString(deterministic=True)
    (found,) = saturating_weights(model)
    assert (found.weight, 0 < found.pairs <= found.of) == ("w", True)
    changed = without_saturation(model)
    assert changed is not model
    assert ir.to_proto(model).SerializeToString(deterministic=True) == before
    assert types_of_constants(changed)[ir.DataType.INT8] == 0
    onnx.checker.check_model(ir.to_proto(changed))
    for ours, theirs in zip(real_weights(model), real_weights(changed), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    feed = feeds(model)
    np.testing.assert_array_equal(run(changed, feed)["y"], run(model, feed)["y"])
    assert saturating_weights(changed) == []
    assert without_saturation(changed) is changed


@pytest.mark.parametrize("case", FITTING)
def test_a_model_that_cannot_saturate_is_left_alone_and_runs(case: str) -> None:
    model = FITTING[case]()
    assert saturating_weights(model) == []
    assert without_saturation(model) is model
    feed = feeds(model)
    expected = run(model, feed)["y"]
    step = 0 if expected.dtype != np.float32 else 0.05  # products of floats and stored integers may be approximated
    np.testing.assert_allclose(open_session(DEFAULT_ENGINE, model).run(feed)["y"], expected, rtol=0, atol=step * 1.001)


def test_what_is_counted_are_pairs() -> None:
    model = SATURATING["Gemm"]()
    (found,) = saturating_weights(model)
    assert (found.pairs, found.of) == (2, 4)
    assert found.node.startswith("Gemm")


def test_has_integer_weights_tells_floats_from_integers() -> None:
    assert has_integer_weights(SATURATING["Gemm"]())
    assert has_integer_weights(FITTING["small weights"]())
    assert not has_integer_weights(FITTING["uint8 weights"]())
    assert not has_integer_weights(FITTING["weights that are stored as integers"]())


def test_one_weight_of_two_nodes_is_changed_once() -> None:
    model = build(
        """g (uint8[3,4] x) => (int32[3,2] y, int32[3,2] z) {
            y = MatMulInteger(x, w, zx, zw) z = MatMulInteger(x, w) }""",
        w=LARGE.T.copy(),
        zx=np.uint8(7),
        zw=np.int8(0),
    )
    assert [found.weight for found in saturating_weights(model)] == ["w", "w"]
    changed, feed = without_saturation(model), feeds(model)
    assert len(changed.graph.initializers) == 4  # zx, the weight, and a zero point for each node
    for name, array in run(model, feed).items():
        np.testing.assert_array_equal(run(changed, feed)[name], array)


def test_one_dequantized_weight_of_two_nodes_is_changed_once() -> None:
    model = build(
        """g (float[3,2] x) => (float[3,2] y) {
            q = QuantizeLinear(x, s, zx) d = DequantizeLinear(q, s, zx) v = DequantizeLinear(w, sw, zw)
            a = MatMul(d, v) qa = QuantizeLinear(a, s, zx) da = DequantizeLinear(qa, s, zx) y = MatMul(da, v) }""",
        w=np.array([[127, 90], [127, -90]], np.int8),
        zw=np.int8(0),
        **INPUT,
    )
    assert len(saturating_weights(model)) == 2
    changed, feed = without_saturation(model), feeds(model)
    assert types_of_constants(changed) == {ir.DataType.INT8: 0, ir.DataType.UINT8: 3}
    np.testing.assert_array_equal(run(changed, feed)["y"], run(model, feed)["y"])
    exact = open_session(DEFAULT_ENGINE, model).run(feed)["y"]
    np.testing.assert_allclose(exact, run(model, feed)["y"], atol=STEP * 2 * 127 * 0.02)


def recurrent(input_weight: int, state_weight: int, *, state_is_computed: bool = False) -> ir.Model:
    """An LSTM of integers with two inputs and one unit; each weight is one number everywhere."""
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[3,1,2] x) => (float[3,1,1,1] y) {
            y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 1>(x, w, r, , , , , , sw, zw, sr, zr) }"""
    )
    arrays = {"w": np.full((1, 2, 4), input_weight, np.int8), "r": np.full((1, 1, 4), state_weight, np.int8)}
    if state_is_computed:
        given = arrays.pop("r")
        proto.graph.input.append(onnx.helper.make_tensor_value_info("r", onnx.TensorProto.INT8, given.shape))
    arrays |= {"sw": np.full(1, 0.01, np.float32), "zw": np.zeros(1, np.int8)}
    arrays |= {"sr": np.full(1, 0.01, np.float32), "zr": np.zeros(1, np.int8)}
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return ir.from_proto(proto)


@pytest.mark.parametrize("weights", [(127, 3), (3, 3)])
def test_both_weights_of_an_lstm_are_of_one_type(weights: tuple[int, int]) -> None:
    model = recurrent(*weights)
    changed = without_saturation(model)
    large = max(weights) > 64
    assert (changed is not model) is large
    assert types_of_constants(changed) == {ir.DataType.INT8: 0 if large else 4, ir.DataType.UINT8: 4 if large else 0}
    feed = {"x": normal(3, 1, 2) / 8}
    np.testing.assert_allclose(run(changed, feed)["y"], run(model, feed)["y"], atol=1e-6)


def test_an_lstm_with_a_computed_weight_keeps_the_other_one() -> None:
    model = recurrent(127, 3, state_is_computed=True)
    assert without_saturation(model) is model


def test_integers_that_something_else_reads_too_stay() -> None:
    model = build(
        """g (uint8[3,4] x, int64[2] i) => (int32[3,2] y, int8[2,2] z) {
            y = MatMulInteger(x, w) z = Gather(w, i) }""",
        w=LARGE.T.copy(),
    )
    changed = without_saturation(model)
    assert types_of_constants(changed) == {ir.DataType.INT8: 1, ir.DataType.UINT8: 2}
    onnx.checker.check_model(ir.to_proto(changed))


BODY = """
<ir_version: 8, opset_import: ["" : 13]>
g (uint8[2,4] x, bool c) => (int32[2,2] y) {
    y = If (c) <then_branch = t () => (int32[2,2] a) { a = MatMulInteger(x, w) },
                else_branch = e () => (int32[2,2] b) { b = Sub(zero, zero) }>
}
"""


def test_weights_that_subgraphs_read_are_changed_too() -> None:
    proto = onnx.parser.parse_model(BODY)
    for name, array in {"w": LARGE.T.copy(), "zero": np.zeros((2, 2), np.int32)}.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = ir.from_proto(proto)
    (found,) = saturating_weights(model)
    assert found.weight == "w"
    changed = without_saturation(model)
    assert set(changed.graph.initializers) == {"zero", "w_uint8", "w_middle"}
    for condition in (True, False):
        feed = {"x": np.full((2, 4), 128, np.uint8), "c": np.array(condition)}
        np.testing.assert_array_equal(run(changed, feed)["y"], run(model, feed)["y"])


def test_weights_inside_of_a_loop_are_changed_there() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 13]>
        g (uint8[2,4] x, int64 n) => (int32[2,2] y) {
            y = Loop(n, , start) <body = l (int64 i, bool go, int32[2,2] before) => (bool on, int32[2,2] after)
                { on = Identity(go) m = MatMulInteger(x, w) after = Add(before, m) }>
        }"""
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((2, 2), np.int32), "start"))
    body = proto.graph.node[0].attribute[0].g
    body.initializer.append(onnx.numpy_helper.from_array(LARGE.T.copy(), "w"))
    model = ir.from_proto(proto)
    assert len(saturating_weights(model)) == 1
    changed = without_saturation(model)
    assert types_of_constants(changed)[ir.DataType.INT8] == 0
    feed = {"x": np.full((2, 4), 255, np.uint8), "n": np.array(3, np.int64)}
    np.testing.assert_array_equal(run(changed, feed)["y"], 3 * feed["x"].astype(np.int32) @ LARGE.T.astype(np.int32))


def test_files_are_opened_exactly_too(tmp_path: Any) -> None:
    model = SATURATING["MatMulInteger"]()
    proto = ir.to_proto(model)
    onnx.save(proto, tmp_path / "m.onnx")
    feed = {"x": np.full((3, 4), 255, np.uint8)}
    expected = feed["x"].astype(np.int32) @ LARGE.T.astype(np.int32)
    for file in (tmp_path / "m.onnx", proto.SerializeToString()):
        np.testing.assert_array_equal(open_file(DEFAULT_ENGINE, file).run(feed)["y"], expected)


def test_weights_in_constant_nodes_are_seen_when_a_file_is_opened() -> None:
    """What is loaded holds no int8 weight: a processor with exact kernels could not tell."""
    proto = build_proto("g (uint8[3,4] x) => (int32[3,2] y) { y = MatMulInteger(x, w) }", w=LARGE.T.copy())
    tensor = proto.graph.initializer.pop()
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["w"], value=tensor))
    loaded: list[bytes] = []

    class Recorder:
        def session(self, model: Any, **_: Any) -> Any:
            loaded.append(model)

    open_file(Recorder(), proto.SerializeToString())
    assert types_of_constants(ir.from_proto(onnx.load_model_from_string(loaded[0])))[ir.DataType.INT8] == 0


def test_weights_that_can_be_overridden_are_no_constants() -> None:
    proto = build_proto("g (uint8[3,4] x, int8[4,2] w) => (int32[3,2] y) { y = MatMulInteger(x, w) }", w=LARGE.T.copy())
    model = ir.from_proto(proto)
    assert without_saturation(model) is model
    assert not has_integer_weights(model)


@pytest.fixture(scope="module")
def quantized() -> QuantizedModel:
    model = build(
        """g (float[1,6,5,5] x) => (float[1,4] y) {
            a = Conv(x, w1) b = Relu(a) c = GlobalAveragePool(b) f = Flatten(c) y = Gemm<transB = 1>(f, w2) }""",
        w1=normal(8, 6, 3, 3, seed=1),
        w2=normal(4, 8, seed=2),
    )
    return full(model, samples=samples_of(model))


def test_a_plan_keeps_its_rules_in_json(quantized: QuantizedModel) -> None:
    plan = quantized.plan
    rules = {name: params.pair_rules for name, params in plan.weights.items()}
    assert any(rules.values())
    back = QuantPlan.from_json(json.loads(json.dumps(plan.to_json())), where="plan.json")
    assert {name: params.pair_rules for name, params in back.weights.items()} == rules


def _first_rule(data: dict[str, Any]) -> dict[str, Any]:
    return next(weight["pair_rules"][0] for weight in data["weights"].values() if "pair_rules" in weight)


MISTAKES: dict[str, Callable[[dict[str, Any]], object]] = {
    "no rows": lambda rule: rule.pop("rows"),
    "rows are a number": lambda rule: rule.update(rows=3),
    "summed is text": lambda rule: rule.update(summed="all"),
    "restart is nothing": lambda rule: rule.update(restart=None),
    "restart is negative": lambda rule: rule.update(restart=-2),
    "unknown field": lambda rule: rule.update(limit=200),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_rule_with_a_mistake_is_refused(quantized: QuantizedModel, mistake: str) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    MISTAKES[mistake](_first_rule(data))
    with pytest.raises(ConfigError, match="not a usable plan"):
        QuantPlan.from_json(data, where="plan.json")


@pytest.mark.parametrize("change", [{"rows": [0, 1]}, {"summed": []}, {"rows": [7]}, {"restart": 5}])
def test_a_rule_that_does_not_fit_its_weight_is_refused(quantized: QuantizedModel, change: dict[str, Any]) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    _first_rule(data).update(change)
    plan = QuantPlan.from_json(data, where="plan.json")
    assert quantized.reference is not None
    with pytest.raises(ConfigError) as error:
        plan.check(clone(quantized.reference))
    assert "pair_rules" in str(error.value.problems)


def test_a_rule_that_is_not_that_of_the_kernel_is_refused(quantized: QuantizedModel) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    rule = _first_rule(data)
    rule.update(rows=rule["summed"][:1], summed=[*rule["summed"][1:], *rule["rows"]], restart=0)
    plan = QuantPlan.from_json(data, where="plan.json")
    assert quantized.reference is not None
    with pytest.raises(ConfigError, match="pair_rules") as error:
        full(quantized.reference, plan=plan)
    assert "pair_rules" in str(error.value.problems)


def test_a_plan_of_the_whole_grid_is_refused(quantized: QuantizedModel) -> None:
    data = json.loads(json.dumps(quantized.plan.to_json()))
    for weight in data["weights"].values():
        weight.pop("pair_rules", None)
    assert quantized.reference is not None
    with pytest.raises(ConfigError, match="pair_rules"):
        full(quantized.reference, plan=QuantPlan.from_json(data, where="plan.json"))
