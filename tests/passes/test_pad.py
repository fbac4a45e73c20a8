import numpy as np
import pytest

from converter_lite.passes.pad import fold_pad
from tests.support import assert_applies, assert_refuses, build, normal, operators

SPATIAL = np.array([0, 0, 1, 2, 0, 0, 1, 1])


def _padded(
    layer: str, *, pads: object = SPATIAL, pad: str = "Pad(r, p)", before: str = "Relu(x)", **constants: object
):
    return build(
        f"g (float[N,3,8,8] x) => (float[N,C,H,W] y) {{ r = {before} q = {pad} y = {layer} }}",
        p=np.asarray(pads, np.int64),
        **constants,
    )


@pytest.mark.parametrize(
    "layer",
    [
        "Conv(q, w)",
        "Conv<pads = [1,0,2,0], strides = [2,2]>(q, w)",
        'Conv<auto_pad = "VALID">(q, w)',
        "AveragePool<kernel_shape = [3,3]>(q)",
        "AveragePool<kernel_shape = [3,3], count_include_pad = 1>(q)",
        "AveragePool<kernel_shape = [5,5], count_include_pad = 1, pads = [1,1,1,1]>(q)",
        "MaxPool<kernel_shape = [3,3], strides = [2,2]>(q)",
        "MaxPool<kernel_shape = [5,5], pads = [1,1,1,1]>(q)",
    ],
)
def test_padding_folds_into_the_layer(layer: str) -> None:
    model = _padded(layer, w=normal(4, 3, 3, 3))
    assert_applies(fold_pad, model, 1)
    assert operators(model) == {"Relu": 1, layer.split("<")[0].split("(")[0]: 1}


def test_padding_with_minus_infinity_folds_into_max_pool() -> None:
    model = _padded(
        "MaxPool<kernel_shape = [3,3]>(q)",
        pad="Pad(r, p, v)",
        before="Neg(x)",
        v=np.float32(-np.inf),
    )
    assert_applies(fold_pad, model, 1)


def test_pads_of_named_axes_fold() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,8,9] y) { q = Pad(x, p, , a) y = Conv(q, w) }",
        opset=18,
        p=np.array([2, 1, 1, 1]),
        a=np.array([-1, 2]),
        w=normal(4, 3, 3, 3),
    )
    assert_applies(fold_pad, model, 1)
    assert list(model.graph.node(0).attributes["pads"].as_ints()) == [1, 2, 1, 1]


@pytest.mark.parametrize(
    "layer",
    [
        'Conv<auto_pad = "SAME_UPPER">(q, w)',
        "AveragePool<kernel_shape = [3,3], pads = [1,0,0,0]>(q)",
        "AveragePool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(q)",
        "AveragePool<kernel_shape = [2,2]>(q)",
        "MaxPool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1>(q)",
        "MaxPool<kernel_shape = [3,3], dilations = [2,2]>(q)",
        "MaxPool<kernel_shape = [2,2]>(q)",
        "LpPool<kernel_shape = [3,3]>(q)",
    ],
)
def test_layers_that_would_compute_something_else_keep_their_padding(layer: str) -> None:
    assert_refuses(fold_pad, _padded(layer, w=normal(4, 3, 3, 3)))


def test_zeros_before_max_pool_stay_where_values_may_be_negative() -> None:
    assert_refuses(fold_pad, _padded("MaxPool<kernel_shape = [3,3]>(q)", before="Neg(x)"))


@pytest.mark.parametrize(
    ("pads", "pad"),
    [
        ([0, 0, -1, 0, 0, 0, 0, 0], "Pad(r, p)"),
        ([0, 1, 1, 1, 0, 0, 1, 1], "Pad(r, p)"),
        ([1, 0, 1, 1, 0, 0, 1, 1], "Pad(r, p)"),
        (SPATIAL, 'Pad<mode = "reflect">(r, p)'),
        (SPATIAL, "Pad(r, p, v)"),
    ],
)
def test_other_padding_stays(pads: object, pad: str) -> None:
    assert_refuses(fold_pad, _padded("Conv(q, w)", pads=pads, pad=pad, v=np.float32(1), w=normal(4, 3, 3, 3)))


def test_padding_with_another_reader_stays() -> None:
    model = build(
        "g (float[1,3,8,8] x) => (float[1,4,8,9] y, float[1,3,10,11] z) { q = Pad(x, p) y = Conv(q, w) z = Neg(q) }",
        p=SPATIAL,
        w=normal(4, 3, 3, 3),
    )
    assert_refuses(fold_pad, model)
