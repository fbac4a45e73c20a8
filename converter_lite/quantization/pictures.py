"""Samples that are pictures, changed as pictures may change: mirrored, or a part of them enlarged."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Feed = dict[str, NDArray[Any]]

COLOURS = (1, 3)
"""Channels of a picture."""

LEAST_SIZE = 16
"""Least height and width of one."""

LEAST_SHARE = 0.7
"""Least share of height and of width that a part has."""


def channel_axis(sample: Feed) -> int | None:
    """Axis of the colours where the only input is a picture, else ``None``."""
    shapes = [array.shape for array in sample.values() if array.dtype.kind == "f"]
    if len(sample) != 1 or len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    for axis, sizes in ((1, shapes[0][2:]), (3, shapes[0][1:3])):
        if shapes[0][axis] in COLOURS and min(sizes) >= LEAST_SIZE:
            return axis
    return None


def changed(sample: Feed, axis: int, generator: np.random.Generator) -> Feed:
    """A sample of pictures, mirrored at random, and a random part of each at the old size."""
    ((name, pictures),) = sample.items()
    front = np.moveaxis(pictures, axis, 1)
    made = np.stack([_changed(picture, generator) for picture in front])
    return {name: np.ascontiguousarray(np.moveaxis(made, 1, axis))}


def _changed(picture: NDArray[Any], generator: np.random.Generator) -> NDArray[Any]:
    is_mirrored, *drawn = generator.random(5)
    picture = picture[:, :, ::-1] if is_mirrored < 0.5 else picture
    for spatial in (1, 2):
        picture = _part(picture, spatial, LEAST_SHARE + (1 - LEAST_SHARE) * drawn[spatial - 1], drawn[spatial + 1])
    return picture


def _part(picture: NDArray[Any], axis: int, share: float, start: float) -> NDArray[Any]:
    """A part of one axis, enlarged to its length by linear interpolation."""
    size = picture.shape[axis]
    places = ((np.arange(size) + 0.5) * share + start * (1 - share) * size - 0.5).clip(0, size - 1)
    below = np.floor(places).astype(np.intp)
    weights = (places - below).astype(picture.dtype).reshape([-1 if i == axis else 1 for i in range(picture.ndim)])
    first, second = picture.take(below, axis), picture.take(np.minimum(below + 1, size - 1), axis)
    return np.asarray(first + (second - first) * weights)
