"""Convolutions and pools over three dimensions, as ones over two."""

import pytest

from converter_lite.passes.spelled_out.volumes import spell_out_deep_pools, spell_out_volumes
from tests.support import assert_applies, assert_refuses, build, normal, operators


@pytest.mark.parametrize(
    "attributes",
    ["pads=[1,1,1,1,1,1]", "strides=[2,1,2], pads=[0,1,0,2,0,1]", "group=2, dilations=[2,1,1]", "kernel_shape=[3,2,3]"],
)
def test_a_convolution_of_volumes_is_one_of_pictures_with_more_channels(attributes: str) -> None:
    text = f"g (float[2,4,6,5,7] x) => (float[2,6,D,H,W] y) {{ y = Conv<{attributes}>(x, w, b) }}"
    model = build(text, w=normal(6, 2 if "group" in attributes else 4, 3, 2, 3), b=normal(6))
    assert_applies(spell_out_volumes, model, 1)
    assert operators(model)["Conv"] == 1


@pytest.mark.parametrize(
    "node",
    [
        "MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>",
        "MaxPool<kernel_shape=[1,3,2], strides=[1,2,1], pads=[0,1,0,0,1,1], dilations=[1,1,2]>",
        "MaxPool<kernel_shape=[3,2,3], strides=[2,2,2], ceil_mode=1>",
        'MaxPool<kernel_shape=[3,3,3], strides=[2,2,2], auto_pad="SAME_UPPER">',
        "AveragePool<kernel_shape=[3,2,3], strides=[1,2,2], pads=[1,1,1,1,0,1]>",
        "AveragePool<kernel_shape=[3,2,3], strides=[1,2,2], pads=[1,1,1,1,0,1], count_include_pad=1>",
        "AveragePool<kernel_shape=[2,2,2]>",
    ],
)
def test_a_pool_of_volumes_is_one_of_pictures_and_one_along_the_depth(node: str) -> None:
    model = build(f"g (float[2,3,6,5,7] x) => (float[2,3,D,H,W] y) {{ n = Neg(x) y = {node}(n) }}", opset=19)
    assert_applies(spell_out_deep_pools, model, 1)
    assert operators(model)[node.partition("<")[0]] == 2


@pytest.mark.parametrize(
    "attributes",
    [
        "strides=[2,2,2]",
        "strides=[2,1,2], pads=[1,1,0,0,1,1], output_padding=[1,0,0]",
        "strides=[3,2,2], dilations=[2,1,1]",
        "pads=[1,0,0,2,0,0], group=2",
        "strides=[4,2,2], group=2",
    ],
)
@pytest.mark.parametrize("bias", ["", ", b"])
def test_a_transposed_convolution_of_volumes_is_one_of_each_layer(attributes: str, bias: str) -> None:
    text = f"g (float[2,4,3,5,4] x) => (float[2,6,D,H,W] y) {{ y = ConvTranspose<{attributes}>(x, w{bias}) }}"
    model = build(text, w=normal(4, 3 if "group" in attributes else 6, 3, 2, 3), b=normal(6))
    assert_applies(spell_out_volumes, model, 1)
    (layer,) = (node for node in model.graph if node.op_type == "ConvTranspose")
    assert len(layer.inputs[0].shape) == 4


@pytest.mark.parametrize("node", ["GlobalAveragePool", "GlobalMaxPool"])
def test_a_pool_of_whole_volumes_is_one_of_pictures(node: str) -> None:
    model = build(f"g (float[2,3,6,5,7] x) => (float[2,3,1,1,1] y) {{ n = Neg(x) y = {node}(n) }}")
    assert_applies(spell_out_deep_pools, model, 1)


def test_places_of_maxima_in_volumes_stay() -> None:
    text = "g (float[1,1,4,4,4] x) => (float[1,1,2,2,2] y, int64[1,1,2,2,2] i) "
    assert_refuses(spell_out_deep_pools, build(text + "{ y, i = MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>(x) }"))
