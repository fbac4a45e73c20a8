"""Ranges that the readers of a tensor tell apart."""

from __future__ import annotations

import math

import numpy as np
import pytest

from converter_lite.quantization.readable import EVERYTHING, cut, readable_ranges
from tests.support import build, full, normal, random_feed, run, written

Range = tuple[float, float]
REST: Range = (-math.inf, math.inf)


def ranges(nodes: str, sources: dict[str, str] | None = None) -> dict[str, Range]:
    model = build(
        f"g (float[1,8,6,6] x) => (float[1,8,6,6] y) {{ a = Neg(x) {nodes} }}",
        opset=14,
        **{name: np.float32(number) for name, number in {"low": -2, "high": 5}.items() if f" {name}" in nodes},
    )
    return readable_ranges(model, sources or {"a": "a"})


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = HardSwish(a)", (-3, math.inf)),
        ("y = HardSigmoid(a)", (-2.5, 2.5)),
        ("y = HardSigmoid<alpha=0.166666667>(a)", (-3, 3)),
        ("y = Relu(a)", (0, math.inf)),
        ("y = Clip(a, low, high)", (-2, 5)),
        ("s = Sigmoid(a) y = Mul(s, x)", (-8, 8)),
        ("y = Tanh(a)", (-4, 4)),
        ("h = HardSigmoid<alpha=0.166666667>(a) y = Mul(a, h)", (-3, math.inf)),
        ("b = Relu(a) c = HardSwish(a) y = Add(b, c)", (-3, math.inf)),
    ],
)
def test_a_function_is_flat_beyond_a_bound(nodes: str, expected: Range) -> None:
    assert ranges(nodes)["a"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "nodes",
    [
        "y = Abs(a)",
        "y = Sigmoid(a)",
        "s = Sigmoid(a) y = Add(s, x)",
        "b = HardSwish(a) y = Add(a, b)",
        "s = Sigmoid(a) y = Mul(a, s)",
        "h = HardSigmoid(x) y = Mul(a, h)",
        "y = HardSigmoid<alpha=-0.2>(a)",
        "y = Identity(a)",
    ],
)
def test_other_readers_need_all(nodes: str) -> None:
    assert ranges(nodes) == {}


def test_a_result_of_the_model_needs_all() -> None:
    model = build("g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y = Neg(x) z = HardSwish(y) }", opset=14)
    assert readable_ranges(model, {"y": "y"}) == {}


def test_tensors_that_share_a_grid_are_read_together() -> None:
    nodes = "b = Identity(a) c = HardSwish(b) d = Tanh(a) y = Add(c, d)"
    assert ranges(nodes, {"a": "a", "b": "a"})["a"] == (-4, math.inf)


def test_an_input_that_shares_a_grid_is_read_by_its_own_readers_too() -> None:
    model = build(
        "g (float[1,8,6,6] x) => (float[1,8,6,6] y) { b = Identity(x) c = HardSwish(b) d = Abs(x) y = Add(c, d) }",
        opset=14,
    )
    assert readable_ranges(model, {"x": "x", "b": "x"}) == {}


@pytest.mark.parametrize(
    ("observed", "readable", "expected"),
    [
        ((-20, 5), (-3, math.inf), (-3 - 8 / 254, 5)),
        ((-20, 50), (-3, 3), (-3 - 6 / 254, 3 + 6 / 254)),
        ((-2, 5), (-3, math.inf), (-2, 5)),
        ((-9, -7), (-3, math.inf), (-9, -7)),
        ((-20, 50), EVERYTHING, (-20, 50)),
    ],
)
def test_a_range_is_cut_a_step_behind_what_is_read(observed: Range, readable: Range, expected: Range) -> None:
    """A grid whose zero point is rounded must not end in front of it, where the function is not flat yet."""
    assert cut(*observed, readable, 8) == pytest.approx(expected)


def test_a_grid_ends_where_hard_swish_does_and_saturates_there() -> None:
    text = "g (float[1,16,40,40] x) => (float[1,64,40,40] y) { c = Conv(x, w1, b1) h = HardSwish(c) "
    text += "y = Conv<pads=[1,1,1,1]>(h, w2) }"
    bias = np.concatenate([normal(32, seed=3), normal(32, seed=4) - 40]).astype(
        np.float32
    )  # half of the channels are far below
    model = build(text, opset=14, w1=normal(64, 16, 1, 1) / 2, b1=bias, w2=normal(64, 64, 3, 3) / 9)
    feed = random_feed(model)
    expected = run(model, feed)["y"]
    quantized = full(model)
    grid = quantized.plan.activations[str(next(n for n in model.graph if n.op_type == "Conv").outputs[0].name)]
    assert -3 - 2 * float(grid.scale) <= float(grid.real_range[0]) <= -3
    found = run(written(quantized), feed)["y"]
    assert np.corrcoef(expected.ravel(), found.ravel())[0, 1] > 0.999
