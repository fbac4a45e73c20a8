from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.config.names import Rounding
from converter_lite.errors import ConfigError
from converter_lite.quantization.dynamic import decide_dynamic, quantize_dynamic
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel, QuantPlan, smoothed_name
from converter_lite.quantization.remedies import NOISE_LIMIT, Remedies, Smoothing
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.quantization.smooth import apply_smoothing, smooth_products
from converter_lite.runtime.context import RunContext
from tests.support import (
    Samples,
    assert_same_outputs,
    attention,
    build,
    clone,
    full,
    normal,
    operators,
    run,
    samples_of,
    sqnr,
    written,
)

OUTLIERS = np.where(np.arange(16) % 5 == 0, 60.0, 1.0).astype(np.float32)


def products(opset: int = 13) -> ir.Model:
    """Two products of one tensor, which something else reads too, and a Gemm with a transposed weight behind."""
    return build(
        """g (float[B,6,16] x) => (float[B,6,20] y, float[M,5] z, float[B,6,16] copy) {
            h = Add(x, shift) a = MatMul(h, w1) c = MatMul(h, w2) y = Add(a, c) copy = Neg(h)
            f = Reshape(y, flat) z = Gemm<transB=1>(f, w3) }""",
        opset=opset,
        shift=normal(16, seed=3) * 0.1,
        w1=normal(16, 20, seed=4) / OUTLIERS[:, None],
        w2=normal(16, 20, seed=5) / OUTLIERS[:, None],
        w3=normal(5, 20, seed=6),
        flat=np.array([-1, 20], np.int64),
    )


def with_outlier_channels(model: ir.Model, count: int = 4) -> Samples:
    return Samples({"x": feed["x"] * OUTLIERS} for feed in samples_of(model, count))


def with_outlier_rows(model: ir.Model, count: int = 4) -> Samples:
    samples = Samples({"x": feed["x"] * OUTLIERS} for feed in samples_of(model, count, dynamic=50))
    for feed in samples:
        feed["x"][0, 2] *= 15
    return samples


NEAREST = DynamicSettings(rounding=Rounding.NEAREST)
"""Rounding that needs no samples."""


def smoothed(model: ir.Model, samples: Samples) -> tuple[ir.Model, QuantPlan, list[Smoothing]]:
    model = clone(model)
    plan = decide_dynamic(model, DynamicSettings(), target="CPU")
    done = smooth_products(
        model, plan, samples, mode=NodeMode.DYNAMIC, remedies=Remedies(rows=True), context=RunContext(threads=2)
    )
    return model, plan, done


def dynamic(model: ir.Model, samples: Samples | None, *, smoothing: bool = True) -> QuantizedModel:
    return quantize_dynamic(
        clone(model), DynamicSettings(smoothing=smoothing), target="CPU", samples=samples, context=RunContext()
    )


def test_the_float_model_computes_the_same_after_smoothing() -> None:
    model = products()
    samples = with_outlier_channels(model)
    changed, plan, done = smoothed(model, samples)
    assert done[0].tensor == "h"
    assert "h" in plan.smoothing
    assert operators(changed)["Mul"] == len(plan.smoothing)
    assert_same_outputs(model, changed, *samples, rtol=1e-5)


def test_other_readers_of_a_tensor_keep_it() -> None:
    changed, _, _ = smoothed(products(), with_outlier_channels(products()))
    reader = next(node for node in changed.graph if node.op_type == "Neg")
    assert reader.inputs[0] is not None and reader.inputs[0].name == "h"


def test_factors_are_those_of_the_paper_up_to_a_common_one() -> None:
    model = products()
    samples = with_outlier_channels(model)
    _, plan, done = smoothed(model, samples)
    alpha = done[0].alpha
    h = np.concatenate(
        [(feed["x"] + model.graph.initializers["shift"].const_value.numpy()).reshape(-1, 16) for feed in samples]
    )  # type: ignore[union-attr]
    weights = [model.graph.initializers[name].const_value.numpy() for name in ("w1", "w2")]  # type: ignore[union-attr]
    largest = np.max([np.abs(w).max(axis=1) for w in weights], axis=0)
    expected = np.abs(h).max(axis=0) ** alpha / largest ** (1 - alpha)
    found = plan.smoothing["h"]
    ratio = (found / expected).astype(np.float64)
    np.testing.assert_allclose(ratio / ratio.mean(), 1.0, atol=0.02)  # factors have few digits


def test_large_channels_are_smoothed_and_large_rows_get_scales_of_their_own() -> None:
    model = products()
    _, plan, done = smoothed(model, with_outlier_channels(model))
    assert done[0].alpha > 0 and done[0].row_zero_point is None
    _, plan, done = smoothed(model, with_outlier_rows(model))
    assert done[0].row_zero_point is not None
    assert [plan.nodes[f"MatMul_{i}"].row_zero_point for i in (1, 2)] == [done[0].row_zero_point] * 2
    assert done[0].noise < 0.5 * done[0].noise_before


def test_what_is_quantized_well_already_is_left_alone() -> None:
    model = build("g (float[B,16] x) => (float[B,20] y) { y = MatMul(x, w) }", w=normal(16, 20))
    changed, plan, done = smoothed(
        model, Samples({"x": np.random.default_rng(i).uniform(-1, 1, (64, 16)).astype(np.float32)} for i in range(4))
    )
    assert done == [] and not plan.smoothing
    assert operators(changed) == {"MatMul": 1}


@pytest.mark.parametrize("outliers", [with_outlier_channels, with_outlier_rows])
def test_smoothing_lowers_the_noise_of_dynamic_quantization(outliers: object) -> None:
    model = products()
    samples = outliers(model)  # type: ignore[operator]
    plain = sqnr(model, written(dynamic(model, samples, smoothing=False)), samples)
    assert sqnr(model, written(dynamic(model, samples)), samples) > plain + 3


def test_the_estimated_noise_is_the_noise_that_is_measured() -> None:
    model = build("g (float[B,6,48] x) => (float[B,6,64] y) { y = MatMul(x, w) }", w=normal(48, 64))
    samples = Samples(samples_of(model, 8, dynamic=16))
    for feed in samples:
        feed["x"][..., 5] *= 30
    _, _, done = smoothed(model, samples)
    before = written(dynamic(model, samples, smoothing=False))
    after = written(dynamic(model, samples))
    for result, estimate in ((before, done[0].noise_before), (after, done[0].noise)):
        measured = 10 ** (-sqnr(model, result, samples) / 10)
        assert measured == pytest.approx(estimate, rel=0.25)


@pytest.mark.parametrize("opset", [13, 18, 21])
@pytest.mark.parametrize("zero_point", [1, 16, 128, 254])
def test_rows_are_quantized_around_one_zero_point_with_scales_of_their_own(opset: int, zero_point: int) -> None:
    model = build("g (float[B,6,16] x) => (float[B,6,20] y) { y = MatMul(x, w) }", opset=opset, w=normal(16, 20))
    x = normal(2, 6, 16)
    x[0, 2] *= 1000
    x[0, 3] = 0
    quantized = dynamic(model, None)
    quantized.plan.nodes["MatMul_0"] = NodePlan("MatMul", NodeMode.DYNAMIC, row_zero_point=zero_point)
    params = quantized.plan.weights["w"]
    high, low = x.max(axis=-1, keepdims=True), x.min(axis=-1, keepdims=True)
    scale = np.maximum(np.maximum(high / (255 - zero_point), -low / zero_point), 1e-30).astype(np.float32)
    q_x = np.clip(np.rint(x / scale) + zero_point, 0, 255) - zero_point
    expected = (q_x @ quantized.integers("w")) * scale * params.scale
    y = run(written(quantized), {"x": x})["y"]
    np.testing.assert_allclose(y, expected, rtol=0.02, atol=1e-3 * np.abs(expected).max(axis=-1, keepdims=True).max())
    np.testing.assert_array_equal(y[0, 3], 0)


def test_rows_of_a_transposed_gemm_with_bias_have_scales_of_their_own() -> None:
    model = build(
        "g (float[3,16] x) => (float[3,20] y) { y = Gemm<transB=1>(x, w, b) }", w=normal(20, 16), b=normal(20)
    )
    quantized = dynamic(model, None)
    quantized.plan.nodes["Gemm_0"] = NodePlan("Gemm", NodeMode.DYNAMIC, row_zero_point=128)
    assert sqnr(model, written(quantized), samples_of(model)) > 30


def normalized(seed: int = 0) -> ir.Model:
    """A normalization with a few large channels before two products, one of which reads a tensor that stays as it is."""
    return build(
        """g (float[B,6,16] x) => (float[B,6,20] y, float[B,6,16] n) {
            n = LayerNormalization(x, scale, offset) a = LayerNormalization(x, large, offset) y = MatMul(a, w) }""",
        opset=17,
        scale=np.ones(16, np.float32),
        large=OUTLIERS,
        offset=normal(16, seed=seed),
        w=normal(16, 20, seed=4) / OUTLIERS[:, None],
    )


def test_without_samples_large_channels_behind_a_normalization_are_smoothed_for_nothing() -> None:
    model = normalized()
    samples = samples_of(model, 4)
    quantized = dynamic(model, None)
    assert set(quantized.plan.smoothing) == {"a"}
    assert operators(quantized.model)["Mul"] == 0  # the normalization's own constants are divided
    noise = [sqnr(written(q), model, samples) for q in (dynamic(model, None, smoothing=False), quantized)]
    assert noise[1] > noise[0] + 3


def test_without_samples_and_per_row_there_is_no_smoothing() -> None:
    model = products()
    samples = with_outlier_channels(model)
    assert not dynamic(model, None).plan.smoothing
    acwl = quantize_dynamic(
        clone(model), DynamicSettings(weight_per_channel=False), target="CPU", samples=samples, context=RunContext()
    )
    assert not acwl.plan.smoothing


@pytest.mark.parametrize("outliers", [with_outlier_channels, with_outlier_rows])
def test_a_saved_plan_gives_the_same_smoothed_model_without_samples(outliers: object) -> None:
    model = products()
    samples = outliers(model)  # type: ignore[operator]
    first = quantize_dynamic(clone(model), NEAREST, target="CPU", samples=samples, context=RunContext())
    plan = QuantPlan.from_json(json.loads(json.dumps(first.plan.to_json())), where="plan.json")
    assert plan.nodes == first.plan.nodes
    again = quantize_dynamic(clone(model), NEAREST, target="CPU", plan=plan, context=RunContext())
    for name, array in run(written(first), samples[0]).items():
        np.testing.assert_array_equal(run(written(again), samples[0])[name], array)


def test_factors_of_the_result_of_an_attention_cost_no_operator() -> None:
    model = attention("B", "6")
    value = model.graph.initializers["wv"]
    assert value.const_value is not None
    value.const_value = ir.Tensor(value.const_value.numpy() * OUTLIERS, name="wv")
    samples = samples_of(model, 8)
    changed, plan, done = smoothed(model, samples)
    assert "c" in plan.smoothing and next(item for item in done if item.tensor == "c").row_zero_point is None
    assert not [node for node in changed.graph if node.op_type == "Mul"]
    names = {value.name for node in changed.graph for value in node.outputs}
    assert smoothed_name("c") in names and "c" not in names
    assert_same_outputs(model, changed, *samples, rtol=1e-5)
    quantized = quantize_dynamic(clone(model), NEAREST, target="CPU", samples=samples, context=RunContext())
    assert sqnr(model, written(quantized), samples) > sqnr(model, written(dynamic(model, None)), samples)
    plan = QuantPlan.from_json(json.loads(json.dumps(quantized.plan.to_json())), where="plan.json")
    again = written(quantize_dynamic(clone(model), NEAREST, target="CPU", plan=plan, context=RunContext()))
    np.testing.assert_array_equal(run(again, samples[0])["y"], run(written(quantized), samples[0])["y"])


def test_full_quantization_leaves_the_projections_as_they_are() -> None:
    model = attention("B", "6")
    changed = clone(model)
    plan = decide_dynamic(model, DynamicSettings(), target="CPU")
    plan.smoothing["c"] = np.linspace(0.5, 2, 16).astype(np.float32)
    for name, decision in list(plan.nodes.items()):
        if decision.mode is NodeMode.DYNAMIC:
            plan.nodes[name] = NodePlan(decision.op_type, NodeMode.INTEGER)
    apply_smoothing(changed, plan, mode=NodeMode.INTEGER)
    assert operators(changed)["Mul"] == 1
    assert_same_outputs(model, changed, *samples_of(model))


def test_a_skipped_product_is_not_smoothed() -> None:
    model = products()
    skip = DynamicSettings(skip=frozenset({"MatMul_1", "MatMul_2"}))
    quantized = quantize_dynamic(
        clone(model), skip, target="CPU", samples=with_outlier_channels(model), context=RunContext()
    )
    assert "h" not in quantized.plan.smoothing


def test_factors_that_do_not_fit_are_refused() -> None:
    model = products()
    plan = decide_dynamic(model, DynamicSettings(), target="CPU")
    plan.smoothing["h"] = np.ones(3, np.float32)
    with pytest.raises(ConfigError, match="3 smoothing factors for 16 columns of h"):
        apply_smoothing(model, plan, mode=NodeMode.DYNAMIC)
    plan.smoothing = {"hh": np.ones(16, np.float32)}
    with pytest.raises(ConfigError):
        plan.check(model)


@pytest.mark.parametrize("factors", [[], [0.0], [-1.0], [float("inf")], [[1.0]], "x"])
def test_impossible_factors_in_a_plan_file_are_refused(factors: object) -> None:
    data = {"target": "CPU", "nodes": {}, "activations": {}, "weights": {}, "smoothing": {"h": factors}}
    with pytest.raises(ConfigError, match="usable plan"):
        QuantPlan.from_json(data, where="plan.json")


@pytest.mark.parametrize(
    ("mode", "zero_point"), [(NodeMode.INTEGER, 3), (NodeMode.DYNAMIC, 0), (NodeMode.DYNAMIC, 255)]
)
def test_row_zero_points_are_for_dynamic_nodes_and_within_the_grid(mode: NodeMode, zero_point: int) -> None:
    with pytest.raises(ValueError, match="row_zero_point"):
        NodePlan("MatMul", mode, row_zero_point=zero_point)


def test_full_quantization_smooths_the_inputs_of_matrix_products() -> None:
    model = products()
    samples = with_outlier_channels(model)
    plain = full(model, samples=samples, equalization=False)
    quantized = full(model, samples=samples, equalization=True)
    assert "h" in quantized.plan.smoothing
    assert smoothed_name("h") in quantized.plan.activations
    assert sqnr(model, written(quantized), samples) > sqnr(model, written(plain), samples) + 1
    plan = QuantPlan.from_json(json.loads(json.dumps(quantized.plan.to_json())), where="plan.json")
    again = full(model, samples=samples, plan=plan, equalization=True)
    np.testing.assert_array_equal(run(written(again), samples[0])["y"], run(written(quantized), samples[0])["y"])


def test_the_limit_is_far_below_what_is_smoothed() -> None:
    _, _, done = smoothed(products(), with_outlier_channels(products()))
    assert all(item.noise_before > NOISE_LIMIT and item.noise < item.noise_before for item in done)
    assert "h: noise" in str(done[0])


GELU = "d = Div(x, root) e = Erf(d) f = Add(e, one) p = Mul(x, f) h = Mul(p, half)"


@pytest.mark.parametrize(("text", "reductions"), [(GELU, 1), ("h = Relu(x)", 1), ("h = Neg(x)", 2)])
def test_rows_that_have_a_known_minimum_need_no_search_for_it(text: str, reductions: int) -> None:
    model = build(
        f"g (float[B,6,16] x) => (float[B,6,20] y) {{ {text} y = MatMul(h, w) }}",
        w=normal(16, 20),
        root=np.array(2**0.5, np.float32),
        one=np.array(1, np.float32),
        half=np.array(0.5, np.float32),
    )
    quantized = dynamic(model, None)
    node = next(node for node in quantized.model.graph if node.op_type == "MatMul")
    quantized.plan.quantize(node, NodeMode.DYNAMIC, row_zero_point=16)
    result = written(quantized)
    assert operators(result)["ReduceMax"] + operators(result)["ReduceMin"] == reductions
    samples = samples_of(model)
    for feed in samples:
        feed["x"][0, 0] = np.linspace(-6, 0, 16)  # a row of nothing but small negative values behind Gelu
    assert sqnr(model, result, samples) > (25 if reductions == 1 else 10)
