"""Shapes of model inputs as configurations give them."""

from __future__ import annotations

from typing import NamedTuple

DYNAMIC_DIM = -1
"""Marks a dimension of :attr:`InputShape.dims` that ``dynamic_dims`` fills."""


class InputShape(NamedTuple):
    """Shape of one model input; dynamic dimensions are ``DYNAMIC_DIM``."""

    name: str
    dims: tuple[int, ...]


class DimRange(NamedTuple):
    """Sizes ``low..high`` (both included) that a dynamic dimension may take."""

    low: int
    high: int
