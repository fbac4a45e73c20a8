import numpy as np
import pytest

from converter_lite.passes.batchnorm import fold_batchnorm
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.passes.scale_shift import fold_scale_shift
from tests.support import assert_applies, assert_refuses, build, normal, operators, positive


def _conv(tail: str, constant: np.ndarray, **others: np.ndarray):
    return build(
        f"g (float[N,3,8,8] x) => (float[N,4,6,6] y) {{ c = Conv(x, w, b) {tail} }}",
        w=normal(4, 3, 3, 3),
        b=normal(4),
        k=constant,
        **others,
    )


@pytest.mark.parametrize("shape", [(4, 1, 1), (1, 4, 1, 1), (1,), ()])
@pytest.mark.parametrize("node", ["Mul(c, k)", "Mul(k, c)", "Div(c, k)", "Add(c, k)", "Sub(c, k)", "Sub(k, c)"])
def test_constants_per_channel_fold_into_a_convolution(node: str, shape: tuple[int, ...]) -> None:
    model = _conv(f"y = {node}", positive(*shape))
    assert_applies(fold_scale_shift, model, 1)
    assert operators(model) == {"Conv": 1}


@pytest.mark.parametrize("group", [1, 2])
def test_constants_per_channel_fold_into_a_grouped_transposed_convolution(group: int) -> None:
    model = build(
        f"g (float[1,4,5,5] x) => (float[1,6,H,W] y) {{ c = ConvTranspose<group = {group}>(x, w) y = Mul(c, k) }}",
        w=normal(4, 6 // group, 3, 3),
        k=positive(6, 1, 1),
    )
    assert_applies(fold_scale_shift, model, 1)


def test_a_whole_affine_chain_folds_into_gemm() -> None:
    model = build(
        "g (float[N,3] x) => (float[N,4] y) { c = Gemm<beta = 2.0>(x, w, b) s = Mul(c, k) y = Add(s, t) }",
        w=normal(3, 4),
        b=normal(1, 4),
        k=positive(4),
        t=normal(1, 4),
    )
    assert_applies(fold_scale_shift, model, 2)
    assert operators(model) == {"Gemm": 1}


def test_statistics_of_a_folded_normalization_follow_the_scale() -> None:
    model = _conv(
        "n = BatchNormalization(c, gamma, beta, mean, var) s = Mul(n, k) y = Add(s, t)",
        np.full((4, 1, 1), -2, np.float32),
        gamma=normal(4, seed=3),
        beta=normal(4, seed=4),
        mean=normal(4, seed=5),
        var=positive(4),
        t=np.full((), 0.5, np.float32),
    )
    assert fold_batchnorm(model) == 1
    assert fold_scale_shift(model) == 2
    beta, deviation = model.graph.node(0).outputs[0].meta[BATCHNORM]
    np.testing.assert_allclose(beta, -2 * normal(4, seed=4) + 0.5, rtol=1e-6)
    np.testing.assert_allclose(deviation, 2 * np.abs(normal(4, seed=3)), rtol=1e-6)


@pytest.mark.parametrize(
    ("node", "shape"),
    [
        ("Div(k, c)", (4, 1, 1)),
        ("Mul(c, k)", (6,)),
        ("Mul(c, k)", (6, 1)),
        ("Add(c, k)", (1, 4, 6, 6)),
    ],
)
def test_other_constants_stay(node: str, shape: tuple[int, ...]) -> None:
    assert_refuses(fold_scale_shift, _conv(f"y = {node}", positive(*shape)))


def test_a_constant_that_adds_axes_stays() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,1,4,6,6] y) { c = Conv(x, w) y = Mul(c, k) }",
        w=normal(4, 3, 3, 3),
        k=positive(1, 1, 4, 1, 1),
    )
    assert_refuses(fold_scale_shift, model)


@pytest.mark.parametrize(("node", "number"), [("Div(c, k)", 0.0), ("Div(c, k)", np.nan), ("Mul(c, k)", np.inf)])
def test_a_result_that_is_not_finite_stays(node: str, number: float) -> None:
    assert_refuses(fold_scale_shift, _conv(f"y = {node}", np.array(number, np.float32)))


def test_arithmetic_before_a_padded_layer_stays() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,8,8] y) { s = Add(x, k) y = Conv<pads = [1,1,1,1]>(s, w) }",
        w=normal(4, 3, 3, 3),
        k=positive(3, 1, 1),
    )
    assert_refuses(fold_scale_shift, model)


def test_a_layer_with_another_reader_stays() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,6,6] y, float[1,4,6,6] z) { c = Conv(x, w) y = Mul(c, k) z = Relu(c) }",
        w=normal(4, 3, 3, 3),
        k=positive(4, 1, 1),
    )
    assert_refuses(fold_scale_shift, model)


@pytest.mark.parametrize("node", ["Mul", "Div"])
def test_a_factor_of_a_shared_weight_stays(node: str) -> None:
    text = f"g (float[1,4] x) => (float[1,4] y) {{ a = Gemm(x, w) b = {node}(a, k) t = Tanh(b) y = Gemm(t, w) }}"
    assert_refuses(fold_scale_shift, build(text, w=normal(4, 4), k=np.float32(0.5)))


def test_an_offset_behind_a_shared_weight_folds() -> None:
    text = "g (float[1,4] x) => (float[1,4] y) { a = Gemm(x, w) b = Add(a, k) t = Tanh(b) y = Gemm(t, w) }"
    assert_applies(fold_scale_shift, build(text, w=normal(4, 4), k=normal(4)), 1)


def test_a_computed_gemm_bias_keeps_its_scale_outside() -> None:
    model = build(
        "g (float[2,3] x, float[4] b) => (float[2,4] y) { c = Gemm(x, w, b) y = Mul(c, k) }",
        w=normal(3, 4),
        k=positive(4),
    )
    assert_refuses(fold_scale_shift, model)


def test_a_gemm_bias_that_differs_between_rows_keeps_its_scale_outside() -> None:
    model = build(
        "g (float[2,3] x) => (float[2,4] y) { c = Gemm(x, w, b) y = Mul(c, k) }",
        w=normal(3, 4),
        b=normal(2, 4),
        k=positive(4),
    )
    assert_refuses(fold_scale_shift, model)
