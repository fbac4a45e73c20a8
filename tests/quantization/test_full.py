"""Rules of full quantization: what shares parameters, what each device asks for, what stays float and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.observers import METHODS
from converter_lite.config.names import Rounding
from converter_lite.quantization.full import quantize_full
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.materialize import storage_type
from converter_lite.quantization.settings import FullSettings
from converter_lite.targets.devices import TARGETS, target_spec
from tests.quantization.cases import CASES, Case
from tests.support import build, clone, full, normal, operators, optimized, samples_of, sqnr, written

CONV = {"w": normal(4, 3, 3, 3, seed=1), "b": normal(4, seed=2)}


def by_type(model: ir.Model, op_type: str) -> list[ir.Node]:
    return [node for node in model.graph if node.op_type == op_type]


def reads_float(node: ir.Node) -> list[bool]:
    """For every activation input: whether it comes from something else than a DequantizeLinear."""
    return [
        value.producer() is None or value.producer().op_type != "DequantizeLinear"  # type: ignore[union-attr]
        for value in node.inputs
        if value is not None and value.const_value is None
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_every_method_keeps_a_residual_network_close(method: str, per_channel: bool) -> None:
    model = CASES["Add"].model()
    samples = samples_of(model)
    assert sqnr(model, written(full(model, method=method, per_channel=per_channel, samples=samples)), samples) > 20


@pytest.mark.parametrize("case", ["Relu", "Relu6", "Clip"])
def test_a_clamp_behind_a_convolution_disappears_into_its_kernel(case: str, tmp_path: Path) -> None:
    model = written(full(CASES[case].model()))
    assert operators(model)["Relu"] == operators(model)["Clip"] == 0
    assert optimized(model, tmp_path)["QLinearConv"] == 2


def test_a_clamp_that_saturation_cannot_do_stays() -> None:
    quantized = full(CASES["Clip away from zero"].model())
    assert operators(written(quantized))["Clip"] == 1
    symmetric = full(CASES["Relu"].model(), "NVGPU")
    assert operators(written(symmetric))["Relu"] == 1


def test_a_clamp_is_kept_where_somebody_reads_what_comes_before_it() -> None:
    case = Case("Relu", "r = Relu(a) z = Add(r, a)")
    model = case.model()
    samples = samples_of(model)
    quantized = full(model, samples=samples)
    assert operators(written(quantized))["Relu"] == 1
    assert sqnr(model, written(quantized), samples) > 20


def test_tensors_that_hold_the_same_values_share_parameters() -> None:
    case = Case(
        "MaxPool",
        "p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) r = Reshape(p, s) z = Transpose<perm=[0,1,3,2]>(r)",
        {"s": np.array([1, 4, 2, 8], np.int64)},
    )
    activations = full(case.model()).plan.activations
    assert activations["a"] is activations["p"] is activations["r"] is activations["z"]
    assert activations["x"] is not activations["a"]


@pytest.mark.parametrize(
    ("attributes", "value", "shares"),
    [
        ("", 0.0, True),
        ("", -50.0, False),
        ("", -np.inf, True),
        ('<mode="edge">', -50.0, True),
        ('<mode="reflect">', -50.0, True),
    ],
)
def test_padding_with_a_value_of_its_own_has_a_range_of_its_own(attributes: str, value: float, shares: bool) -> None:
    case = Case(
        "Pad",
        f"r = Relu(a) q = Pad{attributes}(r, p, v) z = MaxPool<kernel_shape=[3,3]>(q)",
        {"p": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "v": np.float32(value)},
    )
    model = case.model()
    samples = samples_of(model)
    quantized = full(model, "DSP", samples=samples)
    assert (quantized.plan.activations["q"] is quantized.plan.activations["r"]) == shares
    assert sqnr(model, written(quantized), samples) > 15


def test_operands_of_a_concat_keep_their_own_scales() -> None:
    case = Case("Concat", "z = Concat<axis=1>(a, c)", channels=8)
    activations = full(case.model()).plan.activations
    assert activations["a"].scale != activations["c"].scale


@pytest.mark.parametrize(("keys", "low", "high"), [(400, 0.01, 0.3), (2, 1.0, 1.0)])
def test_shares_of_a_float_softmax_get_a_grid_of_their_size(keys: int, low: float, high: float) -> None:
    text = f"g (float[1,8,{keys}] x) => (float[1,8,64] y) {{ s = Softmax<axis=-1>(x) y = MatMul(s, w) }}"
    plan = full(build(text, w=normal(keys, 64))).plan
    assert plan.nodes["Softmax_0"].mode is NodeMode.FLOAT
    assert low - 1e-6 <= 255 * float(plan.activations["s"].scale) <= high + 1e-6


def test_a_fixed_range_needs_no_calibration() -> None:
    activations = full(CASES["Softmax"].model(), "DSP").plan.activations
    assert activations["z"].scale == np.float32(1 / 255)
    activations = full(CASES["Tanh"].model(), "DSP").plan.activations
    assert activations["z"].scale == np.float32(2 / 255)


@pytest.mark.parametrize("target", TARGETS)
def test_activations_and_weights_lie_on_the_grids_of_the_device(target: str) -> None:
    spec = TARGETS[target]
    plan = full(CASES["ConvTranspose"].model(), target, per_channel=spec.per_channel).plan
    assert all(params.spec == spec.activation for params in plan.activations.values())
    for name in ("w1", "k", "last"):
        if name not in plan.weights:
            continue
        params = plan.weights[name]
        assert (params.spec.bits, params.spec.symmetric, params.spec.narrow_range) == (8, True, True)
        assert np.all(params.zero_point == 0)


@pytest.mark.parametrize(
    ("target", "asked", "expected"),
    [
        ("CPU", True, {"Conv": 0, "Gemm": 1, "MatMul": 1}),
        ("CPU", False, {"Conv": None, "Gemm": None, "MatMul": None}),
        ("NVGPU", True, {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}),
        ("DSP", TARGETS["DSP"].per_channel, {"Conv": None, "ConvTranspose": None, "Gemm": None, "MatMul": None}),
        ("DSP", True, {"Conv": 0, "ConvTranspose": 1, "Gemm": None, "MatMul": None}),
        ("ASCEND", True, {"Conv": 0, "Gemm": 1, "MatMul": 1}),
        ("ARM", True, {"Conv": 0, "Gemm": 1, "MatMul": 1}),
        ("X86", True, {"Conv": None, "Gemm": None, "MatMul": None}),
    ],
)
def test_weights_have_one_scale_per_output_channel_where_the_device_allows(
    target: str, asked: bool, expected: dict[str, int | None]
) -> None:
    for op_type, axis in expected.items():
        name = {"MatMul": "MatMul constant"}.get(op_type, op_type)
        plan = full(CASES[name].model(), target, per_channel=asked).plan
        assert plan.weights["k"].spec.axis == axis, op_type


def test_gemm_with_transposed_weight_has_its_channels_on_the_first_axis() -> None:
    assert full(CASES["Gemm transB"].model()).plan.weights["k"].spec.axis == 0


def test_nvgpu_wants_symmetric_int8_and_float_biases() -> None:
    model = written(full(CASES["Conv"].model(), "NVGPU"))
    types = {v.const_value.dtype for v in model.graph.initializers.values() if v.const_value is not None}
    assert ir.DataType.INT8 in types
    assert not types & {ir.DataType.INT32, ir.DataType.UINT8}
    for node in by_type(model, "QuantizeLinear"):
        zero = g.constant(node.inputs[2])
        assert zero is not None
        assert zero.dtype == np.int8
        assert np.all(zero == 0)
    assert all(node.inputs[2].const_value is not None for node in by_type(model, "Conv"))  # type: ignore[union-attr]


def test_nvgpu_adds_the_result_of_a_convolution_in_float_and_the_other_operand_from_integers() -> None:
    case = Case(
        "Add",
        "r = Relu(a) k2 = Conv<pads=[1,1,1,1]>(r, k, kb) z = Add(k2, r)",
        {"k": normal(4, 4, 3, 3), "kb": normal(4)},
    )
    quantized = full(case.model(), "NVGPU")
    add = by_type(written(quantized), "Add")[0]
    assert reads_float(add) == [True, False]
    assert "k2" not in quantized.plan.activations
    cpu = by_type(written(full(case.model(), "CPU")), "Add")[0]
    assert reads_float(cpu) == [False, False]


def test_dsp_quantizes_every_node_to_uint8_even_without_weights_beside_it() -> None:
    model = build("g (float[1,4,8,8] x) => (float[1,4,8,8] y) { a = Tanh(x) b = Sub(a, x) y = Softmax<axis=1>(b) }")
    dsp = full(model, "DSP")
    assert {d.mode for d in dsp.plan.nodes.values()} == {NodeMode.INTEGER}
    assert {storage_type(p.spec) for p in dsp.plan.activations.values()} == {ir.DataType.UINT8}
    samples = samples_of(model)
    assert sqnr(model, written(dsp), samples) > 20


def test_ascend_quantizes_inputs_of_matrix_products_only() -> None:
    quantized = full(CASES["Add"].model(), "ASCEND")
    assert {d.op_type for d in quantized.plan.nodes.values() if d.mode is NodeMode.INTEGER} == {"Conv"}
    assert set(quantized.plan.activations) == {"x", "z"}
    assert quantized.plan.float_reasons() == [("ASCEND has no integer kernel for Add", 1)]


@pytest.mark.parametrize("target", ["ARM", "X86"])
def test_device_cpus_want_symmetric_activations_and_quantized_biases(target: str) -> None:
    plan = full(CASES["Conv"].model(), target).plan
    assert all(p.spec.symmetric and p.zero_point == 0 for p in plan.activations.values())
    assert plan.weights["b1"].spec.bits == 32
    np.testing.assert_allclose(
        plan.weights["b1"].scale, plan.activations["x"].scale * plan.weights["w1"].scale, rtol=1e-6
    )


def test_cpu_keeps_the_weight_of_a_transposed_convolution_as_integers() -> None:
    quantized = full(CASES["ConvTranspose"].model())
    assert quantized.plan.nodes["ConvTranspose_1"].mode is NodeMode.WEIGHT
    assert written(quantized).graph.initializers["k_quantized"].dtype is ir.DataType.INT8


def test_operators_without_integer_neighbours_stay_float_with_the_reason() -> None:
    model = build("g (float[1,4] x) => (float[1,4] y) { a = Mul(x, x) b = Neg(a) y = Sigmoid(b) }")
    plan = full(model).plan
    assert plan.quantized_nodes == []
    assert dict(plan.float_reasons()) == {
        "stands behind a float node": 2,
        "CPU has no integer kernel for Neg": 1,
    }
    case = Case("Add", "z0 = Add(a, c) z = Neg(z0)")
    assert full(case.model()).plan.nodes["Add_2"].reason == "no integer node follows"


def test_a_node_named_in_skip_quant_node_stays_float() -> None:
    model = CASES["Conv"].model()
    quantized = full(model, skip=frozenset({"Conv_1"}))
    assert quantized.plan.nodes["Conv_1"].reason == "named in skip_quant_node"
    conv = next(node for node in written(quantized).graph if node.name == "Conv_1")
    assert conv.inputs[1].name == "k"  # type: ignore[union-attr]
    samples = samples_of(model)
    assert sqnr(model, written(quantized), samples) > 20


REFUSALS = {
    "its weight is not constant": (
        "g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) { y = Conv(x, w) }",
        {},
    ),
    "its bias is not constant": (
        "g (float[1,3,8,8] x, float[4] c) => (float[1,4,6,6] y) { y = Conv(x, w, c) }",
        {"w": CONV["w"]},
    ),
    "Gemm with transA, alpha or beta has no integer form": (
        "g (float[3,2] x) => (float[2,4] y) { y = Gemm<transA=1>(x, w, b) }",
        {"w": normal(3, 4), "b": normal(4)},
    ),
    "its bias is not one value per output channel": (
        "g (float[2,3] x) => (float[2,4] y) { y = Gemm(x, w, b) }",
        {"w": normal(3, 4), "b": normal(2, 4)},
    ),
    "does not compute on float32": (
        "g (double[2,3] x) => (double[2,4] y) { y = MatMul(x, w) }",
        {"w": np.ones((3, 4))},
    ),
    "CPU has no integer kernel for Neg": ("g (float[3] x) => (float[3] y) { y = Neg(x) }", {}),
    "CPU has no integer kernel for Resize with mode=linear": (
        'g (float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Resize<mode="linear">(x, , s) }',
        {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "no grid holds its infinite constant": (
        "g (float[4] x) => (float[4] y) { y = Add(x, mask) }",
        {"mask": np.array([0, 0, -np.inf, 0], np.float32)},
    ),
    "has no activation input": (
        "g (float[4] x) => (float[4] y) { k = Concat<axis=0>(b, b) y = Add(x, k) }",
        {"b": normal(2)},
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_every_refusal_has_its_reason(reason: str) -> None:
    text, constants = REFUSALS[reason]
    plan = full(build(text, **constants)).plan
    assert plan.quantized_nodes == []
    assert reason in dict(plan.float_reasons())


@pytest.mark.parametrize("alpha", ["alpha=0.5", "beta=2.0"])
def test_gemm_with_factors_stays_float(alpha: str) -> None:
    model = build(f"g (float[2,3] x) => (float[2,4] y) {{ y = Gemm<{alpha}>(x, w, b) }}", w=normal(3, 4), b=normal(4))
    assert full(model).plan.float_reasons() == [("Gemm with transA, alpha or beta has no integer form", 1)]


def test_a_clip_with_computed_bounds_stays_float() -> None:
    model = build(
        """g (float[1,3,8,8] x, float h) => (float[1,4,6,6] y) { a = Conv(x, w, b) c = Clip(a, , h) y = Conv(c, v) }""",
        v=normal(4, 4, 1, 1),
        **CONV,
    )
    plan = full(model).plan
    assert plan.nodes["Clip_1"].reason == "its bounds are not constant"


def test_plans_do_not_depend_on_names_of_unquantized_parts_nor_on_threads() -> None:
    model = CASES["Concat"].model()
    first: QuantizedModel = full(model, method="KL", bias_correction=True)
    second: QuantizedModel = full(model, method="KL", bias_correction=True)
    a, b = (ir.to_proto(written(q)).SerializeToString(deterministic=True) for q in (first, second))
    assert a == b


def test_fitted_steps_leave_the_bias_room_in_its_integers() -> None:
    text = "g (float[1,32] x) => (float[1,8] y) { y = Gemm<transB=1>(x, w, b) }"
    bias = 5 * normal(8, seed=2)
    model = build(text, w=normal(8, 32) * 1e-8, b=bias)
    arm = target_spec("ARM")
    settings = FullSettings(bits=4, rounding=Rounding.ADAPTIVE)
    quantized = quantize_full(
        model,
        replace(arm, weight=replace(arm.weight, bits=4)),
        settings,
        samples=samples_of(model),
        context=CalibrationContext(),
    )
    params = quantized.plan.weights["b"]
    np.testing.assert_allclose(params.dequantize(quantized.integers("b")), bias, rtol=1e-4)


def test_narrow_weights_get_fitted_steps_and_biases_follow_them() -> None:
    text = (
        "g (float[1,3,8,8] x) => (float[1,8,6,6] z) { a = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(a) z = Conv(r, v, c) }"
    )
    peaked = normal(8, 8, 3, 3, seed=3)
    peaked[:, 0, 0, 0] *= 6  # a step that covers these is coarse for all others
    model = build(text, w=normal(8, 3, 3, 3, seed=1), b=normal(8, seed=2), v=peaked, c=normal(8, seed=4))
    samples, cpu = samples_of(model), target_spec("CPU")
    target = replace(cpu, weight=replace(cpu.weight, bits=4), pairs_saturate=False, quantize_bias=True)
    found = {}
    for rounding in (Rounding.NEAREST, Rounding.ADAPTIVE):
        settings = FullSettings(bits=4, equalization=False, rounding=rounding)
        quantized = quantize_full(clone(model), target, settings, samples=samples, context=CalibrationContext())
        found[rounding] = quantized, sqnr(model, written(quantized), samples)
    (plain, plain_sqnr), (fitted, fitted_sqnr) = found.values()
    plan = fitted.plan
    assert plan.weights["v"].scale.mean() < plain.plan.weights["v"].scale.mean()
    expected = plan.activations["r"].scale * plan.weights["v"].scale
    np.testing.assert_allclose(plan.weights["c"].scale, expected, rtol=1e-6)
    assert fitted_sqnr > plain_sqnr + 1
