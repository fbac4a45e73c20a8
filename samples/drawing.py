"""Draws the sample pictures: one of ten shapes or textures on a gradient, with noise, turned, stretched, half hidden.

Every picture is a function of its split and its number alone, so that any picture can be drawn again at any time.
Run as a script to write `calibration/`, `test/` and `classes.txt` beside this file.
"""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = 64
"""Width and height of a picture in pixels."""

SPLIT_SEEDS = {"train": 1, "calibration": 2, "test": 3}
"""Pictures of different splits come from different random streams."""

CALIBRATION_COUNT = 100
TEST_COUNT = 400

_SUPERSAMPLING = 3
_JPEG_QUALITY = 90

Plane = NDArray[np.float64]
Mask = NDArray[np.bool_]


def _polygon(sides: int) -> Callable[[Plane, Plane], Mask]:
    """Return the mask of a regular polygon whose corners lie on the unit circle."""
    sector = 2 * np.pi / sides

    def mask(u: Plane, v: Plane) -> Mask:
        from_edge_normal = np.mod(np.arctan2(v, u), sector) - sector / 2
        return np.hypot(u, v) * np.cos(from_edge_normal) < np.cos(sector / 2)

    return mask


def _circle(u: Plane, v: Plane) -> Mask:
    return np.hypot(u, v) < 0.92


def _star(u: Plane, v: Plane) -> Mask:
    sector, inner_radius = 2 * np.pi / 5, 0.45
    angle = np.abs(np.mod(np.arctan2(v, u), sector) - sector / 2)
    x, y = np.hypot(u, v) * np.cos(angle), np.hypot(u, v) * np.sin(angle)
    tip_x, tip_y = np.cos(sector / 2), np.sin(sector / 2)
    return (tip_x - inner_radius) * y - tip_y * (x - inner_radius) > 0


def _cross(u: Plane, v: Plane) -> Mask:
    return (np.minimum(np.abs(u), np.abs(v)) < 0.3) & (np.maximum(np.abs(u), np.abs(v)) < 0.9)


def _ring(u: Plane, v: Plane) -> Mask:
    return np.abs(np.hypot(u, v) - 0.72) < 0.22


def _crescent(u: Plane, v: Plane) -> Mask:
    return (np.hypot(u, v) < 0.95) & (np.hypot(u - 0.45, v) > 0.72)


def _stripes(u: Plane, v: Plane) -> Mask:
    return (np.hypot(u, v) < 1) & (np.cos(3 * np.pi * u) > 0)


def _checkerboard(u: Plane, v: Plane) -> Mask:
    return (np.hypot(u, v) < 1) & (np.cos(2.5 * np.pi * u) * np.cos(2.5 * np.pi * v) > 0)


CLASSES: dict[str, Callable[[Plane, Plane], Mask]] = {
    "circle": _circle,
    "hexagon": _polygon(6),
    "square": _polygon(4),
    "triangle": _polygon(3),
    "star": _star,
    "cross": _cross,
    "ring": _ring,
    "crescent": _crescent,
    "stripes": _stripes,
    "checkerboard": _checkerboard,
}
"""Class name -> mask over coordinates in units of the shape's radius, in the order of the model's outputs."""


def class_of(number: int) -> int:
    """Return the class index of a picture: the classes take turns."""
    return number % len(CLASSES)


def draw(split: str, number: int) -> NDArray[np.uint8]:
    """Draw a picture.

    Args:
        split: A key of `SPLIT_SEEDS`.
        number: Which picture of the split; it also decides the class, see `class_of`.

    Returns:
        RGB pixels, shape `(SIZE, SIZE, 3)`.
    """
    rng = np.random.default_rng((SPLIT_SEEDS[split], number))
    ticks = (np.arange(SIZE * _SUPERSAMPLING) + 0.5) / _SUPERSAMPLING
    x, y = np.meshgrid(ticks, ticks)
    background, foreground = _contrasting_colours(rng)
    shape_mask = list(CLASSES.values())[class_of(number)](*_shape_coordinates(rng, x, y))
    picture = np.where(shape_mask[..., None], _gradient(rng, foreground, x, y), _gradient(rng, background, x, y))
    for _ in range(rng.integers(0, 3)):
        picture[_bar(rng, x, y)] = rng.uniform(0, 255, 3)
    picture = picture.reshape(SIZE, _SUPERSAMPLING, SIZE, _SUPERSAMPLING, 3).mean(axis=(1, 3))
    picture += rng.normal(0, rng.uniform(4, 35), picture.shape)
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def _contrasting_colours(rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two RGB colours that differ enough to be told apart behind the noise."""
    while True:
        first, second = rng.uniform(20, 235, (2, 3))
        if np.linalg.norm(first - second) > 65:
            return first, second


def _shape_coordinates(rng: np.random.Generator, x: Plane, y: Plane) -> tuple[Plane, Plane]:
    """Map pixel coordinates to those of a shape of random size, place, angle and stretch."""
    radius = rng.uniform(9, 26)
    centre_x, centre_y = rng.uniform(0.85 * radius, SIZE - 0.85 * radius, 2)
    angle, stretch = rng.uniform(0, 2 * np.pi), np.exp(rng.uniform(-0.15, 0.15))
    along = (x - centre_x) * np.cos(angle) + (y - centre_y) * np.sin(angle)
    across = (y - centre_y) * np.cos(angle) - (x - centre_x) * np.sin(angle)
    return along / (radius * stretch), across * stretch / radius


def _gradient(rng: np.random.Generator, colour: NDArray[np.float64], x: Plane, y: Plane) -> Plane:
    """Return the colour with a slow change across the picture, shape `(*x.shape, 3)`."""
    angle = rng.uniform(0, 2 * np.pi)
    slope = (x / SIZE - 0.5) * np.cos(angle) + (y / SIZE - 0.5) * np.sin(angle)
    return colour + slope[..., None] * rng.uniform(-60, 60, 3)


def _bar(rng: np.random.Generator, x: Plane, y: Plane) -> Mask:
    """Return the mask of a thin straight bar that crosses the picture."""
    angle = rng.uniform(0, np.pi)
    distance = (x - rng.uniform(0, SIZE)) * np.cos(angle) + (y - rng.uniform(0, SIZE)) * np.sin(angle)
    return np.abs(distance) < rng.uniform(0.8, 2.2)


def encode_jpeg(pixels: NDArray[np.uint8]) -> bytes:
    """Return the picture as a JPEG file."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=_JPEG_QUALITY)
    return buffer.getvalue()


def decode(picture: Path | io.BytesIO) -> NDArray[np.uint8]:
    """Return the RGB pixels of a picture file."""
    with Image.open(picture) as image:
        return np.asarray(image.convert("RGB"))


def file_name(split: str, number: int) -> str:
    """Return the picture's path below `samples/`; the names of test pictures carry the label."""
    if split != "test":
        return f"{split}/{number:03d}.jpg"
    label = class_of(number)
    return f"{split}/{label}_{list(CLASSES)[label]}_{number:03d}.jpg"


def write_pictures(folder: Path) -> None:
    """Write the calibration pictures, the test pictures and the class names into a folder."""
    for split, count in (("calibration", CALIBRATION_COUNT), ("test", TEST_COUNT)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / file_name(split, number)).write_bytes(encode_jpeg(draw(split, number)))
    (folder / "classes.txt").write_text("\n".join(CLASSES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_pictures(Path(__file__).parent)
