"""Sparse constants of a TensorFlow Lite file, with their zeros put back.

A sparse constant lists its dimensions in the order in which the elements are stored, those of the tensor first, then those
inside of a block. A dense dimension has a size; of a compressed one only some places are there: for each element of the
dimensions before it a segment of a list of indices. Source: the public schema of the format.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.tflite.container import Tensor
from converter_lite.formats.tflite.enums import DimensionType

ELEMENTS_PER_NUMBER = 64
"""Most elements of a constant for each number that the file holds of it: a few bytes could ask for any size."""


def densify(tensor: Tensor, data: NDArray[np.uint8], dtype: np.dtype[Any]) -> Callable[[], NDArray[Any]]:
    """What puts the zeros back.

    Raises:
        FormatError: The places do not fit the shape.
    """
    values = data[: data.size // dtype.itemsize * dtype.itemsize].view(dtype)
    if prod(tensor.shape) > ELEMENTS_PER_NUMBER * max(values.size, 1):
        raise FormatError(f"{values.size} numbers for a constant of shape {list(tensor.shape)}", where=tensor.name)
    places = _places(tensor, values.size)

    def dense() -> NDArray[Any]:
        whole = np.zeros(prod(tensor.shape), dtype)
        whole[places] = values[: places.size]
        return whole

    return dense


def _places(tensor: Tensor, count: int) -> NDArray[np.int64]:
    """Flat position of each stored number.

    Raises:
        FormatError: The description is damaged.
    """
    sparsity, rank = tensor.sparsity or {}, len(tensor.shape)
    order = [int(axis) for axis in sparsity.get("traversal_order", ())]
    blocks = [int(axis) for axis in sparsity.get("block_map", ())]
    dims = sparsity.get("dim_metadata", [])
    whole = sorted(order[:rank]) == list(range(rank)) and sorted(order[rank:]) == list(range(rank, rank + len(blocks)))
    if not whole or len(dims) != len(order) or any(not 0 <= axis < rank for axis in blocks):
        raise _damaged(tensor, "its dimensions are incomplete")
    levels = np.zeros((1, 0), np.int64)
    limit = max(count, *(_vector(item, "array_segments").size for item in dims), 1)
    for item in dims:
        levels = _grown(tensor, levels, item, limit)
    if len(levels) > count:
        raise _damaged(tensor, f"{len(levels)} places for {count} numbers")
    by_axis = {axis: levels[:, level] for level, axis in enumerate(order)}
    sizes = {axis: int(dims[order.index(axis)]["dense_size"]) for axis in range(rank, rank + len(blocks))}
    flat = np.zeros(len(levels), np.int64)
    for axis in range(rank):
        place = by_axis[axis]
        for block, owner in enumerate(blocks):
            if owner == axis:
                place = place * sizes[rank + block] + by_axis[rank + block]
        if place.size and not 0 <= int(place.min()) <= int(place.max()) < tensor.shape[axis]:
            raise _damaged(tensor, "an element lies outside")
        flat = flat * tensor.shape[axis] + place
    return flat


def _grown(tensor: Tensor, levels: NDArray[np.int64], item: dict[str, Any], limit: int) -> NDArray[np.int64]:
    """Places along one more dimension, ``limit`` at most."""
    if item["format"] == DimensionType.DENSE:
        size = int(item["dense_size"])
        if size <= 0 or len(levels) * size > limit:
            raise _damaged(tensor, f"a dimension of {size}")
        return np.hstack([np.repeat(levels, size, axis=0), np.tile(np.arange(size), len(levels))[:, None]])
    segments, indices = (_vector(item, name) for name in ("array_segments", "array_indices"))
    if segments.size != len(levels) + 1 or np.any(np.diff(segments) < 0):
        raise _damaged(tensor, "the segments of a dimension")
    if segments[0] != 0 or segments[-1] != indices.size or indices.size > limit:
        raise _damaged(tensor, "the indices of a dimension")
    return np.hstack([np.repeat(levels, np.diff(segments), axis=0), indices[:, None]])


def _vector(item: dict[str, Any], name: str) -> NDArray[np.int64]:
    found: NDArray[Any] = item.get(name, ("", {}))[1].get("values", np.zeros(0, np.int64))
    return found.astype(np.int64)


def _damaged(tensor: Tensor, what: str) -> FormatError:
    return FormatError(f"the file is damaged: a sparse constant: {what}", where=tensor.name)
