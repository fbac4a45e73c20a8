"""Weights of sparse 1x1 convolutions as ``sparse_conv2d`` reads them: the nonzero weights, and the distances between them.

The kernel walks over the nonzero weights row by row and steps through the input by byte offsets, so that the stored data depend
on the size of the picture. Source: docs/formats/paddle_nb.md, sparse convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError

Array = NDArray[Any]

SLOTS = {"NonZeroWeights": "nonzeros_output", "OcNonZeros": "oc_nonzeros", "Diffs": "ic_diffs"}
"""Slot of a stored part -> end of its variable's name, as the original names them."""

FLOAT_GROUP = 4
"""Float rows that are stored one by one begin at multiples of this many weights; zeros fill the gaps."""

PAIRED_SHARE = (9, 5)
"""Rows are stored in pairs if those of the pairs have at least 9/5 nonzero weights per pair of weights that is not zero."""

LARGEST_OFFSET = 2**31 - 1
"""Offsets are int32."""


@dataclass(frozen=True, slots=True)
class SparseWeight:
    """A stored weight of shape (O, I).

    Attributes:
        values: ``NonZeroWeights``: the weights, float32 or int8, row by row; in pairs of rows, column by column.
        ends: ``OcNonZeros``, int32 (O,): for each row, or pair of rows, where its steps end.
        steps: ``Diffs``, int32: bytes from the input plane of a weight to that of the next one. The last of a row holds
            the distance from the plane of the very first weight to that of the next row's first one.
        first: ``first_ic``: input channel of the very first weight.
        paired: ``flag_semi``: rows come in pairs; a last odd one stands alone.
    """

    values: Array
    ends: NDArray[np.int32]
    steps: NDArray[np.int32]
    first: int
    paired: bool


def zero_share(weight: Array) -> np.float32:
    """Share of the weights of shape (O, I) that need not be stored, as the threshold counts it.

    Zeros that share a stored pair with another weight do not count.
    """
    stored = _pairs(weight).sum() * 2 + _odd_row(weight).sum() if is_paired(weight) else np.count_nonzero(weight)
    return np.float32(weight.size - stored) / np.float32(weight.size)


def is_paired(weight: Array) -> bool:
    """Whether rows are stored in pairs, because zeros stand in the same columns of both."""
    alone = np.count_nonzero(weight[: len(weight) // 2 * 2])
    pairs = np.count_nonzero(_pairs(weight))
    return bool(alone * PAIRED_SHARE[1] >= pairs * PAIRED_SHARE[0])


def _pairs(weight: Array) -> NDArray[np.bool_]:
    """Which columns of each pair of rows hold anything, (O // 2, I)."""
    even = len(weight) // 2 * 2
    return (weight[0:even:2] != 0) | (weight[1:even:2] != 0)


def _odd_row(weight: Array) -> NDArray[np.bool_]:
    """What the last row holds if it has no partner, (0 or 1, I)."""
    return np.asarray(weight[len(weight) // 2 * 2 :] != 0)


def encode(weight: Array, pixels: int) -> SparseWeight:
    """The stored parts of a weight with at least one nonzero element.

    Args:
        weight: (O, I), float32 or int8.
        pixels: Height times width of the input.
    """
    paired = is_paired(weight)
    blocks = np.concatenate((_pairs(weight), _odd_row(weight))) if paired else weight != 0
    rows, columns = np.nonzero(blocks)
    counts = np.count_nonzero(blocks, axis=1)
    group = _group(weight.dtype, paired=paired)
    begins = np.concatenate(([0], np.cumsum(-(-counts // group) * group)))
    first_of_row = np.concatenate(([0], np.cumsum(counts)))[:-1]
    places = begins[rows] + np.arange(len(rows)) - first_of_row[rows]
    steps = np.zeros(begins[-1], np.int64)
    steps[places] = (np.roll(columns, -1) - columns) * weight.dtype.itemsize * pixels
    ends = begins[:-1] + counts
    jumps = np.cumsum(steps)
    last = ends[ends > 0] - 1
    returning = steps[-1]
    steps[last] = jumps[last]
    if group == 1:  # no row follows whose place the last sum would say; as the original leaves it
        steps[-1] = returning
    stored_ends = np.zeros(len(weight), np.int32)
    stored_ends[: len(ends)] = ends
    values = _paired_values(weight, rows, columns) if paired else np.zeros(begins[-1], weight.dtype)
    if not paired:
        values[places] = weight[rows, columns]
    return SparseWeight(values, stored_ends, steps.astype(np.int32), int(columns[0]), paired)


def _group(dtype: np.dtype[Any], *, paired: bool) -> int:
    return FLOAT_GROUP if dtype.kind == "f" and not paired else 1


def _paired_values(weight: Array, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
    even = len(weight) // 2 * 2
    both = rows < even // 2
    pairs = np.stack((weight[2 * rows[both], columns[both]], weight[2 * rows[both] + 1, columns[both]]), axis=1)
    return np.concatenate((pairs.reshape(-1), weight[even:][rows[~both] - even // 2, columns[~both]]))


def decode(stored: SparseWeight, channels: int, pixels: int) -> Array:
    """The weight (O, I) from its stored parts.

    Args:
        stored: As a file has it.
        channels: Input channels, I.
        pixels: Height times width of the input.

    Raises:
        FormatError: It contradicts itself, or the input.
    """
    outputs = len(stored.ends)
    pairs = outputs // 2 if stored.paired else 0
    blocks = outputs - pairs
    ends = stored.ends[:blocks].astype(np.int64)
    group = _group(stored.values.dtype, paired=stored.paired)
    begins = np.concatenate(([0], -(-ends // group) * group))
    begins, length = begins[:-1], begins[-1]
    counts = ends - begins
    if np.any(counts < 0) or np.any(counts > channels) or length != len(stored.steps):
        raise FormatError("the ends of the rows of its sparse weight (OcNonZeros) make no sense")
    if len(stored.values) != length + counts[:pairs].sum():
        raise FormatError(f"its sparse weight has {len(stored.values)} numbers for {length} steps (NonZeroWeights)")
    rows = np.repeat(np.arange(blocks), counts)
    places = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + begins[rows]
    columns = stored.first + _offsets(stored, begins, ends, rows, places, pixels)
    if np.any(columns < 0) or np.any(columns >= channels):
        raise FormatError(f"a step of its sparse weight (Diffs) leads out of the {channels} input channels")
    if np.any((np.diff(columns) <= 0) & (np.diff(rows) == 0)):
        raise FormatError("the columns of its sparse weight do not ascend")
    in_pair = rows < pairs
    sources = np.where(in_pair, 2 * places, places + begins[rows] * stored.paired)
    targets = np.where(in_pair, 2 * rows, rows + pairs)
    dense = np.zeros((outputs, channels), stored.values.dtype)
    dense[targets, columns] = stored.values[sources]
    dense[targets[in_pair] + 1, columns[in_pair]] = stored.values[sources[in_pair] + 1]
    return dense


def _offsets(
    stored: SparseWeight,
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    rows: NDArray[np.intp],
    places: NDArray[np.int64],
    pixels: int,
) -> NDArray[np.int64]:
    """Input channel of every stored weight, counted from that of the first one.

    Raises:
        FormatError: A step is not a whole number of input planes.
    """
    plane = stored.values.dtype.itemsize * pixels
    before = np.concatenate(([0], np.cumsum(stored.steps, dtype=np.int64)))
    into = np.concatenate(([0], ends))[rows]  # where the steps of the previous row end
    jumps = np.where(into > 0, stored.steps[into - 1], 0)
    offsets = jumps + before[places] - before[begins[rows]]
    if np.any(offsets % plane):
        raise FormatError(f"the steps of its sparse weight (Diffs) are not those of a picture of {pixels} pixels")
    return np.asarray(offsets // plane)
