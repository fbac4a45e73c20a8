"""Convolutions whose filters are computed."""

import numpy as np
import pytest

from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.spelled_out.filters import spell_out_computed_filters
from tests.support import assert_applies, assert_refuses, build, normal, operators


@pytest.mark.parametrize(
    ("x", "filters", "attributes", "bias"),
    [
        ("1,6,9,8", "6,1,4,3", "group = 6", False),  # the correlation of a tracker
        ("1,6,9,8", "4,6,3,3", "pads = [1,1,1,1], strides = [2,1]", True),
        ("1,6,9,8", "4,3,3,2", "group = 2, dilations = [2,3], pads = [0,1,2,0]", True),
        ("1,6,9,8", "5,6,1,1", "strides = [1,1]", False),
        ("1,6,9,8", "5,6,1,1", "strides = [2,2]", False),
        ("1,6,9", "4,3,2", "group = 2", True),
    ],
)
def test_computed_filters(x: str, filters: str, attributes: str, bias: bool) -> None:
    wanted = f"float[1,{filters.split(',')[0]},{','.join('abc'[: x.count(',') - 1])}] y"
    inputs = f"float[{x}] x, float[{filters}] f" + (f", float[{filters.split(',')[0]}] b" if bias else "")
    model = build(f"g ({inputs}) => ({wanted}) {{ y = Conv<{attributes}>(x, f{', b' if bias else ''}) }}")
    infer_shapes(model)
    assert_applies(spell_out_computed_filters, model, 1)
    is_single = filters.endswith("1,1") and "2" not in attributes
    assert operators(model)["Conv"] == (0 if is_single else 1)


@pytest.mark.parametrize(
    "graph",
    [
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { y = Conv(x, k) }",
        "g (float[2,3,8,8] x, float[4,3,3,3] f) => (float[2,4,6,6] y) { w = Tanh(f) y = Conv(x, w) }",
        'g (float[1,3,8,8] x, float[4,3,3,3] f) => (float[1,4,8,8] y) { w = Tanh(f) y = Conv<auto_pad = "SAME_UPPER">(x, w) }',
        "g (float[1,3,8,8,8] x, float[4,3,3,3,3] f) => (float[1,4,6,6,6] y) { w = Tanh(f) y = Conv(x, w) }",
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y) { w = DequantizeLinear(q, s) y = Conv(x, w) }",
    ],
)
def test_others_stay(graph: str) -> None:
    constants = {"k": normal(4, 3, 3, 3), "q": np.ones((4, 3, 3, 3), np.int8), "s": np.float32(0.1)}
    model = build(
        graph, **{name: value for name, value in constants.items() if f"{name})" in graph or f"({name}" in graph}
    )
    infer_shapes(model)
    assert_refuses(spell_out_computed_filters, model)
