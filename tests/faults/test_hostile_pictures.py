"""Pictures that were made to do harm are refused before they are decoded."""

from __future__ import annotations

import io
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from converter_lite.data.images import decode, is_picture
from converter_lite.errors import DataError
from tests.faults.hostile import peak_of


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    pixels = zlib.compress(bytes(1 << 20))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size + b"\x08\x02\0\0\0") + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("size", [(8193, 8192), (10_000, 10_000), (50_000, 50_000), (2**31 - 1, 2**31 - 1)])
def test_a_small_file_of_a_giant_picture_is_refused_before_it_is_decoded(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "p.png").write_bytes(png_header(*size))
    assert peak_of(decode, tmp_path / "p.png") < 8_000_000
    with pytest.raises(DataError, match="too large"):
        decode(tmp_path / "p.png")


@pytest.mark.filterwarnings("ignore:Image size:PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("kind", ["BMP", "GIF", "TIFF", "PPM", "TGA"])
def test_every_format_is_held_to_the_limit(tmp_path: Path, kind: str) -> None:
    width = 65_000 if kind != "PPM" else 70_000
    stream = io.BytesIO()
    Image.new("L", (width, 1)).save(stream, kind)
    data = bytearray(stream.getvalue())
    places = {"BMP": 22, "GIF": 8, "TGA": 14}
    if kind == "PPM":
        data = bytearray(data.replace(b"70000 1\n", b"70000 70000\n"))
    elif kind == "TIFF":
        entry = data.index(b"\x01\x01") if b"\x01\x01" in data else 0
        data[entry + 8 : entry + 12] = (60_000).to_bytes(4, "little")
    else:
        data[places[kind] : places[kind] + 2] = (60_000).to_bytes(2, "little")
    (tmp_path / "p").write_bytes(bytes(data))
    with pytest.raises(DataError, match="too large"):
        decode(tmp_path / "p")


def test_of_an_animation_the_first_picture_is_decoded_only(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (300, 300), np.uint8)
    frames = [Image.fromarray(np.roll(pixels, shift, axis=0)) for shift in range(30)]
    frames[0].save(tmp_path / "p.gif", save_all=True, append_images=frames[1:])
    tracemalloc.start()
    assert decode(tmp_path / "p.gif").shape == (300, 300, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (tmp_path / "p.gif").stat().st_size + 10 * pixels.size


def test_texts_in_a_picture_do_not_grow_without_limit(tmp_path: Path) -> None:
    texts = PngImagePlugin.PngInfo()
    for index in range(3):
        texts.add_text(f"Comment{index}", "a" * (20 << 20), zip=True)
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png", pnginfo=texts)
    assert (tmp_path / "p.png").stat().st_size < 1 << 20
    assert peak_of(decode, tmp_path / "p.png") < 16 << 20


@pytest.mark.filterwarnings("ignore:(Tag data larger|Truncated File Read):UserWarning")
def test_exif_data_that_point_anywhere_are_no_reason_to_fail(tmp_path: Path) -> None:
    exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0" + b"\x12\x01\x03\0\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x08\0\0\0"
    Image.new("RGB", (6, 4)).save(tmp_path / "p.jpg", exif=exif)
    assert decode(tmp_path / "p.jpg").shape == (4, 6, 3)


def test_formats_that_start_programs_or_hold_other_files_are_not_pictures(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    assert not is_picture(tmp_path / "p")
    with pytest.raises(DataError, match="not a picture of a known format"):
        decode(tmp_path / "p")
