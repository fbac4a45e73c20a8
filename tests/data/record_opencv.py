"""Record what OpenCV gives for small pictures: run it with opencv-python-headless, numpy and pillow installed.

Writes ``opencv_resize.npz``, ``opencv_chain.npz`` and ``opencv_decode.npz`` beside itself. The last holds the bytes of
encoded pictures (key ``NAME.file``) and what ``imread`` makes of them (key ``NAME.rgb``). Recorded with OpenCV 4.14.
"""

import io
import tempfile
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

HERE = Path(__file__).parent
METHODS = {"LINEAR": cv2.INTER_LINEAR, "NEAREST": cv2.INTER_NEAREST, "CUBIC": cv2.INTER_CUBIC}
SIZES = [
    ((13, 17), (8, 9)),
    ((13, 17), (26, 34)),
    ((14, 18), (7, 9)),
    ((9, 5), (20, 7)),
    ((1, 6), (4, 4)),
    ((5, 5), (5, 5)),
]


def record_resize(rng: np.random.Generator) -> None:
    arrays = {}
    for number, ((height, width), (out_height, out_width)) in enumerate(SIZES):
        for channels in (1, 3):
            picture = (rng.standard_normal((height, width, channels)) * 3).astype(np.float32)
            arrays[f"{number}_{channels}.in"] = picture
            for name, method in METHODS.items():
                out = cv2.resize(picture, (out_width, out_height), interpolation=method)
                arrays[f"{number}_{channels}.{name}"] = out.reshape(out_height, out_width, channels)
    np.savez_compressed(HERE / "opencv_resize.npz", **arrays)


def record_chain(rng: np.random.Generator) -> None:
    """Decode, convert, normalize, resize, crop: in the order of the original converter, on floats."""
    bgr = rng.integers(0, 256, (23, 31, 3), dtype=np.uint8)
    arrays = {"rgb": bgr[..., ::-1]}
    mean, std = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
    converted = {"RGB": cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), "BGR": bgr, "GRAY": cv2.cvtColor(bgr, cv2.COLOR_BGR2GRAY)}
    arrays["gray"] = converted["GRAY"]
    for name, picture in converted.items():
        planes = np.atleast_3d(picture).astype(np.float32)
        for channel in range(planes.shape[2]):
            scale, shift = np.float32(1 / std[channel]), np.float32(mean[channel] / std[channel])
            planes[..., channel] = planes[..., channel] * scale - shift
        for method, flag in METHODS.items():
            resized = np.atleast_3d(cv2.resize(planes, (19, 16), interpolation=flag))
            top, left = (16 - 11) // 2, (19 - 12) // 2
            arrays[f"{name}.{method}"] = resized[top : top + 11, left : left + 12]
    np.savez_compressed(HERE / "opencv_chain.npz", **arrays)


def record_decode(rng: np.random.Generator) -> None:
    base = rng.integers(0, 256, (3, 4, 4), dtype=np.uint8).repeat(4, axis=0).repeat(4, axis=1)
    colour = Image.fromarray(base[..., :3])
    palette = colour.quantize(8)
    cases: dict[str, tuple[Image.Image, str, dict[str, object]]] = {
        "rgb": (colour, "PNG", {}),
        "rgba": (Image.fromarray(base), "PNG", {}),
        "gray_alpha": (Image.fromarray(base).convert("LA"), "PNG", {}),
        "palette": (palette, "PNG", {}),
        "palette_transparent": (palette, "PNG", {"transparency": 2}),
        "bilevel": (Image.fromarray(base[..., 0] > 99), "PNG", {}),
        "gray16": (Image.fromarray(rng.integers(0, 65536, (6, 7), dtype=np.uint16)), "PNG", {}),
        "jpeg": (colour, "JPEG", {"quality": 90}),
        "jpeg_gray": (colour.convert("L"), "JPEG", {"quality": 90}),
        "jpeg_cmyk": (Image.frombytes("CMYK", base.shape[1::-1], base.tobytes()), "JPEG", {"quality": 90}),
        "bmp": (colour, "BMP", {}),
    }
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        cases[f"exif{orientation}"] = (colour.crop((0, 0, 16, 8)), "PNG", {"exif": exif})
    arrays = {}
    for name, (picture, kind, options) in cases.items():
        buffer = io.BytesIO()
        picture.save(buffer, kind, **options)
        arrays[f"{name}.file"] = np.frombuffer(buffer.getvalue(), np.uint8)
    _, encoded = cv2.imencode(".png", rng.integers(0, 65536, (6, 7, 3), dtype=np.uint16))
    arrays["rgb16.file"] = encoded.reshape(-1)
    with tempfile.TemporaryDirectory() as folder:
        for key in list(arrays):
            path = Path(folder) / key
            path.write_bytes(arrays[key].tobytes())
            arrays[key.replace(".file", ".rgb")] = cv2.imread(str(path))[..., ::-1]
    np.savez_compressed(HERE / "opencv_decode.npz", **arrays)


if __name__ == "__main__":
    generator = np.random.default_rng(2024)
    record_resize(generator)
    record_chain(generator)
    record_decode(generator)
