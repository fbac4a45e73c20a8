from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.passes.hard_activation import fuse_hard_sigmoid, fuse_hard_swish
from tests.support import assert_applies, assert_refuses, build, operators

CONSTANTS = {
    "zero": np.float32(0),
    "three": np.float32(3),
    "six": np.float32(6),
    "sixth": np.float32(1 / 6),
}
RAMP = "a = Add(r, three) c = Clip(a, zero, six)"


def _model(body: str, opset: int = 14):
    return build(f"g (float[N,8] x) => (float[N,8] y) {{ r = Neg(x) {body} }}", opset=opset, **CONSTANTS)


@pytest.mark.parametrize(
    "body",
    [
        f"{RAMP} d = Div(c, six) y = Mul(r, d)",
        f"{RAMP} d = Mul(sixth, c) y = Mul(d, r)",
        f"{RAMP} m = Mul(r, c) y = Div(m, six)",
        f"{RAMP} m = Mul(c, r) y = Mul(m, sixth)",
        "h = HardSigmoid<alpha = 0.16666667, beta = 0.5>(r) y = Mul(r, h)",
    ],
)
def test_every_form_of_hard_swish_is_recognized(body: str) -> None:
    model = _model(body)
    assert_applies(fuse_hard_swish, model, 1)
    assert operators(model) == {"Neg": 1, "HardSwish": 1}


@pytest.mark.parametrize("last", ["Div(c, six)", "Mul(c, sixth)", "Mul(sixth, c)"])
def test_every_form_of_hard_sigmoid_is_recognized(last: str) -> None:
    model = _model(f"{RAMP} y = {last}")
    assert_applies(fuse_hard_sigmoid, model, 1)
    assert operators(model) == {"Neg": 1, "HardSigmoid": 1}


@pytest.mark.parametrize(
    "body",
    [
        f"{RAMP} d = Div(c, three) y = Mul(r, d)",
        f"{RAMP} d = Div(c, six) y = Mul(x, d)",
        f"{RAMP} d = Div(six, c) y = Mul(r, d)",
        f"{RAMP} d = Div(c, six) m = Mul(r, d) y = Add(m, c)",
        "a = Add(r, six) c = Clip(a, zero, six) d = Div(c, six) y = Mul(r, d)",
        "a = Add(r, three) c = Clip(a, zero, three) d = Div(c, six) y = Mul(r, d)",
        "h = HardSigmoid(r) y = Mul(r, h)",
        f"{RAMP} y = Mul(r, c)",
    ],
)
def test_look_alikes_of_hard_swish_stay(body: str) -> None:
    assert_refuses(fuse_hard_swish, _model(body))


@pytest.mark.parametrize("body", [f"{RAMP} d = Div(c, six) y = Add(d, a)", f"{RAMP} y = Div(c, three)"])
def test_look_alikes_of_hard_sigmoid_stay(body: str) -> None:
    assert_refuses(fuse_hard_sigmoid, _model(body))


def test_older_operator_sets_have_no_hard_swish() -> None:
    assert_refuses(fuse_hard_swish, _model(f"{RAMP} d = Div(c, six) y = Mul(r, d)", opset=13))


@pytest.mark.parametrize("rule", [fuse_hard_sigmoid, fuse_hard_swish])
def test_quotients_of_whole_numbers_are_no_activation(rule: Callable[[ir.Model], int]) -> None:
    body = f"{RAMP} m = Mul(r, c) y = Div(m, six)" if rule is fuse_hard_swish else f"{RAMP} y = Div(c, six)"
    constants = {name: np.int32(number) for name, number in CONSTANTS.items()}
    model = build(f"g (int32[N,8] x) => (int32[N,8] y) {{ r = Neg(x) {body} }}", opset=14, **constants)
    assert_refuses(rule, model)
