"""Which products with one column have no float16 kernel that can be trusted."""

from __future__ import annotations

import pytest

from converter_lite.formats.paddle.exporter.half import to_half
from converter_lite.formats.paddle.exporter.half_columns import FREED, OVERREAD
from tests.formats.paddle.models import random
from tests.formats.paddle.test_half import float_file, kernels
from tests.support import build as graph

CONVOLUTIONS = {
    "rows of 16 elements": ("x=8,1,1,16", (8, 16, 1, 1), "", ""),
    "rows of other lengths": ("x=8,1,1,12", (8, 12, 1, 1), "", OVERREAD),
    "a row that is missing, and one of enough elements": ("x=8,1,1,12", (7, 12, 1, 1), "", ""),
    "a row that is missing, and short ones": ("x=8,1,1,5", (7, 5, 1, 1), "", OVERREAD),
    "a single row": ("x=8,1,1,5", (1, 5, 1, 1), "", ""),
    "several pixels": ("x=8,1,2,12", (8, 12, 1, 1), "", ""),
    "strides": ("x=8,1,1,16", (8, 16, 1, 1), "strides=[2,2]", FREED),
    "a window": ("x=8,5,5,16", (8, 16, 5, 5), "", FREED),
    "a window in groups": ("x=8,5,5,16", (8, 8, 5, 5), "group=2", FREED),
    "a depthwise window": ("x=8,5,5,16", (16, 1, 5, 5), "group=16", ""),
    "Winograd": ("x=8,3,3,16", (8, 16, 3, 3), "", ""),
    "Winograd's window with other pads": ("x=8,3,2,16", (8, 16, 3, 3), "pads=[0,1,0,0]", FREED),
    "few channels, stride 2": ("x=8,3,3,4", (4, 4, 3, 3), "strides=[2,2]", ""),
    "more channels, stride 2": ("x=8,3,3,16", (4, 16, 3, 3), "strides=[2,2]", FREED),
    "one filter for nine places": ("x=8,1,17,2", (1, 2, 1, 1), "strides=[2,2]", FREED),
    "one filter for ten places": ("x=8,1,19,2", (1, 2, 1, 1), "strides=[2,2]", ""),
}


@pytest.mark.parametrize(("data", "filters", "attributes", "reason"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions_to_one_pixel_or_by_one_filter(
    data: str, filters: tuple[int, ...], attributes: str, reason: str
) -> None:
    batch, height, width, channels = data.removeprefix("x=").split(",")
    operator = f"Conv<{attributes}>" if attributes else "Conv"
    text = f"g (float[{batch},{channels},{height},{width}] x) => (float y) {{ y = {operator}(x, w) }}"
    made, notes = to_half(float_file(graph(text, w=random(*filters))))
    kind = "depthwise_conv2d" if attributes == "group=16" else "conv2d"
    assert f"{kind} def {'float' if reason else 'half'}" in kernels(made)
    assert any(reason in note for note in notes)


@pytest.mark.parametrize(
    ("picture", "filters", "attributes", "count"),
    [
        ("H,W", (8, 3, 3, 3), "strides=[2,2]", 1),
        ("H,W", (8, 3, 1, 1), "strides=[1,1]", 1),
        ("H,W", (8, 16, 1, 1), "strides=[1,1]", 0),
        ("H,W", (8, 16, 3, 3), "pads=[1,1,1,1]", 0),
        ("9,9", (8, 3, 3, 3), "strides=[2,2]", 0),
    ],
)
def test_pictures_of_any_size_compute_in_float16_with_a_word_about_single_pixels(
    picture: str, filters: tuple[int, ...], attributes: str, count: int
) -> None:
    text = f"g (float[1,{filters[1]},{picture}] x) => (float y) {{ y = Conv<{attributes}>(x, w) }}"
    made, notes = to_half(float_file(graph(text, w=random(*filters))))
    assert "conv2d def half" in kernels(made)
    assert [f"{count} convolution would give a single pixel" in note for note in notes].count(True) == count


PRODUCTS = {
    "fc of one row": ("float[1,12] x", "y = MatMul(x, w)", (12, 8), "fc float"),
    "fc of one row, 16 elements": ("float[1,16] x", "y = MatMul(x, w)", (16, 8), "fc half"),
    "fc of two rows": ("float[2,12] x", "y = MatMul(x, w)", (12, 8), "fc half"),
    "fc of any rows": ("float[N,12] x", "y = MatMul(x, w)", (12, 8), "fc float"),
    "fc of one column": ("float[8,12] x", "y = MatMul(x, w)", (12, 1), "fc float"),
    "fc of one column, few rows": ("float[7,12] x", "y = MatMul(x, w)", (12, 1), "fc half"),
    "fc of one column, any rows": ("float[N,12] x", "y = MatMul(x, w)", (12, 1), "fc float"),
    "matmul of one column": ("float[8,12] x, float[12,1] z", "y = MatMul(x, z)", (1, 1), "matmul float"),
    "matmul of one row": ("float[1,12] x, float[12,8] z", "y = MatMul(x, z)", (1, 1), "matmul half"),
    "matmul, turned": ("float[8,12] x, float[1,12] z", "y = Gemm<transB=1>(x, z)", (1, 1), "matmul float"),
    "matmul of 16 elements": ("float[8,16] x, float[16,1] z", "y = MatMul(x, z)", (1, 1), "matmul half"),
    "matmul of any inner size": ("float[8,N] x, float[N,1] z", "y = MatMul(x, z)", (1, 1), "matmul float"),
}


@pytest.mark.parametrize(("inputs", "body", "weight", "expected"), PRODUCTS.values(), ids=PRODUCTS)
def test_products_of_one_row_or_column(inputs: str, body: str, weight: tuple[int, ...], expected: str) -> None:
    constants = {"w": random(*weight)} if "w)" in body else {}
    made, _ = to_half(float_file(graph(f"g ({inputs}) => (float y) {{ {body} }}", **constants)))
    assert expected in [kernel.replace(" def", "") for kernel in kernels(made)]
