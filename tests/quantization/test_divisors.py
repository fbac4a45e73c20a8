from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.quantization.divisors import DIVIDES
from converter_lite.quantization.placement import decide_nodes
from converter_lite.quantization.plan import NodeMode
from converter_lite.targets.devices import DSP
from tests.support import build, normal

DEVICE = replace(DSP, float_divisors=True)
"""Has integer kernels for everything, and float ones."""

ATTENTION = """g (float[1,2,16,8] x) => (float[1,2,16,8] y) {
    a = MatMul(x, wq)
    q = Relu(a)
    b = MatMul(x, wk)
    k = Relu(b)
    v = MatMul(x, wv)
    turned = Transpose <perm=[0,1,3,2]> (v)
    kv = MatMul(turned, k)
    rows = Transpose <perm=[0,1,3,2]> (kv)
    all = MatMul(q, rows)
    numerator = Slice(all, zero, eight, last)
    sum = Slice(all, eight, nine, last)
    divisor = Add(sum, least)
    y = Div(numerator, divisor)
}"""
"""Linear attention; the last column of the values is the sum of the keys."""

CONSTANTS = {
    "zero": np.array([0]),
    "eight": np.array([8]),
    "nine": np.array([9]),
    "last": np.array([3]),
    "least": np.float32(1e-6),
}


def linear_attention() -> ir.Model:
    return build(ATTENTION, wq=normal(8, 8), wk=normal(8, 8), wv=normal(8, 9), **CONSTANTS)


def test_a_division_and_the_products_behind_its_divisor_stay_float() -> None:
    model = linear_attention()
    plan = decide_nodes(model, DEVICE, frozenset())
    divides = {node.outputs[0].name for node in model.graph if plan.nodes[node.name or ""].reason == DIVIDES}
    assert {"kv", "all", "y"} <= divides
    weighted = [node for node in model.graph if node.op_type == "MatMul" and node.outputs[0].name in ("a", "b", "v")]
    assert [plan.mode(node) for node in weighted] == [NodeMode.INTEGER] * 3


@pytest.mark.parametrize("lines", ["y = Div(c, two)", "r = Reciprocal(c) y = Mul(c, r)", "e = Exp(c) y = Div(x, e)"])
def test_other_nodes_in_front_of_a_division_are_integers(lines: str) -> None:
    model = build(
        f"g (float[1,4,8,8] x) => (float[1,4,8,8] y) {{ c = Conv(x, w) {lines} }}",
        w=normal(4, 4, 1, 1),
        two=np.float32(2),
    )
    assert decide_nodes(model, DEVICE, frozenset()).mode(next(iter(model.graph))) is NodeMode.INTEGER


def test_a_convolution_that_gives_divisors_stays_float() -> None:
    text = "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { c = Conv(x, w) d = Conv(x, v) y = Div(c, d) }"
    model = build(text, w=normal(4, 4, 1, 1), v=normal(4, 4, 1, 1))
    plan = decide_nodes(model, DEVICE, frozenset())
    assert [plan.mode(node) for node in model.graph][1:] == [NodeMode.FLOAT, NodeMode.FLOAT]
    assert plan.mode(next(iter(model.graph))) is NodeMode.INTEGER


def test_a_device_with_integers_only_computes_all_with_them() -> None:
    model = linear_attention()
    plan = decide_nodes(model, DSP, frozenset())
    assert all(plan.mode(node) is NodeMode.INTEGER for node in model.graph)


def test_a_divisor_made_of_constants_only_is_no_node_to_decide() -> None:
    text = "g (float[1,4,8,8] x) => (float[1,4,8,8] y) { c = Conv(x, w) d = Expand(k, shape) y = Div(c, d) }"
    model = build(text, w=normal(4, 4, 1, 1), k=normal(1, 1, 1, 1), shape=np.array([1, 4, 8, 8]))
    plan = decide_nodes(model, DEVICE, frozenset())
    assert plan.mode(next(iter(model.graph))) is NodeMode.INTEGER


def test_long_ways_to_a_divisor_end() -> None:
    lines = " ".join(f"v{i + 1} = Transpose <perm=[1,0]> (v{i})" for i in range(3000))
    model = build(f"g (float[8,8] x) => (float[8,8] y) {{ v0 = MatMul(x, x) {lines} y = Div(x, v3000) }}")
    assert decide_nodes(model, DEVICE, frozenset()).mode(next(iter(model.graph))) is NodeMode.FLOAT
