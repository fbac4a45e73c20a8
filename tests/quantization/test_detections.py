"""Outputs that answer yes or no, and what searches make of samples in which nothing is found."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.quantization.detections import NOTHING, detection_thresholds
from converter_lite.quantization.score import Scorer
from converter_lite.runtime.context import RunContext
from tests.support import build

SHAPES = "g (float[1,4] x) => (float[N,M] y) {{ {} }}"


@pytest.mark.parametrize(
    ("body", "is_answer"),
    [
        ("y = Sigmoid(x)", True),
        ("y = HardSigmoid(x)", True),
        ("s = Sigmoid(x)  t = Transpose(s)  y = Identity(t)", True),
        ("a = Sigmoid(x)  b = HardSigmoid(x)  c = Mul(a, b)  y = Concat<axis=1>(a, c)", True),
        ("y = Softmax(x)", False),
        ("y = Tanh(x)", False),
        ("y = Identity(x)", False),
        ("a = Sigmoid(x)  y = Concat<axis=1>(a, x)", False),
        ("a = Sigmoid(x)  y = Mul(a, x)", False),
        ("a = Sigmoid(x)  y = Mul(a, stride)", False),
        ("a = Sigmoid(x)  y = Add(a, a)", False),
    ],
)
def test_answers_come_from_sigmoids_and_nothing_that_enlarges_them(body: str, is_answer: bool) -> None:
    constants = {"stride": np.float32([8.0])} if "stride" in body else {}
    assert detection_thresholds(build(SHAPES.format(body), **constants)) == ({"y": NOTHING} if is_answer else {})


def test_a_search_leaves_out_samples_in_which_nothing_is_found() -> None:
    model = build(SHAPES.format("y = Sigmoid(x)"))
    something, nothing = np.float32([[3, -20, -20, -20]]), np.float32([[-14, -15, -16, -17]])
    scorer = Scorer(model, [{"x": something}, {"x": nothing}, {"x": nothing}], RunContext())
    given = [[np.float32([[0.9, 0, 0, 0]])], [np.zeros((1, 4), np.float32)], [np.float32([[0, 0, 0, 1e-3]])]]
    score = scorer.of(lambda sample: given[sample])
    found = 1 / (1 + np.exp(-3.0))
    assert score.cosine == pytest.approx(1, abs=1e-6)
    assert score.noise == pytest.approx((found - 0.9) ** 2 / found**2, rel=1e-3)
    assert score.error == pytest.approx(found - 0.9, rel=1e-3)


def test_what_is_found_where_nothing_is_counts() -> None:
    model = build(SHAPES.format("y = Sigmoid(x)"))
    scorer = Scorer(model, [{"x": np.float32([[-14, -15, -16, -17]])}], RunContext())
    score = scorer.of(lambda _: [np.float32([[0, 0, 0, 0.5]])])
    assert score.cosine < 0.2
    assert score.noise == pytest.approx((0.5 / NOTHING) ** 2, rel=1e-3)


def test_nothing_at_all_is_perfect() -> None:
    model = build(SHAPES.format("y = Sigmoid(x)"))
    score = Scorer(model, [{"x": np.float32([[-14, -15, -16, -17]])}], RunContext()).of(lambda _: [np.zeros((1, 4))])
    assert (score.cosine, score.noise) == (1, 0)
