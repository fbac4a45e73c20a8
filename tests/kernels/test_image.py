"""Picture kernels against recorded outputs of OpenCV (``tests/data/record_opencv.py``)."""

from pathlib import Path

import numpy as np
import pytest

from converter_lite.kernels import image as kernels
from converter_lite.kernels.image import Interpolation, Window

RECORDED = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize("method", list(Interpolation))
@pytest.mark.parametrize("case", [f"{number}_{channels}" for number in range(6) for channels in (1, 3)])
def test_resize_gives_the_recorded_values_of_opencv(case: str, method: Interpolation) -> None:
    with np.load(RECORDED / "opencv_resize.npz") as recorded:
        picture, expected = recorded[f"{case}.in"], recorded[f"{case}.{method.value}"]
    result = kernels.resize(picture, height=expected.shape[0], width=expected.shape[1], method=method)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("method", list(Interpolation))
def test_a_window_holds_the_same_numbers_as_the_crop_of_the_whole(method: Interpolation) -> None:
    picture = np.random.default_rng(1).random((40, 33, 3), dtype=np.float32)
    whole = kernels.resize(picture, height=29, width=50, method=method)
    part = kernels.resize(picture, height=29, width=50, method=method, window=Window(3, 7, 11, 20))
    np.testing.assert_array_equal(part, whole[3:14, 7:27])


@pytest.mark.parametrize("method", [Interpolation.LINEAR, Interpolation.CUBIC])
def test_blocks_of_rows_do_not_change_the_result(method: Interpolation, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.random.default_rng(2).integers(0, 256, (50, 40, 3), dtype=np.uint8)
    whole = kernels.resize(picture, height=31, width=23, method=method)
    monkeypatch.setattr(kernels, "BLOCK_VALUES", 3 * 40 * 3)
    np.testing.assert_array_equal(kernels.resize(picture, height=31, width=23, method=method), whole)


def test_8_bit_pictures_are_resized_as_their_float_values() -> None:
    picture = np.random.default_rng(3).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    kwargs = {"height": 11, "width": 13, "method": Interpolation.CUBIC}
    np.testing.assert_array_equal(
        kernels.resize(picture, **kwargs), kernels.resize(picture.astype(np.float32), **kwargs)
    )


def test_resizing_does_not_write_into_its_argument() -> None:
    picture = np.random.default_rng(4).random((8, 8, 3), dtype=np.float32)
    before = picture.copy()
    kernels.resize(picture, height=8, width=8, method=Interpolation.LINEAR)
    np.testing.assert_array_equal(picture, before)


def test_gray_rounds_as_opencv_does() -> None:
    with np.load(RECORDED / "opencv_chain.npz") as recorded:
        np.testing.assert_array_equal(kernels.gray(recorded["rgb"])[..., 0], recorded["gray"])


def test_normalize_computes_in_float32_per_channel() -> None:
    picture = np.arange(256, dtype=np.uint8).reshape(8, 16, 2)
    out = np.empty((2, 8, 16), np.float32)
    kernels.normalize(picture, (1.5, 100.0), (0.1, 30.0), out=out.transpose(1, 2, 0))
    values = picture.astype(np.float32)
    for channel, (mean, std) in enumerate(((1.5, 0.1), (100.0, 30.0))):
        expected = values[..., channel] * np.float32(1 / std) - np.float32(mean / std)
        np.testing.assert_array_equal(out[channel], expected)


def test_the_crop_of_an_odd_margin_starts_at_the_integer_half() -> None:
    assert kernels.center_window(10, 11, 5, 4) == Window(2, 3, 5, 4)
