from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.quantization.dynamic import decide_dynamic
from converter_lite.quantization.placement import decide_nodes
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.settings import DynamicSettings
from converter_lite.quantization.small_numbers import DIVIDES, IN_LOGARITHM
from converter_lite.targets.devices import DSP
from tests.support import build, normal

DEVICE = replace(DSP, float_small_numbers=True)
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


SPECTRUM = """g (float[1,1,400] x) => (float[1,6,40] y) {
    low = Conv <pads=[2,2]> (x, lowpass)
    re = Conv <strides=[10]> (low, cosines)
    im = Conv <strides=[10]> (low, sines)
    re2 = Mul(re, re)
    im2 = Mul(im, im)
    power = Add(re2, im2)
    padded = Pad(power, one)
    bands = MatMul(mel, padded)
    shifted = Add(bands, least)
    loudness = Log(shifted)
    h = Conv <pads=[1,1]> (loudness, w)
    r = Relu(h)
    y = Conv(r, v)
}"""
"""Loudness in bands of frequencies, from filters over sound, and layers behind it."""


def test_filters_in_front_of_a_logarithm_stay_float() -> None:
    model = build(
        SPECTRUM,
        lowpass=normal(1, 1, 5),
        cosines=normal(8, 1, 10),
        sines=normal(8, 1, 10),
        one=np.array([0, 0, 0, 0, 0, 0]),
        mel=normal(1, 6, 8),
        least=np.float32(1e-6),
        w=normal(6, 6, 3),
        v=normal(6, 6, 1),
    )
    plan = decide_nodes(model, DEVICE, frozenset())
    kept = {node.outputs[0].name for node in model.graph if plan.nodes[node.name or ""].reason == IN_LOGARITHM}
    assert kept == {"low", "re", "im", "re2", "im2", "power", "bands", "shifted"}
    assert [plan.mode(node) for node in model.graph if node.outputs[0].name in ("h", "y")] == [NodeMode.INTEGER] * 2


@pytest.mark.parametrize("power", ["ReduceSumSquare<keepdims=0>(parts, three)", "ReduceL2<keepdims=0>(parts, three)"])
def test_powers_of_one_operator_are_those_of_signals(power: str) -> None:
    text = f"""g (float[1,1,400] x) => (float[1,6,40] y) {{
        c = Conv<strides=[10]>(x, filters) parts = Reshape(c, shape) p = {power} b = MatMul(mel, p) y = Log(b) }}"""
    constants = {"filters": normal(16, 1, 10), "mel": normal(1, 6, 8), "three": np.array([1])}
    model = build(text, opset=18, shape=np.array([1, 2, 8, 40]), **constants)
    plan = decide_nodes(model, DEVICE, frozenset())
    assert [plan.nodes[node.name or ""].reason for node in model.graph if node.op_type == "Conv"] == [IN_LOGARITHM]


@pytest.mark.parametrize("layers", [True, False])
def test_a_product_in_front_of_a_logarithm_is_not_dynamic(layers: bool) -> None:
    text = "g (float[1,40,64] x) => (float[1,40,48] y) { p = Mul(x, x) b = MatMul(p, mel) l = Log(b) y = MatMul(l, w) }"
    model = build(text, mel=np.abs(normal(64, 64)), w=normal(64, 48))
    plan = decide_dynamic(model, DynamicSettings(layers=layers), target="CPU")
    _, bands, _, last = model.graph
    assert plan.nodes[bands.name or ""].reason == IN_LOGARITHM
    assert plan.mode(last) is NodeMode.DYNAMIC


def test_behind_activations_only_the_layer_that_feeds_the_logarithm_stays_float() -> None:
    text = """g (float[1,4,8,8] x) => (float[1,4,8,8] y) {
        a = Conv(x, w) r = Relu(a) c = Conv(r, w) p = Mul(c, c) s = Add(p, least) y = Log(s) }"""
    model = build(text, w=normal(4, 4, 1, 1), least=np.float32(1e-6))
    plan = decide_nodes(model, DEVICE, frozenset())
    kept = {node.outputs[0].name for node in model.graph if plan.nodes[node.name or ""].reason == IN_LOGARITHM}
    assert kept == {"c", "p", "s"}


@pytest.mark.parametrize("lines", ["p = Softmax(c) y = Log(p)", "e = Exp(c) s = Add(e, one) y = Log(s)"])
def test_functions_that_end_in_a_logarithm_leave_layers_as_they_are(lines: str) -> None:
    model = build(
        f"g (float[1,4,8,8] x) => (float[1,4,8,8] y) {{ c = Conv(x, w) {lines} }}",
        w=normal(4, 4, 1, 1),
        one=np.float32(1),
    )
    assert decide_nodes(model, DEVICE, frozenset()).mode(next(iter(model.graph))) is NodeMode.INTEGER
