import numpy as np
import pytest

from converter_lite.passes.gemm import fuse_gemm
from tests.support import assert_applies, assert_refuses, build, normal, operators


@pytest.mark.parametrize("shape", [(4,), (1, 4)])
@pytest.mark.parametrize("add", ["Add(m, b)", "Add(b, m)"])
def test_a_product_with_bias_is_a_gemm(add: str, shape: tuple[int, ...]) -> None:
    model = build(
        f"g (float[N,3] x) => (float[N,4] y) {{ m = MatMul(x, w) y = {add} }}", w=normal(3, 4), b=normal(*shape)
    )
    assert_applies(fuse_gemm, model, 1)
    assert operators(model) == {"Gemm": 1}


@pytest.mark.parametrize(
    ("graph", "bias"),
    [
        ("g (float[2,5,3] x) => (float[2,5,4] y) { m = MatMul(x, w) y = Add(m, b) }", (4,)),
        ("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", (2, 4)),
        ("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", ()),
        ("g (float[2,3] x) => (float[1,2,4] y) { m = MatMul(x, w) y = Add(m, b) }", (1, 1, 4)),
        ("g (float[2,3] x) => (float[2,4] y, float[2,4] z) { m = MatMul(x, w) y = Add(m, b) z = Relu(m) }", (4,)),
        ("g (float[4,3] x) => (float[4,4] y) { m = MatMul(w, x) t = Identity(m) y = Add(t, b) }", (4,)),
    ],
)
def test_other_products_stay(graph: str, bias: tuple[int, ...]) -> None:
    assert_refuses(fuse_gemm, build(graph, w=normal(3, 4), b=np.ones(bias, np.float32)))


def test_a_product_of_two_activations_stays() -> None:
    model = build("g (float[2,3] x, float[3,4] w) => (float[2,4] y) { m = MatMul(x, w) y = Add(m, b) }", b=normal(4))
    assert_refuses(fuse_gemm, model)
