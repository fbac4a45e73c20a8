"""Constants that a program describes instead of storing them: a small file may ask for any number of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Importer

LARGE = 1 << 16
"""Elements from which on a constant of one number is filled by the graph, when it runs."""


def is_large(shape: Sequence[int]) -> bool:
    """Whether the graph fills such a constant; not if the shape is impossible."""
    return min(shape, default=0) >= 0 and math.prod(shape) > LARGE


def check_filled(importer: Importer, shape: Sequence[int]) -> int:
    """Elements of a described constant.

    Raises:
        ModelError: The shape is impossible, or all described constants together have too many elements.
    """
    elements = np.prod(np.array(shape, np.float64))
    if any(size < 0 for size in shape) or elements > importer.filled_left:
        raise ModelError(f"a constant of shape {list(shape)}: the model describes far more numbers than it holds")
    return int(elements)


def filled(importer: Importer, shape: Sequence[int], value: float, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """A constant of one number.

    Raises:
        ModelError: See :func:`check_filled`.
    """
    importer.filled_left -= check_filled(importer, shape)
    return np.full(shape, value, dtype)
