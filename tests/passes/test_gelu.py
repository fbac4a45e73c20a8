import math

import numpy as np
import pytest

from converter_lite.graph import find_nodes
from converter_lite.passes.gelu import fuse_gelu
from tests.support import assert_applies, assert_refuses, build, operators

CONSTANTS = {
    "root": np.float32(math.sqrt(2)),
    "inverse": np.float32(math.sqrt(0.5)),
    "half": np.float32(0.5),
    "one": np.float32(1),
    "two": np.float32(2),
}
ERF = "s = Div(r, root) e = Erf(s) p = Add(e, one)"


def _model(body: str, opset: int = 20):
    return build(f"g (float[N,8] x) => (float[N,8] y) {{ r = Neg(x) {body} }}", opset=opset, **CONSTANTS)


@pytest.mark.parametrize(
    "body",
    [
        f"{ERF} m = Mul(r, p) y = Mul(m, half)",
        f"{ERF} m = Mul(p, half) y = Mul(r, m)",
        f"{ERF} m = Mul(r, half) y = Mul(m, p)",
        f"m = Mul(half, r) {ERF} y = Mul(p, m)",
        "s = Mul(r, inverse) e = Erf(s) p = Add(one, e) m = Mul(r, p) y = Mul(half, m)",
    ],
)
def test_every_order_of_the_factors_is_recognized(body: str) -> None:
    model = _model(body)
    assert_applies(fuse_gelu, model, 1)
    assert operators(model) == {"Neg": 1, "Gelu": 1}
    assert find_nodes(model.graph, "e") == [model.graph.node(1)]


ERFC = "a = Neg(r) s = Mul(a, inverse) e = Erf(s) p = Sub(one, e)"


@pytest.mark.parametrize("body", [f"m = Mul(half, r) {ERFC} y = Mul(m, p)", f"{ERFC} m = Mul(r, p) y = Mul(m, half)"])
def test_the_form_with_the_complement_is_recognized(body: str) -> None:
    model = _model(body)
    assert_applies(fuse_gelu, model, 1)
    assert operators(model) == {"Neg": 1, "Gelu": 1}


@pytest.mark.parametrize(
    "body",
    [
        "s = Mul(r, inverse) e = Erf(s) p = Sub(one, e) m = Mul(r, p) y = Mul(m, half)",
        "a = Neg(r) s = Mul(a, inverse) e = Erf(s) p = Sub(e, one) m = Mul(r, p) y = Mul(m, half)",
        "a = Neg(r) s = Mul(a, inverse) e = Erf(s) p = Add(e, one) m = Mul(r, p) y = Mul(m, half)",
        f"{ERFC} m = Mul(a, p) y = Mul(m, half)",
        f"{ERFC} m = Mul(r, p) n = Mul(m, half) y = Add(n, a)",
    ],
)
def test_look_alikes_of_the_complement_stay(body: str) -> None:
    assert_refuses(fuse_gelu, _model(body))


@pytest.mark.parametrize(
    "body",
    [
        f"{ERF} m = Mul(r, p) y = Mul(m, two)",
        f"{ERF} m = Mul(x, p) y = Mul(m, half)",
        "s = Div(root, r) e = Erf(s) p = Add(e, one) m = Mul(r, p) y = Mul(m, half)",
        "s = Div(r, two) e = Erf(s) p = Add(e, one) m = Mul(r, p) y = Mul(m, half)",
        "s = Div(r, root) e = Erf(s) p = Add(e, two) m = Mul(r, p) y = Mul(m, half)",
        "s = Div(r, root) e = Erf(s) p = Add(e, one) m = Mul(r, p) n = Mul(m, half) y = Add(n, p)",
    ],
)
def test_look_alikes_stay(body: str) -> None:
    assert_refuses(fuse_gelu, _model(body))


def test_older_operator_sets_have_no_gelu() -> None:
    assert_refuses(fuse_gelu, _model(f"{ERF} m = Mul(r, p) y = Mul(m, half)", opset=19))
