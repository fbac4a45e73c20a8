"""Models that break careless converters: dead channels, shared constants, NaN, inputs that are outputs, subgraphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.calibration.observers import METHODS
from converter_lite.errors import CalibrationError
from converter_lite.kernels.pairs import count_violations
from converter_lite.kernels.similarity import cosine_similarity
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import open_session
from converter_lite.targets.devices import TARGETS
from tests import support
from tests.support import Samples, build, normal, operators, random_feed, run, samples_of, sqnr, written

TWO_CONVS = "g (float[1,3,8,8] x) => (float[1,4,4,4] y) { a = Conv(x, w, b) y = Conv(a, v, c) }"


def full(model: ir.Model, target: str = "CPU", **settings: Any) -> QuantizedModel:
    """Full quantization with equalization, which degenerate channels hurt most."""
    return support.full(model, target, **{"equalization": True, **settings})


def two_convs(**changed: np.ndarray) -> ir.Model:
    constants = {"w": normal(4, 3, 3, 3), "b": normal(4), "v": normal(4, 4, 3, 3), "c": normal(4), **changed}
    return build(TWO_CONVS, **constants)


def assert_close(model: ir.Model, target: str = "CPU", *, at_least: float = 20, **settings: object) -> ir.Model:
    samples = samples_of(model)
    result = written(full(model, target, samples=samples, **settings))
    assert sqnr(model, result, samples) > at_least
    return result


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_that_is_always_zero(target: str, method: str) -> None:
    model = two_convs(w=np.zeros((4, 3, 3, 3), np.float32), b=np.zeros(4, np.float32))
    assert_close(model, target, method=method, bias_correction=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("value", [0.0, 3.0, -1e-20, 1e6])
def test_a_tensor_whose_values_are_all_equal(value: float, method: str) -> None:
    model = two_convs(
        w=np.zeros((4, 3, 3, 3), np.float32), b=np.full(4, value, np.float32), c=normal(4) * max(value, 1)
    )
    assert_close(model, method=method, bias_correction=True)


@pytest.mark.parametrize("target", TARGETS)
def test_samples_that_are_all_zero(target: str) -> None:
    model = two_convs()
    samples = Samples([{"x": np.zeros((1, 3, 8, 8), np.float32)}])
    quantized = full(model, target, samples=samples, method="KL", bias_correction=True)
    assert sqnr(model, written(quantized), samples) > 20


@pytest.mark.parametrize("target", TARGETS)
def test_a_weight_survives_that_is_also_multiplied_by_what_is_always_zero(target: str) -> None:
    text = "g (float[4,8] x, float[4,8] padded) => (float[4,5] y, float[4,5] z) { y = Gemm(x, w, b) z = Gemm(padded, w, b) }"
    model = build(text, w=normal(8, 5), b=normal(5))
    samples = Samples({"x": normal(4, 8, seed=seed), "padded": np.zeros((4, 8), np.float32)} for seed in range(4))
    result = written(full(model, target, samples=samples))
    assert sqnr(model, result, samples) > 35


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_the_bias_of_a_dead_channel_survives(target: str, per_channel: bool) -> None:
    weight, bias = normal(4, 3, 3, 3) * 1e-3, normal(4)
    weight[2], bias[2] = 0.0, 7.0
    model = two_convs(w=weight, b=bias)
    quantized = full(model, target, per_channel=per_channel)
    params = quantized.plan.weights.get("b")
    if params is not None:
        assert np.abs(quantized.integers("b").astype(np.int64)).max() <= 2**30 + 64
    samples = samples_of(model)
    assert sqnr(model, written(quantized), samples) > 20


@pytest.mark.parametrize("target", TARGETS)
def test_the_bias_of_a_dead_channel_survives_a_runtime_that_quantizes_it_by_itself(target: str) -> None:
    weight, bias = normal(4, 3, 3, 3), normal(4)
    weight[2], bias[2] = 0.0, 7.0
    model = two_convs(w=weight, b=bias)
    (feed,) = samples_of(model)[:1]
    given = open_session(DEFAULT_ENGINE, written(full(model, target))).run(feed)
    expected = run(model, feed)
    for name, array in expected.items():
        assert cosine_similarity(array, given[name]) > 0.999


def test_a_weight_scale_that_one_bias_widens_serves_every_reader_of_the_weight() -> None:
    weight = normal(4, 4, 3, 3) * 1e-9
    model = build(
        """g (float[1,4,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) {
            h = Mul(x, factor) y = Conv(x, w, b) z = Conv(h, w, c) }""",
        w=weight,
        b=normal(4) * 1e-9,
        c=np.array([40.0, 1, 1, 1], np.float32),
        factor=np.float32(0.5),
    )
    quantized = full(model)
    plan = quantized.plan
    for data, bias in (("x", "b"), ("h", "c")):
        expected = plan.activations[data].scale.astype(np.float64) * plan.weights["w"].scale
        np.testing.assert_allclose(plan.weights[bias].scale, expected, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("name", "shape"), [("w", (4, 3, 3, 3)), ("v", (4, 4, 3, 3))])
def test_a_weight_that_is_not_finite_is_named(name: str, shape: tuple[int, ...], bad: float) -> None:
    weight = normal(*shape)
    weight.reshape(-1)[5] = bad
    model = two_convs(**{name: weight})
    with pytest.raises(CalibrationError) as error:
        full(model)
    assert error.value.where == f"constant {name}"
    assert error.value.hint


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("target", ["CPU", "DSP", "ARM"])
def test_a_bias_that_is_not_finite_is_named(target: str, bad: float) -> None:
    bias = normal(4)
    bias[1] = bad
    model = build("g (float[2,3] x) => (float[2,4] y) { y = Gemm(x, w, b) }", w=normal(3, 4), b=bias)
    with pytest.raises(CalibrationError) as error:
        full(model, target)
    assert error.value.where == "constant b"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_activation_that_is_not_finite_is_named(method: str, bad: float) -> None:
    model = two_convs()
    samples = samples_of(model)
    samples[2]["x"][0, 1, 2, 3] = bad
    with pytest.raises(CalibrationError, match=r"tensor [axy]") as error:
        full(model, method=method, samples=samples)
    assert "calibration samples" in error.value.hint


def test_a_single_nan_in_the_last_tensor_is_found() -> None:
    model = build(
        "g (float[1,4] x) => (float[1,4] y) { a = MatMul(x, w) l = Log(a) y = MatMul(l, w) }",
        w=np.eye(4, dtype=np.float32),
    )
    samples = Samples([{"x": np.array([[1, 2, -3, 4]], np.float32)}])
    with pytest.raises(CalibrationError, match="tensor l"):
        full(model, samples=samples)


def test_the_first_tensor_that_goes_wrong_is_named() -> None:
    model = build(
        "g (float[1,4] z) => (float[1,4] a) { y = MatMul(z, w) b = Add(y, y) a = MatMul(b, w) }",
        w=np.eye(4, dtype=np.float32),
    )
    with pytest.raises(CalibrationError, match="tensor z"):
        full(model, samples=Samples([{"z": np.array([[1, np.nan, 3, 4]], np.float32)}]))


def test_an_activation_that_overflows_inside_the_model_is_named() -> None:
    model = build(
        "g (float[2,3] x) => (float[2,4] y) { e = Exp(x) s = Mul(e, big) y = MatMul(s, w) }",
        w=normal(3, 4),
        big=np.float32(3e38),
    )
    with pytest.raises(CalibrationError, match="tensor s"):
        full(model, samples=Samples([{"x": np.full((2, 3), 5, np.float32)}]))


@pytest.mark.parametrize("target", ["CPU", "NVGPU"])
def test_a_weight_that_two_nodes_use_along_different_axes_is_stored_once_with_one_scale(target: str) -> None:
    model = build(
        "g (float[2,5] x) => (float[2,5] y, float[2,5] z) { y = Gemm(x, w, b) z = Gemm<transB=1>(x, w, b) }",
        w=normal(5, 5) * np.linspace(0.2, 2, 5, dtype=np.float32),
        b=normal(5),
    )
    result = assert_close(model, target, bias_correction=True)
    stored = [v for v in result.graph.initializers.values() if v.dtype is ir.DataType.INT8 and v.shape == [5, 5]]
    assert len(stored) == 1
    assert full(model, target).plan.weights["w"].spec.axis is None


@pytest.mark.parametrize("rows", [20, 16])
def test_no_kernel_saturates_with_a_weight_that_two_nodes_use_along_different_axes(rows: int) -> None:
    graph = f"g (float[5,16] x) => (float[5,{rows}] y, float[5,16] z) {{ y = Gemm<transB=1>(x, w) r = Relu(y) z = MatMul(r, w) }}"
    quantized = full(build(graph, w=normal(rows, 16)), "CPU", bias_correction=True)
    rules = quantized.plan.weights["w"].pair_rules
    assert [rule.rows for rule in rules] == [(0,), (1,)]
    assert count_violations(quantized.integers("w"), rules) == 0


def test_a_weight_that_two_nodes_use_alike_is_stored_once_per_channel() -> None:
    model = build(
        "g (float[1,4,9,9] x) => (float[1,4,5,5] y) { a = Conv(x, w, b) y = Conv(a, w, c) }",
        w=normal(4, 4, 3, 3),
        b=normal(4),
        c=normal(4),
    )
    result = assert_close(model, bias_correction=True)
    assert operators(result)["DequantizeLinear"] == 3 + 3  # x, a, y; the weight once, two biases
    assert full(model).plan.weights["w"].is_per_channel


@pytest.mark.parametrize("target", TARGETS)
def test_a_bias_that_two_nodes_share_gets_the_scale_of_each(target: str) -> None:
    model = build(
        TWO_CONVS.replace("Conv(a, v, c)", "Conv(a, v, b)"), w=normal(4, 3, 3, 3), b=normal(4) * 5, v=normal(4, 4, 3, 3)
    )
    assert_close(model, target, bias_correction=True)


def test_a_constant_that_is_weight_and_operand_at_once() -> None:
    model = build(
        "g (float[4,4] x) => (float[4,4] y) { a = MatMul(x, w) s = Add(a, w) y = MatMul(s, v) }",
        w=normal(4, 4),
        v=normal(4, 4),
    )
    assert_close(model)
    assert_close(model, "DSP")
    model = build(
        "g (float[4,4] x) => (float[4,4] y) { h = MatMul(x, v) s = Add(h, w) a = MatMul(s, w) y = MatMul(a, v) }",
        w=normal(4, 4),
        v=normal(4, 4),
    )
    assert_close(model)


def test_a_tensor_that_is_input_and_output_at_once_stays_what_it_is() -> None:
    model = two_convs()
    model.graph.outputs.append(model.graph.inputs[0])
    result = written(full(model))
    feed = random_feed(model)
    np.testing.assert_array_equal(run(result, feed)["x"], feed["x"])
    assert result.graph.outputs[1] is result.graph.inputs[0]
    assert "x" in full(model).plan.activations


@pytest.mark.parametrize("target", TARGETS)
def test_a_quantized_output_keeps_its_name_also_where_it_is_read_again(target: str) -> None:
    model = two_convs()
    model.graph.outputs.insert(0, model.graph.node(0).outputs[0])
    result = assert_close(model, target)
    assert [value.name for value in result.graph.outputs] == ["a", "y"]
    assert [value.name for value in result.graph.inputs] == ["x"]


def test_inputs_that_nobody_reads_stay() -> None:
    model = build(
        "g (float[1,3,8,8] x, float[2] unused, int64[3] ids) => (float[1,4,6,6] y) { y = Conv(x, w, b) }",
        w=normal(4, 3, 3, 3),
        b=normal(4),
    )
    result = assert_close(model)
    assert [value.name for value in result.graph.inputs] == ["x", "unused", "ids"]


def test_a_node_whose_other_output_nobody_reads() -> None:
    model = build(
        """g (float[1,3,8,8] x) => (float[1,6,8,8] y) {
            a = Conv<pads=[1,1,1,1]>(x, w, b) s, t = Split<axis=1>(a, p) y = Conv(t, v) }""",
        w=normal(4, 3, 3, 3),
        b=normal(4),
        p=np.array([1, 3], np.int64),
        v=normal(6, 3, 1, 1),
    )
    assert_close(model)
    assert_close(model, "DSP")


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_without_anything_to_quantize_says_why_and_stays_as_it_is(target: str) -> None:
    model = build("g (float[3] x) => (float[3] y) { a = Neg(x) y = Erf(a) }")
    quantized = full(model, target)
    assert quantized.plan.quantized_nodes == []
    assert all(decision.reason for decision in quantized.plan.nodes.values())
    feed = random_feed(model)
    np.testing.assert_array_equal(run(written(quantized), feed)["y"], run(model, feed)["y"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("correct", [True, False])
def test_a_dynamic_batch_stays_dynamic(target: str, correct: bool) -> None:
    model = build(
        """g (float[N,3,8,8] x) => (float[N,10] y) { a = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(a) p = GlobalAveragePool(r)
            f = Flatten(p) y = Gemm<transB=1>(f, k, kb) }""",
        w=normal(4, 3, 3, 3),
        b=normal(4),
        k=normal(10, 4),
        kb=normal(10),
    )
    result = assert_close(model, target, bias_correction=correct)
    for batch in (1, 5):
        feed = random_feed(model, dynamic=batch, seed=77)
        assert run(result, feed)["y"].shape == (batch, 10)
    assert result.graph.inputs[0].shape[0] == ir.SymbolicDim("N")  # type: ignore[index]


@pytest.mark.parametrize("target", TARGETS)
def test_a_model_with_channels_last(target: str) -> None:
    model = build(
        """g (float[1,8,8,3] x) => (float[1,8,8,5] y) { t = Transpose<perm=[0,3,1,2]>(x) a = Conv<pads=[1,1,1,1]>(t, w, b)
            r = Relu(a) c = Conv(r, v, d) y = Transpose<perm=[0,2,3,1]>(c) }""",
        w=normal(4, 3, 3, 3),
        b=normal(4),
        v=normal(5, 4, 1, 1),
        d=normal(5),
    )
    assert_close(model, target, bias_correction=True)


BRANCHES = """g (float[1,3,8,8] x, bool flag) => (float[1,4,8,8] y) {
    a = Conv<pads=[1,1,1,1]>(x, w, b)
    c = If (flag) <
        then_branch = yes () => (float[1,4,8,8] p) { p = Conv<pads=[1,1,1,1]>(a, v, d) },
        else_branch = no () => (float[1,4,8,8] q) { m = Relu(a) q = Conv<pads=[1,1,1,1]>(m, v, d) }
    >
    y = Conv<pads=[1,1,1,1]>(c, v, d) }"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("correct", [True, False])
def test_nodes_inside_branches_compute_with_floats_and_still_find_their_tensors(target: str, correct: bool) -> None:
    model = build(BRANCHES, opset=16, w=normal(4, 3, 3, 3), b=normal(4), v=normal(4, 4, 3, 3), d=normal(4))
    samples = samples_of(model)
    for i, feed in enumerate(samples):
        feed["flag"] = np.array(bool(i % 2))
    quantized = full(model, target, samples=samples, bias_correction=correct)
    result = written(quantized)
    assert sqnr(model, result, samples) > 18
    inner = [n for n in ir.traversal.RecursiveGraphIterator(result.graph) if n.graph is not result.graph]
    assert [n.op_type for n in inner] == ["Conv", "Relu", "Conv"]
    outer = {node.name for node in model.graph}
    reasons = {n: node.reason for n, node in quantized.plan.nodes.items() if n not in outer}
    convolutions = [node.name for node in inner if node.op_type == "Conv"] if TARGETS[target].weight_only else []
    assert reasons == dict.fromkeys(convolutions, "its weights are so small that integers save nothing")


LOOP = """g (float[1,4] x, int64 trips, bool go) => (float[1,4] y) {
    a = Gemm(x, w, b)
    c = Loop (trips, go, a) <
        body = step (int64 i, bool on, float[1,4] s) => (bool on_out, float[1,4] s_out) {
            on_out = Identity(on) t = MatMul(s, w) s_out = Tanh(t) }
    >
    y = Gemm(c, w, b) }"""


@pytest.mark.parametrize("target", TARGETS)
def test_nodes_inside_loops_stay_float(target: str) -> None:
    model = build(LOOP, opset=16, w=normal(4, 4), b=normal(4))
    samples = samples_of(model)
    for feed in samples:
        feed["trips"], feed["go"] = np.array(3, np.int64), np.array(True)
    quantized = full(model, target, samples=samples, bias_correction=True)
    result = written(quantized)
    assert sqnr(model, result, samples) > 18
    assert {n.op_type for n in ir.traversal.RecursiveGraphIterator(result.graph) if n.graph is not result.graph} == {
        "Identity",
        "MatMul",
        "Tanh",
    }
    assert quantized.plan.nodes["Gemm_0"].mode is NodeMode.INTEGER


@pytest.mark.parametrize("target", ["CPU", "NVGPU", "ARM"])
def test_constants_that_are_outputs_keep_their_numbers(target: str) -> None:
    """Equalization, smoothing and bias correction change weights and biases of layers, but not what the user gets of them."""
    constants = {"w": normal(4, 3, 3, 3), "b": normal(4), "v": normal(4, 4, 3, 3) * 3, "c": normal(4, seed=3)}
    text = TWO_CONVS.replace("y = Conv(a,", "r = Relu(a) y = Conv(r,")
    outputs = ", ".join(f"float[{','.join(map(str, array.shape))}] {name}" for name, array in constants.items())
    model = build(text.replace("] y)", f"] y, {outputs})"), **constants)
    feed = random_feed(model)
    given = run(assert_close(model, target), feed)
    for name, array in constants.items():
        assert np.array_equal(given[name], array), name
