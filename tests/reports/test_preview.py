"""Prepared samples as pictures and numbers."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from converter_lite.reports.preview import LONGEST_SIDE, as_picture, png, previews
from tests.support import normal


def test_values_are_stretched_from_the_lowest_to_the_highest_and_channel_0_is_red() -> None:
    array = np.full((1, 3, 8, 8), -1.0, np.float32)
    array[0, 0] = 3.0
    picture = as_picture(array)
    assert picture is not None
    assert picture.shape == (8, 8, 3)
    assert picture[4, 4].tolist() == [255, 0, 0]


def test_both_layouts_show_the_same_picture() -> None:
    array = normal(2, 3, 9, 12)
    first, turned = as_picture(array), as_picture(array.transpose(0, 2, 3, 1))
    assert first is not None
    assert turned is not None
    assert np.array_equal(first, turned)


def test_one_channel_is_a_grey_picture() -> None:
    picture = as_picture(normal(1, 1, 16, 8))
    assert picture is not None
    assert picture.shape == (16, 8)


@pytest.mark.parametrize("shape", [(1, 128), (1, 4, 8, 8), (1, 3, 4, 4), (3, 8, 8), (0, 3, 8, 8)])
def test_other_tensors_are_no_pictures(shape: tuple[int, ...]) -> None:
    assert as_picture(np.zeros(shape, np.float32)) is None


def test_equal_values_and_values_that_are_not_finite_break_nothing() -> None:
    flat = as_picture(np.ones((1, 3, 8, 8), np.float32))
    assert flat is not None
    assert not flat.any()
    assert as_picture(np.full((1, 3, 8, 8), np.nan, np.float32)) is None


def test_large_pictures_are_made_small() -> None:
    data = png(np.zeros((400, 800, 3), np.uint8))
    assert Image.open(io.BytesIO(data)).size == (LONGEST_SIDE, LONGEST_SIDE // 2)


def test_numbers_are_given_per_channel_of_a_picture_and_once_for_other_tensors() -> None:
    picture = np.stack([np.full((8, 8), float(i), np.float32) for i in range(3)])[None]
    ((image, ids),) = previews([{"image": picture, "ids": np.array([[1, 2, 3]])}])
    assert [channel[1] for channel in image.channels] == [0.0, 1.0, 2.0]
    assert image.png.startswith(b"\x89PNG")
    assert ids.channels == ((1.0, 2.0, 3.0, pytest.approx(0.8165, abs=1e-4)),)
    assert (ids.png, ids.dtype) == (b"", "int64")
    assert ids.to_json()["channels"][0]["mean"] == 2.0
