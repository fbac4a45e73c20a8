"""Operators of two tensors that become those of one."""

import numpy as np
import pytest

from converter_lite.passes.spelled_out.simple import spell_out_repeated_dividends, spell_out_single_slopes
from tests.support import assert_applies, assert_refuses, build, normal, operators, positive

DIVIDENDS = {"a row": normal(5), "a number": np.float32(0.5), "rows": normal(3, 1), "an axis of one": normal(1, 3, 5)}


@pytest.mark.parametrize("size", ["2", "N"])
@pytest.mark.parametrize("name", DIVIDENDS)
def test_dividends_that_are_repeated_are_multiplied(name: str, size: str) -> None:
    shape = f"float[{size},3,5]"
    model = build(f"g ({shape} x) => ({shape} y) {{ b = Exp(x) y = Div(a, b) }}", a=DIVIDENDS[name])
    assert_applies(spell_out_repeated_dividends, model, 1)
    assert operators(model) == {"Exp": 1, "Reciprocal": 1, "Mul": 1}


def test_one_is_not_multiplied() -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { b = Exp(x) y = Div(a, b) }", a=np.float32(1))
    assert_applies(spell_out_repeated_dividends, model, 1)
    assert operators(model) == {"Exp": 1, "Reciprocal": 1}


@pytest.mark.parametrize(
    "body",
    [
        "g (float[2,3] x) => (float[2,3] y) { y = Div(x, a) }",
        "g (float[2,3] x, float[2,3] z) => (float[2,3] y) { b = Exp(z) y = Div(x, b) }",
        "g (int64[2,3] x) => (int64[2,3] y) { y = Div(k, x) }",
    ],
)
def test_other_quotients_stay(body: str) -> None:
    assert_refuses(spell_out_repeated_dividends, build(body, a=positive(3), k=np.int64(6)))


@pytest.mark.parametrize("slopes", [[0.25], [[[0.25]], [[0.25]], [[0.25]]]])
def test_one_slope_for_all_channels_is_a_number(slopes: list[object]) -> None:
    model = build("g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = PRelu(x, a) }", a=np.array(slopes, np.float32))
    assert_applies(spell_out_single_slopes, model, 1)
    assert operators(model) == {"LeakyRelu": 1}


def test_slopes_of_channels_stay() -> None:
    text = "g (float[2,3,4,4] x, float[1] s) => (float[2,3,4,4] y) { h = PRelu(x, a) y = PRelu(h, s) }"
    assert_refuses(spell_out_single_slopes, build(text, a=positive(3, 1, 1)))
