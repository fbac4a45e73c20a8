"""Weights with a scale for every block of neighbours along one axis; the last block of an axis may be shorter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

SLAB = 2 << 20
"""Elements whose scales are spread out at a time."""


def scales_shape(shape: tuple[int, ...], axis: int, block: int) -> tuple[int, ...]:
    """Shape of the scales of a weight: the axis counts blocks."""
    return tuple(-(-size // block) if i == axis else size for i, size in enumerate(shape))


def spread(values: NDArray[Any], size: int, axis: int, block: int) -> NDArray[Any]:
    """A value for each element where there was one for each block; ``size``: elements along the axis."""
    return np.take(values, np.arange(size) // block, axis=axis)


def per_block(reduction: np.ufunc, values: NDArray[Any], axis: int, block: int) -> NDArray[Any]:
    """``reduction`` over each block: minimum, maximum, add."""
    return np.asarray(reduction.reduceat(values, np.arange(0, values.shape[axis], block), axis=axis))


def slabs(shape: tuple[int, ...], axis: int, block: int) -> Iterator[tuple[slice, slice]]:
    """Parts of the first axis, whole blocks each, with the part of the scales that belongs to each."""
    rows = max(SLAB * shape[0] // max(int(np.prod(shape)), 1), 1)
    if axis == 0:
        rows = -(-rows // block) * block
    for start in range(0, shape[0], rows):
        end = min(start + rows, shape[0])
        yield slice(start, end), slice(start // block, -(-end // block)) if axis == 0 else slice(start, end)
