"""Orders of axes: which axis of a tensor of the file each axis of an ONNX value is.

A value in order ``p`` of a tensor ``t`` is ``transpose(t, p)``: its axis ``i`` is axis ``p[i]`` of the tensor.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Order = tuple[int, ...]


def natural(rank: int) -> Order:
    """The order of the file."""
    return tuple(range(rank))


def channels_first(rank: int) -> Order:
    """The order in which ONNX's operators on pictures want a tensor whose last axis has the channels."""
    return (0, rank - 1, *range(1, rank - 1))


def step(before: Order, after: Order) -> Order:
    """The permutation that takes a value from one order to the other."""
    return tuple(before.index(axis) for axis in after)


def moved(order: Order, permutation: Sequence[int]) -> Order:
    """The order in which a value is ``transpose(tensor, permutation)`` if it has the tensor in ``order``."""
    return tuple(list(permutation).index(axis) for axis in order)


def keeps_elements(shape: Sequence[int], permutation: Sequence[int]) -> bool:
    """Whether axes of size 1 are all that moves; unknown sizes are negative."""
    kept = [axis for axis in permutation if shape[axis] != 1]
    return kept == sorted(kept)


def without(order: Order, axes: Collection[int]) -> Order:
    """The order that is left when axes of the tensor disappear."""
    kept = [axis for axis in range(len(order)) if axis not in axes]
    return tuple(kept.index(axis) for axis in order if axis in kept)
