"""Cases of pooling whose last windows reach over the end of an image, or whose sums are divided by another number."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.mindir.cases import Case, X, f32, one
from tests.formats.mindir.cases_images import FLAT, largest, mean, padded, window

Array = NDArray[Any]


def over_the_end(x: Array, kernel: int, stride: int) -> Array:
    """Means of planes with one element around them that counts; windows begin in front of the end of the plane."""
    *_, height, width = x.shape
    starts = [range(-1, size, stride) for size in (height, width)]
    made = np.zeros((*x.shape[:3], len(starts[0]), len(starts[1])))
    for (i, top), (j, left) in itertools.product(*map(enumerate, starts)):
        counts = (min(top + kernel, height + 1) - top) * (min(left + kernel, width + 1) - left)
        part = x[..., max(top, 0) : top + kernel, max(left, 0) : left + kernel]
        made[..., i, j] = part.sum(axis=(-2, -1), dtype=np.float64) / counts
    return made


def counted(kernel: int, stride: int) -> dict[str, Any]:
    given = window("PAD", size=(1, kernel, kernel), format="NCDHW", **FLAT) | {"strides": (1, 1, 1, stride, stride)}
    return given | {"ceil_mode": 1, "count_include_pad": True, "divisor_override": 0, "data_format": "NCDHW"}


DEEP = X[:, :, None].copy()

CASES: dict[str, Case] = {
    "MaxPool3D with padding": one(
        "MaxPool3D",
        lambda x: largest(x[:, :, 0], pad=1, rounds_up=True)[:, :, None],
        own=window("CALCULATED", size=(1, 3, 3), format="NCDHW", **FLAT | {"ceil_mode": 1})
        | {"strides": (1, 1, 1, 2, 2)},
        feed=(X[:, :, None].copy(),),
    ),
    "AvgPool3D rounded up": one("AvgPool3D", f32(lambda x: over_the_end(x, 3, 2)), own=counted(3, 2), feed=(DEEP,)),
    "AvgPool3D without a window behind": one(
        "AvgPool3D", f32(lambda x: over_the_end(x, 2, 3)), own=counted(2, 3), feed=(DEEP,)
    ),
    "AvgPool3D with a divisor": one(
        "AvgPool3D",
        f32(lambda x: mean(padded(x[:, :, 0], 1, 1, 1, 1))[:, :, None] * 9 / 5),
        own=counted(3, 2) | {"divisor_override": 5, "ceil_mode": 0},
        feed=(DEEP,),
    ),
}
