import numpy as np
import pytest

from converter_lite.passes.layer_norm import fuse_layer_norm
from tests.support import assert_applies, assert_refuses, build, normal, operators, positive

CONSTANTS = {
    "gamma": positive(8),
    "beta": normal(8),
    "rows": normal(4, 1),
    "eps": np.float32(1e-5),
    "deep": np.full((1, 1, 1, 1), 1e-5, np.float32),
    "two": np.float32(2),
    "three": np.float32(3),
    "last": np.array([-1]),
}
MEAN = "m = ReduceMean<axes = [-1]>(r) d = Sub(r, m)"
VARIANCE = "q = Pow(d, two) v = ReduceMean<axes = [-1]>(q) a = Add(v, eps) s = Sqrt(a) n = Div(d, s)"
AFFINE = "g = Mul(n, gamma) y = Add(g, beta)"


def _model(body: str, opset: int = 17):
    return build(f"g (float[N,4,8] x) => (float[N,4,8] y) {{ r = Neg(x) {body} }}", opset=opset, **CONSTANTS)


@pytest.mark.parametrize(
    "body",
    [
        f"{MEAN} {VARIANCE} {AFFINE}",
        f"{MEAN} {VARIANCE} g = Mul(gamma, n) y = Add(beta, g)",
        f"{MEAN} {VARIANCE} y = Mul(n, gamma)",
        f"{MEAN} {VARIANCE.replace('Pow(d, two)', 'Mul(d, d)')} {AFFINE}",
        f"{MEAN} {VARIANCE} {AFFINE}".replace("[-1]", "[2]"),
    ],
)
def test_the_spelled_out_normalization_is_recognized(body: str) -> None:
    model = _model(body)
    assert_applies(fuse_layer_norm, model, 1)
    assert operators(model) == {"Neg": 1, "LayerNormalization": 1}


def test_axes_may_be_an_input() -> None:
    body = f"{MEAN} {VARIANCE} {AFFINE}"
    body = body.replace("<axes = [-1]>(r)", "(r, last)").replace("<axes = [-1]>(q)", "(q, last)")
    assert_applies(fuse_layer_norm, _model(body, opset=18), 1)


@pytest.mark.parametrize(
    "body",
    [
        f"{MEAN} {VARIANCE} {AFFINE}".replace("[-1]", "[1]"),
        f"{MEAN} {VARIANCE.replace('two', 'three')} {AFFINE}",
        f"{MEAN} {VARIANCE.replace('eps', 'deep')} {AFFINE}",
        f"{MEAN} {VARIANCE} g = Mul(n, rows) y = Add(g, beta)",
        f"{MEAN} {VARIANCE} y = Neg(n)",
        f"{MEAN} {VARIANCE} g = Mul(n, gamma) t = Add(g, beta) y = Add(t, d)",
        f"{MEAN} {VARIANCE.replace('Div(d, s)', 'Div(s, d)')} {AFFINE}",
        f"m = ReduceMean<axes = [-1]>(x) d = Sub(r, m) {VARIANCE} {AFFINE}",
    ],
)
def test_look_alikes_stay(body: str) -> None:
    assert_refuses(fuse_layer_norm, _model(body))


def test_older_operator_sets_have_no_layer_normalization() -> None:
    assert_refuses(fuse_layer_norm, _model(f"{MEAN} {VARIANCE} {AFFINE}", opset=16))
