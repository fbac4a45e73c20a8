"""Weight files in every form that Caffe and its forks have written, and damaged ones."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.wire import BYTES_PER_BLOB, LEAST_BLOBS, MOST_DIMS, Weights
from tests.formats.caffe.networks import blob, caffemodel, chunk, number, shape_message
from tests.support import normal

ARRAY = normal(2, 3, 5)


@pytest.mark.parametrize("form", ["float", "single", "split", "double", "dims"])
def test_numbers_are_read_from_every_form(form: str) -> None:
    (read,) = Weights(caffemodel({"a": [ARRAY]}, form)).blobs("a")
    assert read.shape == (2, 3, 5)
    np.testing.assert_array_equal(read.array(), ARRAY)


def test_half_precision_of_nvidia_is_widened() -> None:
    (read,) = Weights(caffemodel({"a": [ARRAY]}, "half")).blobs("a")
    np.testing.assert_array_equal(read.array(), ARRAY.astype(np.float16).astype(np.float32))


def test_older_files_have_four_sizes() -> None:
    (read,) = Weights(caffemodel({"a": [ARRAY]}, "old", old=True)).blobs("a")
    assert read.shape == (1, 2, 3, 5)


def test_float32_is_a_view_of_the_file() -> None:
    data = caffemodel({"a": [ARRAY]})
    array = Weights(data).blobs("a")[0].array()
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_of_layers_with_one_name_the_last_counts_and_layers_without_blobs_are_left_out() -> None:
    data = caffemodel({"a": [ARRAY], "b": []}) + caffemodel({"a": [ARRAY + 1], "c": [1.0]})
    weights = Weights(data)
    assert weights.layers == ("a", "c")
    assert ("a" in weights, "b" in weights) == (True, False)
    np.testing.assert_array_equal(weights.blobs("a")[0].array(), ARRAY + 1)
    assert weights.blobs("nowhere") == []


def layer(content: bytes) -> bytes:
    return chunk(100, chunk(1, b"a") + chunk(7, content))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"layer { }", "no caffemodel"),
        (caffemodel({"a": [ARRAY]})[:-1], "runs over its end"),
        (chunk(2, chunk(1, b"")), "first format of Caffe"),
        (b"\xff" * 12, "a number has no end"),
        (chunk(100, chunk(1, b"a") + chunk(7, b"") * 2 * LEAST_BLOBS), "far more blobs"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "field 0"),
    ],
)
def test_what_is_no_weight_file_is_refused(data: bytes, sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence) as caught:
        Weights(data, "net.caffemodel")
    assert caught.value.where == "net.caffemodel"
    assert BYTES_PER_BLOB > 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (shape_message((2, 3)) + chunk(5, bytes(20)), r"5 numbers for shape \[2, 3\]"),
        (shape_message((2, 3)) + chunk(5, bytes(23)), "23 bytes of numbers"),
        (shape_message((2,)), r"0 numbers for shape \[2\]"),
        (shape_message((-1,)) + chunk(5, bytes(4)), "1 numbers for shape"),
        (shape_message((1,) * (MOST_DIMS + 1)) + chunk(5, bytes(4)), "1 numbers for shape"),
        (chunk(7, b"\x0a\xff"), "a number has no end"),
        (number(5, 3), "a number has the wrong type"),
        (number(10, 3) + chunk(12, bytes(4)), "numbers of type 3"),
    ],
)
def test_a_damaged_blob_is_named(content: bytes, sentence: str) -> None:
    weights = Weights(layer(content), "net.caffemodel")
    with pytest.raises(ModelError, match=sentence):
        weights.blobs("a")


def test_a_blob_without_a_shape_is_a_row() -> None:
    assert Weights(layer(chunk(5, bytes(12)))).blobs("a")[0].shape == (3,)
    assert Weights(layer(blob(1.5))).blobs("a")[0].shape == ()
