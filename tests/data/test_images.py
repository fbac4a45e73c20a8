"""Decoding and preprocessing of pictures against recorded outputs of OpenCV (``record_opencv.py``)."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from converter_lite.data import images
from converter_lite.data.images import ImagePreprocess, decode, is_picture, load_image, preprocess
from converter_lite.errors import DataError

HERE = Path(__file__).parent
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)

with np.load(HERE / "opencv_decode.npz") as _recorded:
    DECODED = {key: _recorded[key] for key in _recorded}


@pytest.mark.parametrize("name", sorted(key[:-5] for key in DECODED if key.endswith(".file")))
def test_decoding_gives_what_opencv_reads(name: str, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    path.write_bytes(DECODED[f"{name}.file"].tobytes())
    expected = DECODED[f"{name}.rgb"]
    result = decode(path)
    assert result.shape == expected.shape
    # Lossless formats are exact; JPEG decoders may differ by one step.
    limit = 1 if name.startswith("jpeg") else 0
    assert np.abs(result.astype(int) - expected.astype(int)).max() <= limit
    assert is_picture(path)


@pytest.mark.parametrize("method", ["LINEAR", "NEAREST", "CUBIC"])
@pytest.mark.parametrize("order", ["RGB", "BGR", "GRAY"])
def test_the_whole_chain_gives_what_opencv_gives_in_the_order_of_the_original(order: str, method: str) -> None:
    with np.load(HERE / "opencv_chain.npz") as recorded:
        picture, expected = recorded["rgb"], recorded[f"{order}.{method}"]
    channels = expected.shape[2]
    settings = ImagePreprocess(order, MEAN[:channels], STD[:channels], 19, 16, method, 12, 11)
    result = preprocess(picture, settings, planar=False)
    np.testing.assert_allclose(result, expected, rtol=0, atol=4e-6)
    planar = preprocess(picture, settings, planar=True)
    assert planar.flags.c_contiguous
    np.testing.assert_array_equal(planar.transpose(1, 2, 0), result)


def test_without_any_setting_the_picture_comes_as_bgr_floats_of_0_to_255() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    result = preprocess(picture, ImagePreprocess(), planar=False)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, picture[..., ::-1])


def test_a_tiny_standard_deviation_adds_no_warning_of_a_library() -> None:
    settings = ImagePreprocess("RGB", normalize_mean=(127.5,) * 3, normalize_std=(2e-38,) * 3)
    assert not np.isfinite(preprocess(np.full((2, 2, 3), 255, np.uint8), settings, planar=True)).all()


def test_the_crop_works_without_resizing() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (6, 9, 3), dtype=np.uint8)
    result = preprocess(picture, ImagePreprocess("RGB", center_crop_width=4, center_crop_height=3), planar=False)
    np.testing.assert_array_equal(result, picture[1:4, 2:6])


def test_a_crop_larger_than_the_picture_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "small.png"
    Image.new("RGB", (8, 6)).save(path)
    settings = ImagePreprocess(center_crop_width=7, center_crop_height=7)
    with pytest.raises(DataError, match=r"small\.png: the picture is 8x6 .* smaller than the crop 7x7"):
        load_image(path, settings, planar=True)


@pytest.mark.parametrize(
    ("settings", "where", "message"),
    [
        ({"image_to_format": "HSV"}, "image_to_format", "'HSV' is not one of RGB, BGR, GRAY"),
        ({"resize_method": "AREA"}, "resize_method", "'AREA' is not one of LINEAR, NEAREST, CUBIC"),
        ({"resize_width": 0}, "resize_width", "0 is not in 1..65535"),
        ({"center_crop_height": 65536}, "center_crop_height", "65536 is not in"),
        ({"resize_method": "LINEAR"}, "resize_method", "given without resize_width"),
        ({"resize_method": "LINEAR", "resize_width": 3}, "resize_width", "given without resize_height"),
        ({"center_crop_width": 3}, "center_crop_width", "given without center_crop_height"),
        ({"normalize_mean": (0.0,) * 3}, "normalize_mean", "given without normalize_std"),
        ({"normalize_std": (1.0,) * 3}, "normalize_std", "given without normalize_mean"),
        ({"normalize_mean": (0.0,), "normalize_std": (1.0,) * 3}, "normalize_mean", "1 value.* 3 channel"),
        ({"normalize_mean": (0.0,) * 3, "normalize_std": (1.0, 0.0, 1.0)}, "normalize_std", "is 0"),
        ({"normalize_mean": (float("nan"),) * 3, "normalize_std": (1.0,) * 3}, "normalize_mean", "not finite"),
        (
            {"image_to_format": "GRAY", "normalize_mean": (0.0,), "normalize_std": (1.0,) * 3},
            "normalize_std",
            "3 value.* 1 channel",
        ),
        (
            {"resize_method": "CUBIC", "resize_width": 8, "resize_height": 8}
            | {"center_crop_width": 9, "center_crop_height": 8},
            "center_crop_width",
            "crop 9x8 .* larger than the resized picture 8x8",
        ),
    ],
)
def test_a_wrong_setting_names_its_key(settings: dict[str, object], where: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        ImagePreprocess(**settings)  # type: ignore[arg-type]
    assert where in caught.value.where


def test_a_damaged_picture_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:600])
    assert is_picture(path)
    with pytest.raises(DataError, match=r"cut\.jpg: the picture cannot be read"):
        decode(path)


@pytest.mark.parametrize("name", ["cut.jp2", "odd.pcx", "odd.avif"])
def test_damaged_pictures_of_rare_formats_are_named(tmp_path: Path, name: str) -> None:
    if name.endswith("avif") and "AVIF" not in images._decoders():
        pytest.skip("this Pillow reads no AVIF")
    path = tmp_path / name
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    damaged = {"jp2": content[:45], "pcx": b"\n\5\1\7" + content[4:], "avif": content.replace(b"iloc", b"none")}
    path.write_bytes(damaged[name.partition(".")[2]])
    assert is_picture(path)
    with pytest.raises(DataError, match=rf"{name}: the picture cannot be read"):
        decode(path)


def test_a_file_that_is_no_picture_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("0 cat\n")
    assert not is_picture(path)
    with pytest.raises(DataError, match=r"labels\.txt: this is not a picture"):
        decode(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png"):
        decode(tmp_path / "gone.png")
    with pytest.raises(DataError, match=r"gone\.png"):
        is_picture(tmp_path / "gone.png")


@pytest.mark.parametrize("side", [9000, 10000, 60000])
def test_a_picture_that_would_fill_the_memory_is_refused_unread(side: int, tmp_path: Path) -> None:
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b"")]
    parts = [struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks]
    path = tmp_path / "bomb.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))
    with pytest.raises(DataError, match=r"bomb\.png: the picture is too large"):
        decode(path)


@pytest.mark.parametrize("values", [np.float32([[0.5]]), np.int32([[70000]])])
def test_pictures_of_more_than_16_bits_are_refused(values: np.ndarray, tmp_path: Path) -> None:
    path = tmp_path / "deep.tif"
    Image.fromarray(values).save(path)
    with pytest.raises(DataError, match=r"deep\.tif: the picture has"):
        decode(path)


def test_formats_without_a_known_signature_are_asked_of_the_decoder(tmp_path: Path) -> None:
    path = tmp_path / "old.tga"
    Image.new("RGB", (4, 3), (1, 2, 3)).save(path)
    assert is_picture(path)
    np.testing.assert_array_equal(decode(path)[0, 0], [1, 2, 3])
