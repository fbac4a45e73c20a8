from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.quantization.plan import NodeMode
from converter_lite.targets.devices import TARGETS
from tests.quantization.cases import CASES
from tests.support import full, optimized, samples_of, since, sqnr, written

LEAST_SQNR = 20.0
"""Decibels; three layers of 8 bits give 25 to 40 on these models."""

CPU_KERNELS = {
    "Conv": "QLinearConv",
    "Gemm": "QGemm",
    "MatMul": "QLinearMatMul",
    "Add": "QLinearAdd",
    "Mul": "QLinearMul",
    "Concat": "QLinearConcat",
    "LeakyRelu": "QLinearLeakyRelu",
    "Sigmoid": "QLinearSigmoid",
    "AveragePool": "QLinearAveragePool",
    "GlobalAveragePool": "QLinearGlobalAveragePool",
}
"""Operator -> integer kernel of onnxruntime; other integer operators keep their name and move integers."""

CPU_FLOAT = {
    *("Sub", "Div", "PRelu", "HardSwish", "Tanh", "ReduceMean", "Pad", "ConvTranspose", "Resize linear"),
    *("ReduceSum", "GlobalMaxPool", "Max", "Min", "Elu", "HardSigmoid", "InstanceNormalization", "SpaceToDepth"),
    "Softmax",
}
"""Cases that the CPU table leaves in float: onnxruntime has no integer kernel, or none that saves time."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_every_operator_is_close_to_float_on_every_device(case: str, target: str) -> None:
    model = CASES[case].model()
    samples = samples_of(model)
    quantized = full(model, target, samples=samples)
    assert set(quantized.plan.nodes) == {node.name for node in model.graph}
    assert quantized.plan.nodes["Conv_0"].mode is NodeMode.INTEGER
    assert sqnr(model, written(quantized), samples) > LEAST_SQNR


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "CPU"])
@pytest.mark.parametrize("case", CASES)
def test_a_device_computes_in_integers_what_its_table_says(case: str, target: str) -> None:
    op_type = CASES[case].op_type
    plan = full(CASES[case].model(), target).plan
    decisions = [decision for decision in plan.nodes.values() if decision.op_type == op_type]
    if op_type in TARGETS[target].integer:
        assert all(decision.mode is NodeMode.INTEGER for decision in decisions)
    else:
        assert {d.reason for d in decisions} <= {f"{target} has no integer kernel for {op_type}"}


@since("onnxruntime", 1, 21, reason="has fewer integer kernels")
@pytest.mark.parametrize("case", [name for name in CASES if name != "Clip away from zero"])
def test_onnxruntime_runs_every_integer_operator_of_the_cpu_table_in_integers(case: str, tmp_path: Path) -> None:
    op_type = CASES[case].op_type
    model = CASES[case].model()
    quantized = full(model)
    kernels = optimized(written(quantized), tmp_path)
    modes = {d.mode for d in quantized.plan.nodes.values() if d.op_type == op_type}
    if {case, op_type} & CPU_FLOAT:
        assert NodeMode.FLOAT in modes or NodeMode.WEIGHT in modes
        return
    assert modes == {NodeMode.INTEGER}
    conversions = kernels["QuantizeLinear"] + kernels["DequantizeLinear"]
    assert conversions <= 2, f"only the input and the output may be converted: {dict(kernels)}"
    assert kernels[CPU_KERNELS.get(op_type, "QLinearConv")] > 0, dict(kernels)
    assert not any(kernels[name] for name in CPU_KERNELS), dict(kernels)
