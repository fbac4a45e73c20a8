import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.graph import find_nodes
from converter_lite.passes.batchnorm import fold_batchnorm
from converter_lite.passes.channelwise import BATCHNORM
from converter_lite.passes.scale_shift import fold_scale_shift
from tests.support import assert_applies, assert_refuses, build, normal, operators, positive


def _statistics(channels: int) -> dict[str, np.ndarray]:
    return {
        "gamma": normal(channels, seed=3),
        "beta": normal(channels, seed=4),
        "mean": normal(channels, seed=5),
        "var": positive(channels, seed=6),
    }


BN = "BatchNormalization<epsilon = 0.001>(c, gamma, beta, mean, var)"


@pytest.mark.parametrize("bias", [", b", ""])
@pytest.mark.parametrize(
    ("layer", "weight"),
    [
        ("Conv", (4, 3, 3, 3)),
        ("Conv<group = 3>", (6, 1, 3, 3)),
        ("ConvTranspose", (3, 4, 2, 2)),
        ("ConvTranspose<group = 3>", (3, 2, 2, 2)),
    ],
)
def test_normalization_folds_into_convolutions(layer: str, weight: tuple[int, ...], bias: str) -> None:
    channels = {"Conv": 4, "Conv<group = 3>": 6, "ConvTranspose": 4, "ConvTranspose<group = 3>": 6}[layer]
    model = build(
        f"g (float[N,3,8,8] x) => (float[N,C,H,W] y) {{ c = {layer}(x, w{bias}) y = {BN} }}",
        w=normal(*weight),
        b=normal(channels),
        **_statistics(channels),
    )
    assert_applies(fold_batchnorm, model, 1)
    assert operators(model) == {layer.split("<")[0]: 1}


@pytest.mark.parametrize("attributes", ["", "<transB = 1>", "<alpha = 0.5, beta = 3.0>"])
def test_normalization_folds_into_gemm(attributes: str) -> None:
    weight = normal(4, 3) if "transB" in attributes else normal(3, 4)
    model = build(
        f"g (float[N,3] x) => (float[N,4] y) {{ c = Gemm{attributes}(x, w, b) y = {BN} }}",
        w=weight,
        b=normal(4),
        **_statistics(4),
    )
    assert_applies(fold_batchnorm, model, 1)


def test_the_layer_remembers_mean_and_deviation_and_answers_to_the_removed_name() -> None:
    model = build(
        f"g (float[N,3,8,8] x) => (float[N,4,6,6] y) {{ c = Conv(x, w) n = {BN} y = Relu(n) }}",
        w=normal(4, 3, 3, 3),
        **_statistics(4),
    )
    assert fold_batchnorm(model) == 1
    conv = model.graph.node(0)
    beta, deviation = conv.outputs[0].meta[BATCHNORM]
    np.testing.assert_allclose(beta, _statistics(4)["beta"])
    np.testing.assert_allclose(deviation, np.abs(_statistics(4)["gamma"]))
    for name in ("BatchNormalization_1", "n", "c", "Conv_0"):
        assert find_nodes(model.graph, name) == [conv]


def test_statistics_stay_with_a_value_that_a_later_rule_keeps() -> None:
    model = build(
        f"g (float[1,3,8,8] x) => (float[1,4,6,6] y) {{ c = Conv(x, w) n = {BN} s = Mul(n, k) y = Relu(s) }}",
        w=normal(4, 3, 3, 3),
        k=positive(4, 1, 1),
        **_statistics(4) | {"beta": np.zeros(4, np.float32), "mean": np.zeros(4, np.float32)},
    )
    assert fold_batchnorm(model) == 1
    assert len(model.graph.node(0).inputs) == 2
    assert fold_scale_shift(model) == 1
    assert BATCHNORM in model.graph.node(0).outputs[0].meta


def test_a_weight_that_two_layers_read_is_scaled_for_one_of_them_only() -> None:
    model = build(
        f"g (float[N,3,8,8] x) => (float[N,4,6,6] y, float[N,4,6,6] z) {{ c = Conv(x, w) y = {BN} z = Conv(x, w) }}",
        w=normal(4, 3, 3, 3),
        **_statistics(4),
    )
    assert_applies(fold_batchnorm, model, 1)


def _two_readers() -> ir.Model:
    return build(
        f"g (float[N,3,8,8] x) => (float[N,4,6,6] y, float[N,4,6,6] z) {{ c = Conv(x, w) y = {BN} z = Relu(c) }}",
        w=normal(4, 3, 3, 3),
        **_statistics(4),
    )


def _graph_output_between() -> ir.Model:
    return build(
        f"g (float[N,3,8,8] x) => (float[N,4,6,6] y, float[N,4,6,6] c) {{ c = Conv(x, w) y = {BN} }}",
        w=normal(4, 3, 3, 3),
        **_statistics(4),
    )


def _computed_weight() -> ir.Model:
    return build(
        f"g (float[1,3,8,8] x, float[4,3,3,3] w) => (float[1,4,6,6] y) {{ c = Conv(x, w) y = {BN} }}",
        **_statistics(4),
    )


def _training() -> ir.Model:
    training = BN.replace("<", "<training_mode = 1, ")
    return build(
        f"g (float[1,3,8,8] x) => (float[1,4,6,6] y) {{ c = Conv(x, w) y, m, v = {training} }}",
        opset=15,
        w=normal(4, 3, 3, 3),
        **_statistics(4),
    )


def _no_layer_before() -> ir.Model:
    return build(
        f"g (float[1,4,8,8] x) => (float[1,4,8,8] y) {{ c = Relu(x) y = {BN} }}",
        **_statistics(4),
    )


def _negative_variance() -> ir.Model:
    statistics = _statistics(4) | {"var": -positive(4)}
    return build(
        f"g (float[1,3,8,8] x) => (float[1,4,6,6] y) {{ c = Conv(x, w) y = {BN} }}", w=normal(4, 3, 3, 3), **statistics
    )


@pytest.mark.parametrize(
    "make", [_two_readers, _graph_output_between, _computed_weight, _training, _no_layer_before, _negative_variance]
)
def test_normalization_stays_where_folding_would_change_something(make) -> None:
    assert_refuses(fold_batchnorm, make())
