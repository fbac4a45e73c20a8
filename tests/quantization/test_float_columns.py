"""Columns that are far larger than all others keep products of their own, in float."""

from __future__ import annotations

import json

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.errors import ConfigError
from converter_lite.quantization.float_columns import compute_columns_in_float
from converter_lite.quantization.plan import NodeMode, QuantPlan, smoothed_name
from converter_lite.quantization.smooth import apply_smoothing
from tests.support import Samples, assert_same_outputs, build, clone, full, normal, operators, run, sqnr, written

COLUMNS = 256


def perceptron() -> ir.Model:
    """As in a transformer: two layers with a Gelu between, and a second reader of what it gives."""
    return build(
        f"""g (float[B,6,{COLUMNS}] x) => (float[B,6,20] y, float[B,6,20] z) {{
            d = Div(x, root) e = Erf(d) f = Add(e, one) p = Mul(x, f) h = Mul(p, half)
            a = MatMul(h, w1) y = Add(a, bias) z = MatMul(h, w2) }}""",
        root=np.float32(np.sqrt(2)),
        one=np.float32(1),
        half=np.float32(0.5),
        w1=normal(COLUMNS, 20, seed=4),
        w2=normal(COLUMNS, 20, seed=5),
        bias=normal(20, seed=6),
    )


def samples(count: int = 32) -> Samples:
    """Of one row in all samples two columns are far larger than all others, as at the special tokens of a text."""
    made = Samples({"x": normal(1, 6, COLUMNS, seed=seed)} for seed in range(count))
    made[0]["x"][0, 2, [5, 40]] = 160, 120
    return made


def test_the_float_model_computes_the_same() -> None:
    model = perceptron()
    changed = clone(model)
    names = {node.outputs[0].name: node for node in changed.graph}
    products = [(names[name], normal(2, 20) * 0) for name in ("a", "z")]
    value = names["h"].outputs[0]
    compute_columns_in_float(changed.graph, value, products, [5, 40], g.Names(changed.graph))
    assert operators(changed)["MatMul"] == 4
    assert_same_outputs(model, changed, *samples(2))
    plan = QuantPlan("CPU", apart={"h": (5, 40)}, smoothing={"h": np.linspace(0.5, 2, COLUMNS).astype(np.float32)})
    for node in model.graph:
        if node.op_type == "MatMul":
            plan.quantize(node, NodeMode.INTEGER)
    changed = clone(model)
    apply_smoothing(changed, plan, mode=NodeMode.INTEGER)
    assert operators(changed)["Gather"] == 1
    assert_same_outputs(model, changed, *samples(2), rtol=1e-5)
    small = next(node.outputs[0] for node in changed.graph if node.outputs[0].name == smoothed_name("h"))
    changed.graph.outputs.append(small)
    assert np.abs(run(changed, samples(1)[0])[smoothed_name("h")]).max() < 10


def test_full_quantization_takes_large_columns_apart() -> None:
    model, given = perceptron(), samples()
    quantized = full(model, samples=given, equalization=True)
    assert {5, 40} <= set(quantized.plan.apart["h"]) and len(quantized.plan.apart["h"]) == COLUMNS // 16
    plain = full(model, samples=given, equalization=False)
    assert sqnr(model, written(quantized), given) > sqnr(model, written(plain), given) + 10
    assert [value.name for value in written(quantized).graph.outputs] == ["y", "z"]


def test_columns_of_a_tensor_that_integers_make_stay() -> None:
    """It is on one grid with all others already."""
    model = build(
        f"""g (float[B,6,{COLUMNS}] x) => (float[B,6,20] y) {{
            a = MatMul(x, w) h = Add(a, offset) y = MatMul(h, w1) }}""",
        w=np.eye(COLUMNS, dtype=np.float32),
        offset=np.zeros(COLUMNS, np.float32),
        w1=normal(COLUMNS, 20, seed=4),
    )
    quantized = full(model, samples=samples(), equalization=True)
    assert quantized.plan.nodes["Add_1"].mode is NodeMode.INTEGER
    assert "x" in quantized.plan.apart and "h" not in quantized.plan.apart


@pytest.mark.parametrize("target", ["CPU", "ARM"])
def test_a_saved_plan_gives_the_same_model(target: str) -> None:
    """Also where the result of a product is on a grid before its large columns are added."""
    model, given = perceptron(), samples()
    first = full(model, target, samples=given, equalization=True)
    assert ("a_rest" in first.plan.activations) == (target == "ARM")
    plan = QuantPlan.from_json(json.loads(json.dumps(first.plan.to_json())), where="plan.json")
    assert plan.apart == first.plan.apart
    again = full(model, target, samples=given, plan=plan, equalization=True)
    for name, array in run(written(first), given[0]).items():
        np.testing.assert_array_equal(run(written(again), given[0])[name], array)


def test_columns_that_the_tensor_does_not_have_are_refused() -> None:
    model = perceptron()
    plan = QuantPlan("CPU", apart={"h": (COLUMNS,)})
    for node in model.graph:
        if node.op_type == "MatMul":
            plan.quantize(node, NodeMode.INTEGER)
    with pytest.raises(ConfigError, match="column 256 of h apart, which has 256"):
        apply_smoothing(model, plan, mode=NodeMode.INTEGER)


@pytest.mark.parametrize("columns", [[], [-1], [0.5], [True], "x", 3])
def test_impossible_columns_in_a_plan_file_are_refused(columns: object) -> None:
    data = {"target": "CPU", "nodes": {}, "activations": {}, "weights": {}, "apart": {"h": columns}}
    with pytest.raises(ConfigError, match="usable plan"):
        QuantPlan.from_json(data, where="plan.json")
