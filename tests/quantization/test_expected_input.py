from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.quantization.expected_input import clipped_normal_mean, expected_channel_mean, expected_rows
from tests.support import build


@pytest.mark.parametrize("bounds", [(0.0, np.inf), (0.0, 6.0), (-1.0, 1.0), (-np.inf, 0.5), (-np.inf, np.inf)])
def test_the_mean_of_a_clipped_normal_variable_is_what_sampling_gives(bounds: tuple[float, float]) -> None:
    mean, std = np.array([-2.0, -0.3, 0.0, 1.5, 5.0]), np.array([0.5, 1.0, 2.0, 0.1, 3.0])
    drawn = np.random.default_rng(0).normal(mean, std, (400_000, 5)).clip(*bounds).mean(axis=0)
    np.testing.assert_allclose(clipped_normal_mean(mean, std, *bounds), drawn, atol=0.02)


def test_a_channel_without_spread_has_the_clipped_value_itself() -> None:
    given = clipped_normal_mean(np.array([-1.0, 2.0, 9.0]), np.zeros(3), 0.0, 6.0)
    np.testing.assert_allclose(given, [0, 2, 6], atol=1e-9)


def model_with_statistics(text: str) -> ir.Model:
    model = build(f"g (float[1,3,4,4] x) => (float[1,3,4,4] y) {{ {text} }}", low=np.float32(0), high=np.float32(6))
    model.graph.inputs[0].meta["batchnorm"] = (np.array([-1.0, 0.0, 2.0]), np.ones(3))
    return model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = Identity(x)", [-1, 0, 2]),
        ("y = AveragePool<kernel_shape=[1,1]>(x)", [-1, 0, 2]),
        ("y = Relu(x)", [0.0833, 0.3989, 2.0085]),
        ("y = Clip(x, low, high)", [0.0833, 0.3989, 2.0085]),
        ("r = Relu(x) y = MaxPool<kernel_shape=[1,1]>(r)", [0.0833, 0.3989, 2.0085]),
    ],
)
def test_means_follow_through_clamps_and_pools(text: str, expected: list[float]) -> None:
    mean = expected_channel_mean(model_with_statistics(text).graph.outputs[0])
    np.testing.assert_allclose(mean, expected, atol=2e-3)


@pytest.mark.parametrize("text", ["y = Neg(x)", "n = Neg(x) y = Relu(n)", "y = Sigmoid(x)"])
def test_nothing_is_known_behind_other_operators(text: str) -> None:
    assert expected_channel_mean(model_with_statistics(text).graph.outputs[0]) is None
    assert expected_channel_mean(None) is None


SPELLED_OUT = """m = ReduceMean<axes=[-1]>(x) c = Sub(x, m) s = Mul(c, c) v = ReduceMean<axes=[-1]>(s) w = Add(v, eps)
    d = Sqrt(w) n = Div(c, d) k = Mul(n, scale) y = Add(k, offset)"""
GIVEN = {
    "scale": np.array([1.0, 0.1, 20.0, -3.0], np.float32),
    "offset": np.array([0.0, 5.0, -1.0, 0.0], np.float32),
    "eps": np.float32(1e-5),
}


def behind(text: str, **given: object) -> ir.Value:
    return build(f"g (float[2,6,4] x) => (float[2,6,4] y) {{ {text} }}", opset=17, **given).graph.outputs[0]


@pytest.mark.parametrize("text", [SPELLED_OUT, "y = LayerNormalization(x, scale, offset)"])
def test_rows_behind_a_normalization_have_its_offset_and_scale(text: str) -> None:
    rows = expected_rows(behind(text, **GIVEN), 4000)
    assert rows is not None
    np.testing.assert_allclose((rows - GIVEN["offset"]).mean(axis=0) / GIVEN["scale"], 0, atol=0.05)
    np.testing.assert_allclose(rows.std(axis=0), np.abs(GIVEN["scale"]), rtol=0.03)


def test_an_offset_is_optional() -> None:
    rows = expected_rows(behind("y = LayerNormalization(x, scale)", scale=GIVEN["scale"]), 4000)
    assert rows is not None
    np.testing.assert_allclose(rows.mean(axis=0) / GIVEN["scale"], 0, atol=0.05)


@pytest.mark.parametrize(
    "text",
    [
        "y = Identity(x)",
        "y = LayerNormalization<axis=1>(x, table, table)",
        "y = LayerNormalization(x, x, offset)",
        "k = Mul(x, scale) y = Add(k, offset)",
        "r = Relu(x) d = Sqrt(r) c = Sub(x, offset) n = Div(c, d) k = Mul(n, scale) y = Add(k, offset)",
    ],
)
def test_other_values_have_no_expected_rows(text: str) -> None:
    assert expected_rows(behind(text, table=np.ones((6, 4), np.float32), **GIVEN), 10) is None
