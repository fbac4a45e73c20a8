"""Cases of volumes and of single rows: transposed convolutions, means of parts, other sizes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.mindir.cases import IN, Case, f32, one
from tests.formats.mindir.cases_images import CUBE, LINE, conv_own, shares
from tests.formats.mindir.files import Weight
from tests.support import normal

Array = NDArray[Any]

BACK = normal(2, 3, 3, 3, 3, seed=9)


def spread(x: Array, stride: int) -> Array:
    """Each element spreads the kernel, without padding."""
    sizes = [(size - 1) * stride + 3 for size in x.shape[2:]]
    made = np.zeros((len(x), BACK.shape[1], *sizes))
    for place in itertools.product(range(3), repeat=3):
        parts = (slice(at, at + (size - 1) * stride + 1, stride) for at, size in zip(place, x.shape[2:], strict=True))
        made[(slice(None), slice(None), *parts)] += np.einsum(
            "ncdhw,co->nodhw", x, BACK[(slice(None), slice(None), *place)]
        )
    return made


def back(mode: str, **options: Any) -> dict[str, Any]:
    own = conv_own(mode, stride=2, **options)
    given = {"kernel_size": (3, 3, 3), "stride": (1, 1, 2, 2, 2), "dilation": (1, 1, 1, 1, 1), "format": "NCDHW"}
    return {key: value for key, value in own.items() if key != "out_channel"} | given | {"data_format": "NCDHW"}


def volume(own: dict[str, Any], part: tuple[slice, ...]) -> Case:
    expected = f32(lambda x: spread(x, 2)[(slice(None), slice(None), *part)])
    return Case("Conv3DTranspose", (IN, Weight(BACK)), expected, own=own, feed=(CUBE,))


def halves(x: Array) -> Array:
    return np.einsum("ncdhw,ad,bh,ew->ncabe", x, shares(3, 2), shares(4, 3), shares(5, 2))


def stretched(x: Array, size: int, *, corners: bool) -> Array:
    length = x.shape[-1]
    places = np.arange(size) * (length - 1) / (size - 1) if corners else (np.arange(size) + 0.5) * length / size - 0.5
    return np.apply_along_axis(lambda row: np.interp(places, np.arange(length), row), -1, x)


INNER = (slice(1, -1),) * 3
WHOLE = (slice(None),) * 3

CASES: dict[str, Case] = {
    "Conv3DTranspose": volume(back("pad", pad=(1,) * 6), INNER),
    "Conv3DTranspose, valid": volume(back("valid"), WHOLE),
    "Conv3DTranspose, same": volume(back("same"), (slice(-1),) * 3),
    "Conv3DTranspose to a larger size": volume(back("pad", pad=(1,) * 6), (slice(1, None),) * 3),
    "AdaptiveAvgPool3D to one": one(
        "AdaptiveAvgPool3D",
        f32(lambda x: x.mean((2, 3, 4), keepdims=True)),
        own={"output_size": (1, 1, 1)},
        feed=(CUBE,),
    ),
    "AdaptiveAvgPool3D": one("AdaptiveAvgPool3D", f32(halves), own={"output_size": (2, 3, 2)}, feed=(CUBE,)),
    "ResizeLinear1D": one(
        "ResizeLinear1D", f32(lambda x: stretched(x, 11, corners=True)), (11,), "align_corners", feed=(LINE,)
    ),
    "ResizeLinear1D on centres": one(
        "ResizeLinear1D", f32(lambda x: stretched(x, 11, corners=False)), (11,), 2, feed=(LINE,)
    ),
}
