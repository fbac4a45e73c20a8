import numpy as np
import pytest

from converter_lite.passes.pixel import fuse_pixel_conv
from tests.support import assert_applies, assert_refuses, build, normal, operators

HEAD = {"w": normal(5, 3, 1, 1), "b": normal(5)}


@pytest.mark.parametrize(
    "flatten", ["Flatten<axis=1>(c)", "Reshape(c, rows)", "Squeeze(c, pixels)"], ids=["Flatten", "Reshape", "Squeeze"]
)
@pytest.mark.parametrize("conv", ["Conv(p, w, b)", "Conv<kernel_shape=[1,1], strides=[2,2]>(p, w)"])
def test_a_convolution_of_one_pixel_is_a_gemm_behind_the_flatten(flatten: str, conv: str) -> None:
    constants = {**HEAD, "rows": np.array([-1, 5]), "pixels": np.array([2, 3])}
    model = build(
        f"g (float[2,3,4,4] x) => (float[2,5] y) {{ p = GlobalAveragePool(x) c = {conv} y = {flatten} }}", **constants
    )
    assert_applies(fuse_pixel_conv, model, 1)
    assert operators(model) == {"GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1}


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2,3,2,1] x) => (float[2,10] y) { c = Conv(x, w, b) y = Flatten<axis=1>(c) }",
        "g (float[2,3,1,1] x) => (float[1,10] y) { c = Conv(x, w, b) y = Flatten<axis=0>(c) }",
        "g (float[2,3,1,1] x) => (float[2,45] y) { c = Conv<pads=[1,1,1,1]>(x, w, b) y = Flatten<axis=1>(c) }",
        "g (float[2,3,1,1] x) => (float[2,5] y, float[2,5,1,1] z) { c = Conv(x, w, b) y = Flatten<axis=1>(c) z = Relu(c) }",
        "g (float[2,3,1,1] x, float[5] bias) => (float[2,5] y) { c = Conv(x, w, bias) y = Flatten<axis=1>(c) }",
        "g (float[2,3,1,1] x) => (float[2,5,1,1] y) { c = Conv(x, w, b) y = Relu(c) }",
    ],
    ids=["two pixels", "one row", "padding", "two readers", "bias is data", "no flatten"],
)
def test_other_convolutions_stay(text: str) -> None:
    assert_refuses(fuse_pixel_conv, build(text, **HEAD))


def test_groups_stay() -> None:
    text = "g (float[2,6,1,1] x) => (float[2,4] y) { c = Conv<group=2>(x, w) y = Flatten<axis=1>(c) }"
    assert_refuses(fuse_pixel_conv, build(text, w=normal(4, 3, 1, 1)))
