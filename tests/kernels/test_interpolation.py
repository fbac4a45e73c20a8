"""Which elements of an axis a resize takes."""

from __future__ import annotations

import pytest

from converter_lite.kernels.interpolation import nearest_by_ratio, nearest_of_onnx


@pytest.mark.parametrize(("size", "result", "first"), [(28, 2, 7), (224, 16, 7), (52, 2, 13)])
def test_halves_that_float32_makes_a_little_less_round_up(size: int, result: int, first: int) -> None:
    """0.5 / (2 / 28) - 0.5 is 6.5, and 6.4999995 in float32; onnxruntime takes element 7."""
    assert nearest_of_onnx("half_pixel", "round_prefer_ceil", size, result)[0] == first
    assert nearest_by_ratio("half_pixel", size, result)[0] == first
    assert nearest_of_onnx("half_pixel", "round_prefer_floor", size, result)[0] == first - 1
