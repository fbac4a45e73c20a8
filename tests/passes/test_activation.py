import math

import numpy as np
import pytest

from converter_lite.graph import clamp_bounds
from converter_lite.passes.activation import recognize_relu
from tests.support import assert_applies, assert_refuses, build, operators

ZERO = np.float32(0)


@pytest.mark.parametrize(
    ("node", "constants"),
    [
        ("Clip(x, low)", {"low": ZERO}),
        ("Clip(x, low, high)", {"low": ZERO, "high": np.float32(np.inf)}),
        ("Clip(x, low, high)", {"low": ZERO, "high": np.finfo(np.float32).max}),
    ],
)
def test_a_clip_without_upper_bound_is_a_relu(node: str, constants: dict[str, np.ndarray]) -> None:
    model = build(f"g (float[N,5] x) => (float[N,5] y) {{ y = {node} }}", **constants)
    assert_applies(recognize_relu, model, 1)
    assert operators(model) == {"Relu": 1}


@pytest.mark.parametrize(
    ("graph", "constants"),
    [
        ("g (float[5] x) => (float[5] y) { y = Clip(x, low, high) }", {"low": ZERO, "high": np.float32(6)}),
        ("g (float[5] x) => (float[5] y) { y = Clip(x, low) }", {"low": np.float32(-1)}),
        ("g (float[5] x) => (float[5] y) { y = Clip(x, , high) }", {"high": np.float32(6)}),
        ("g (float[5] x, float low) => (float[5] y) { y = Clip(x, low) }", {}),
        ("g (int32[5] x) => (int32[5] y) { y = Clip(x, low) }", {"low": np.int32(0)}),
    ],
)
def test_other_clips_stay(graph: str, constants: dict[str, np.ndarray]) -> None:
    assert_refuses(recognize_relu, build(graph, **constants))


@pytest.mark.parametrize(
    ("node", "bounds"),
    [
        ("Relu(x)", (0.0, math.inf)),
        ("Clip(x, low, high)", (0.0, 6.0)),
        ("Clip(x, low)", (0.0, math.inf)),
        ("Clip(x, , high)", (-math.inf, 6.0)),
        ("Clip(x)", (-math.inf, math.inf)),
        ("Sigmoid(x)", None),
    ],
)
def test_bounds_are_read_from_constants(node: str, bounds: tuple[float, float] | None) -> None:
    model = build(f"g (float[5] x) => (float[5] y) {{ y = {node} }}", low=ZERO, high=np.float32(6))
    assert clamp_bounds(model.graph.node(0)) == bounds


def test_bounds_were_attributes_once() -> None:
    model = build("g (float[5] x) => (float[5] y) { y = Clip<min = 0.0, max = 6.0>(x) }", opset=10)
    assert clamp_bounds(model.graph.node(0)) == (0.0, 6.0)


def test_computed_bounds_are_no_bounds() -> None:
    model = build("g (float[5] x, float low) => (float[5] y) { y = Clip(x, low) }")
    assert clamp_bounds(model.graph.node(0)) is None
