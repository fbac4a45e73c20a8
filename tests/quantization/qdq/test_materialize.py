from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.graph import static_shape
from converter_lite.kernels.params import QuantParams, QuantSpec, params_from_range, weight_params
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.averages import has_other_integers
from converter_lite.quantization.qdq.materialize import STORAGE, materialize, required_opset, storage_bits, storage_type
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.quantization.cases import CASES
from tests.support import build, full, normal, operators, optimized, random_feed, run, samples_of, since, sqnr, written


@pytest.mark.parametrize(
    ("bits", "signed", "expected"),
    [
        (1, True, ir.DataType.INT4),
        (4, True, ir.DataType.INT4),
        (3, False, ir.DataType.UINT4),
        (5, True, ir.DataType.INT8),
        (8, False, ir.DataType.UINT8),
        (9, True, ir.DataType.INT16),
        (16, False, ir.DataType.UINT16),
        (32, True, ir.DataType.INT32),
    ],
)
def test_a_grid_is_stored_in_the_narrowest_type_that_holds_it(bits: int, signed: bool, expected: ir.DataType) -> None:
    spec = QuantSpec(bits, signed)
    assert storage_type(spec) is expected
    assert STORAGE[(storage_bits(spec), signed)] is expected


def _plan(**specs: QuantSpec) -> QuantPlan:
    plan = QuantPlan("CPU")
    for name, spec in specs.items():
        params = params_from_range(-1.0, 1.0, QuantSpec(spec.bits, spec.signed)) if spec.bits < 32 else None
        scale = np.ones(3, np.float32) if spec.axis is not None else np.array(1, np.float32)
        zero = np.zeros(scale.shape, np.int32)
        target = plan.activations if name.startswith("a") else plan.weights
        target[name] = QuantParams(scale, zero, spec) if spec.axis is not None or params is None else params
    return plan


@pytest.mark.parametrize(
    ("plan", "opset"),
    [
        (_plan(), 10),
        (_plan(a=QuantSpec(8), w=QuantSpec(8)), 10),
        (_plan(a=QuantSpec(8), w=QuantSpec(8, axis=0)), 13),
        (_plan(b=QuantSpec(32, axis=0)), 13),
        (_plan(w=QuantSpec(4)), 21),
        (_plan(w=QuantSpec(3, signed=False)), 21),
        (_plan(w=QuantSpec(12)), 21),
        (_plan(a=QuantSpec(16)), 21),
    ],
)
def test_the_plan_tells_the_operator_set_it_needs(plan: QuantPlan, opset: int) -> None:
    assert required_opset(plan) == opset


def test_the_float_model_is_left_as_it_is() -> None:
    quantized = full(CASES["Concat"].model())
    before = ir.to_proto(quantized.model).SerializeToString(deterministic=True)
    materialize(quantized)
    assert ir.to_proto(quantized.model).SerializeToString(deterministic=True) == before


def test_every_tensor_has_one_qdq_however_many_nodes_read_it() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) { y = Conv(x, w, b) z = Conv(x, v, c) }",
        w=normal(4, 3, 3, 3, seed=1),
        b=normal(4, seed=2),
        v=normal(4, 3, 3, 3, seed=3),
        c=normal(4, seed=4),
    )
    result = written(full(model))
    names = [n.inputs[0].name for n in result.graph if n.op_type == "QuantizeLinear"]  # type: ignore[union-attr]
    assert sorted(str(name) for name in names) == ["x", "y_float", "z_float"]


def test_constants_that_no_longer_serve_are_left_out() -> None:
    result = written(full(CASES["Conv"].model()))
    used = {value.name for node in result.graph for value in node.inputs if value is not None}
    assert set(result.graph.initializers) <= used
    assert not {"w1", "k", "last", "b1"} & set(result.graph.initializers)


def test_equal_grids_are_stored_once() -> None:
    result = written(full(CASES["Transpose"].model()))
    scales = [n.inputs[1].name for n in result.graph if n.op_type == "QuantizeLinear"]  # type: ignore[union-attr]
    assert len(scales) == 4  # x, a, z, y
    assert len(set(scales)) == 3  # a and z share one


def test_a_float_reader_of_an_integer_result_reads_what_the_integers_say() -> None:
    text = "g (float[1,3,8,8] x) => (float[1,4,4,4] y, float[1,4,6,6] n) { a = Conv(x, w, b) y = Conv(a, v, c) n = Erf(a) }"
    model = build(text, w=normal(4, 3, 3, 3), b=normal(4), v=normal(4, 4, 3, 3), c=normal(4))
    result = written(full(model))
    erf = next(node for node in result.graph if node.op_type == "Erf")
    assert erf.inputs[0].producer().op_type == "DequantizeLinear"  # type: ignore[union-attr]


def test_a_float_reader_of_a_float_tensor_keeps_reading_it() -> None:
    text = "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,3,8,8] n) { y = Conv(x, w, b) n = Erf(x) }"
    model = build(text, w=normal(4, 3, 3, 3), b=normal(4))
    result = written(full(model))
    feed = random_feed(model)
    np.testing.assert_array_equal(run(result, feed)["n"], run(model, feed)["n"])


def test_names_that_are_taken_already_are_avoided() -> None:
    model = build(
        """g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] w_dequantized) {
            y = Conv(x, w, w_scale) w_dequantized = Neg(y) }""",
        w=normal(4, 3, 3, 3),
        w_scale=normal(4),
    )
    result = written(full(model, bias_correction=True))
    names = [value.name for node in result.graph for value in node.outputs] + list(result.graph.initializers)
    assert len(names) == len(set(names))


def test_dynamic_nodes_are_not_touched_by_a_float_plan() -> None:
    model = CASES["Add"].model()
    quantized = full(model, skip=frozenset(str(node.name) for node in model.graph))
    assert operators(materialize(quantized)) == operators(model)


BETWEEN = """g (float[1,3,8,8] x) => (float[1,5,h,w] y) {{
    a = Conv<pads=[1,1,1,1]>(x, w1, b1)  r = Relu(a)
    c = Conv<pads=[1,1,1,1]>(r, w2, b2)  {clamp}
    y = Conv(s, w3, b3) }}"""


@pytest.mark.parametrize(
    "clamp",
    [
        "s = Relu(c)",
        "s = Clip(c, low, high)",
        "s = Identity(c)",
        "s = Sigmoid(c)",
        "s = MaxPool<kernel_shape=[2,2]>(c)",
    ],
)
def test_a_float_layer_between_integer_ones_stays_float_in_the_runtime(clamp: str) -> None:
    w2 = normal(4, 4, 3, 3, seed=3) * 0.2
    w2[0] = -20.0  # a single scale for all of it would ruin the other channels
    clip = {"low": np.float32(0), "high": np.float32(6)} if "Clip" in clamp else {}
    model = build(
        BETWEEN.format(clamp=clamp),
        w1=normal(4, 3, 3, 3, seed=1) * 0.3,
        b1=normal(4, seed=2),
        w2=w2,
        b2=normal(4, seed=4),
        w3=np.concatenate([np.zeros((5, 1, 1, 1)), normal(5, 3, 1, 1, seed=5)], axis=1).astype(np.float32),
        b3=normal(5, seed=6),
        **clip,
    )
    skip = next(str(n.name) for n in list(model.graph)[2:] if n.op_type == "Conv")
    made = written(full(model, skip=frozenset({skip})))
    for seed in range(3):
        feed = random_feed(model, seed=seed)
        plain = run(made, feed)["y"]
        fused = DEFAULT_ENGINE.session(ir.to_proto(made).SerializeToString(), threads=1).run(feed)["y"]
        np.testing.assert_allclose(fused, plain, atol=0.02 * float(np.abs(plain).max()))


@pytest.mark.parametrize("moved", ["", "p1 = Unsqueeze(p0, ones) p = Squeeze(p1, ones)"])
def test_a_runtime_pools_floats_where_a_float_layer_with_stored_weights_stands_before(
    moved: str, tmp_path: Path
) -> None:
    model = build(
        "g (float[1,4,64,64] x) => (float[1,64,29,29] y) "
        f"{{ c = Conv(x, w1) r = Relu(c) {'p0' if moved else 'p'} = MaxPool<kernel_shape=[2,2],strides=[2,2]>(r) {moved} "
        "y = Conv(p, w2) }",
        w1=normal(64, 4, 5, 5),
        w2=normal(64, 64, 2, 2),
        ones=np.array([1]),
    )
    quantized = full(model)
    plan = quantized.plan
    first, *others, _ = plan.nodes
    plan.nodes[first] = NodePlan("Conv", NodeMode.WEIGHT)
    plan.nodes |= {name: NodePlan(plan.nodes[name].op_type, NodeMode.FLOAT, "is tested") for name in others}
    plan.activations = {"p": plan.activations["p"], "y": plan.activations["y"]}
    optimized(written(quantized), tmp_path)
    graph = ir.load(tmp_path / "optimized.onnx").graph
    (pool,) = (node for node in graph if "MaxPool" in node.op_type)
    before = pool.inputs[0].producer()
    assert before is not None and "Quantize" not in before.op_type


def test_a_table_with_scales_per_column_gives_the_rows_that_it_holds() -> None:
    table = normal(6, 4)
    model = build("g (int64[N,3] ids) => (float[N,3,4] y) { y = Gather(table, ids) }", table=table)
    plan = QuantPlan("CPU")
    plan.quantize(next(iter(model.graph)), NodeMode.WEIGHT)
    plan.weights["table"] = weight_params(table, QuantSpec(8, axis=1))
    rows = plan.weights["table"].dequantize(plan.weights["table"].quantize(table))
    ids = np.array([[0, 5, 2], [1, 1, 3]])
    np.testing.assert_allclose(run(written(QuantizedModel(model, plan)), {"ids": ids})["y"], rows[ids], rtol=1e-6)


@pytest.mark.parametrize("add", ["y = Add(m, b)", "y = Add(b, m)"])
@pytest.mark.parametrize("shape", [(8,), (1, 8), (5, 8), (1, 5, 8)])
def test_a_float_bias_leaves_a_product_its_integer_kernel(add: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = build(
        f"g (float[1,5,16] x) => (float[1,5,8] y) {{ m = MatMul(x, w) {add} }}", w=normal(16, 8), b=normal(*shape)
    )
    made = written(full(model))
    assert sqnr(model, made, samples_of(model)) > 30
    assert "Gemm" not in optimized(made, tmp_path)
    assert optimized(made, tmp_path)["MatMulIntegerToFloat"] == 1


def test_a_bias_of_a_product_whose_rank_is_not_known_keeps_its_own() -> None:
    model = build(
        "g (float[N,16] x) => (float[N,8] y) { m = MatMul(x, w) y = Add(m, b) }", w=normal(16, 8), b=normal(8)
    )
    model.graph[0].outputs[0].shape = None
    made = written(full(model))
    assert [static_shape(v) for v in made.graph.initializers.values()].count((8,)) >= 1
    assert sqnr(model, made, samples_of(model)) > 30


CLAMPS = {
    "a Relu": ("c = Relu(m)", {}),
    "both bounds": ("c = Clip(m, low, high)", {"low": np.float32(-0.5), "high": np.float32(0.75)}),
    "an upper bound": ("c = Clip(m, , high)", {"high": np.float32(0.75)}),
}
PRODUCTS = {"MatMul": "m = MatMul(x, w)", "Gemm": "m = Gemm(x, w, b)"}
BEHIND = {"a float node": "y = Pow(c, two)", "an output": "y = Identity(c)"}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("clamp", CLAMPS)
@pytest.mark.parametrize("product", PRODUCTS)
def test_a_clamp_in_floats_leaves_a_product_its_integer_kernel(
    product: str, clamp: str, behind: str, tmp_path: Path
) -> None:
    text, bounds = CLAMPS[clamp]
    weights = {"w": normal(16, 8), "b": normal(8), "two": np.float32(2), **bounds}
    lines = f"{PRODUCTS[product]} {text} {BEHIND[behind]}"
    used = {
        name: np.asarray(array) for name, array in weights.items() if name in lines.replace("(", " ").replace(",", " ")
    }
    model = build(f"g (float[5,16] x) => (float[5,8] y) {{ {lines} }}", **used)
    made = written(full(model))
    assert sqnr(model, made, samples_of(model)) > 30
    kernels = optimized(made, tmp_path)
    assert kernels["MatMulIntegerToFloat"] + kernels["QGemm"] == 1, kernels


def test_a_runtime_recognizes_the_gelu_of_what_integers_give(tmp_path: Path) -> None:
    text = """g (float[1,64,40,40] x) => (float[1,64,40,40] y) {
        c = Conv<pads=[1,1,1,1]>(x, w1) d = Div(c, root) e = Erf(d) f = Add(e, one) h = Mul(c, f) k = Mul(h, half)
        y = Conv(k, w2) }"""
    constants: dict[str, Any] = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    model = build(text, w1=normal(64, 64, 3, 3) / 20, w2=normal(64, 64, 1, 1), **constants)
    quantized = full(model)
    assert quantized.plan.mode(next(iter(quantized.model.graph))) is NodeMode.INTEGER
    optimized(written(quantized), tmp_path)
    kinds = Counter(node.op_type for node in ir.load(tmp_path / "optimized.onnx").graph)
    assert kinds["Gelu"] == 1
    assert kinds["Erf"] == 0


@pytest.mark.parametrize(
    "pool",
    [
        pytest.param("dilations=[2,2]", id="dilations"),
        pytest.param("dilations=[1,1],pads=[1,1,1,1]", id="written-default"),
        pytest.param("ceil_mode=1,count_include_pad=1,strides=[2,2]", id="windows-beyond-the-padding"),
    ],
)
@pytest.mark.parametrize("moved", ["p", "p0"])
@since("onnxruntime", 1, 25, reason="not tried with averages of operator set 19")
def test_an_average_that_integers_would_not_give_is_computed_with_floats(pool: str, moved: str) -> None:
    """opset 19 is the first with dilations of averages."""
    turned = "p = Transpose<perm=[0,1,3,2]>(p0)" if moved == "p0" else ""
    model = build(
        "g (float[N,3,10,10] x) => (float[N,4,h,w] y) "
        f"{{ c = Conv(x, w1) {moved} = AveragePool<kernel_shape=[3,3],{pool}>(c) {turned} y = Conv(p, w2) }}",
        opset=19,
        ir_version=9,
        w1=normal(8, 3, 3, 3),
        w2=normal(4, 8, 1, 1),
    )
    made, feed = written(full(model)), random_feed(model)
    exact = run(made, feed)["y"]
    usual = DEFAULT_ENGINE.session(ir.to_proto(made).SerializeToString(), threads=1).run(feed)["y"]
    np.testing.assert_allclose(usual, exact, atol=0.02 * float(np.abs(exact).max()))


@pytest.mark.parametrize(
    ("size", "pool", "expected"),
    [
        ("10", "kernel_shape=[3]", False),
        ("10", "kernel_shape=[3],ceil_mode=1,strides=[2]", False),
        ("9", "kernel_shape=[3],ceil_mode=1,count_include_pad=1,strides=[2]", False),
        ("10", "kernel_shape=[3],ceil_mode=1,count_include_pad=1,strides=[2]", True),
        ("n", "kernel_shape=[3],ceil_mode=1,count_include_pad=1,strides=[2]", True),
        ("10", "kernel_shape=[1],ceil_mode=1,count_include_pad=1,strides=[3],pads=[0,2]", False),
    ],
)
def test_averages_that_integers_give_are_computed_with_them(size: str, pool: str, expected: bool) -> None:
    model = build(f"g (float[N,3,{size}] x) => (float[N,3,m] y) {{ y = AveragePool<{pool}>(x) }}")
    assert has_other_integers(next(iter(model.graph))) is expected
