"""Axis permutations: the order in which one of two arrays, a tensor of a file and a value of ONNX, has the axes of the other.

The form ``p`` of an array ``x`` is ``transpose(x, p)``: its axis ``i`` is axis ``p[i]`` of ``x``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Perm = tuple[int, ...]

NHWC: Perm = (0, 2, 3, 1)
NCHW_FROM_NHWC: Perm = (0, 3, 1, 2)
NWC: Perm = (0, 2, 1)


def identity(rank: int) -> Perm:
    """The order of the array itself."""
    return tuple(range(rank))


def compose(first: Perm, second: Perm) -> Perm:
    """The permutation that applies ``first``, then ``second``."""
    return tuple(first[i] for i in second)


def invert(perm: Perm) -> Perm:
    """The permutation that undoes ``perm``."""
    return tuple(perm.index(i) for i in range(len(perm)))


def between(before: Perm, after: Perm) -> Perm:
    """The permutation that takes an array from the form ``before`` to the form ``after``."""
    return compose(invert(before), after)


def channels_first(rank: int) -> Perm:
    """The order of ONNX's pictures, of a tensor whose last axis has the channels."""
    return (0, rank - 1, *range(1, rank - 1))


def permute(shape: Sequence[int], perm: Perm) -> tuple[int, ...]:
    """Dimensions of the form ``perm`` of an array."""
    return tuple(shape[i] for i in perm)


def keeps_order(shape: Sequence[int], perm: Perm) -> bool:
    """Whether axes of size 1 are all that moves, so that the elements stay where they are; unknown sizes are negative."""
    kept = [axis for axis in perm if shape[axis] != 1]
    return kept == sorted(kept)


def visible(shape: Sequence[int], perm: Perm) -> Perm:
    """The same order of elements with an axis of size 1 in a place where the result's shape differs from ``shape``."""
    unit = tuple(shape).index(1)
    rest = tuple(axis for axis in perm if axis != unit)
    last = (*rest, unit)
    return last if permute(shape, last) != tuple(shape) else (unit, *rest)


def without(perm: Perm, axes: Collection[int]) -> Perm:
    """The order that is left when axes of the array disappear."""
    kept = [i for i in range(len(perm)) if i not in axes]
    return tuple(kept.index(i) for i in perm if i in kept)


def reshaped(before: Sequence[int], after: Sequence[int], perm: Perm) -> Perm | None:
    """The form of a reshape's result if the input has the form ``perm`` and the stored bytes stay where they are.

    Both shapes are cut into the smallest groups of axes with equal products; a group must keep its axes together and
    in order in ``perm``. Axes of size 1 may stand anywhere.

    Returns:
        The form of the result, or ``None`` when bytes would have to move.
    """
    groups = _groups(before, after)
    if groups is None:
        return None
    position = {axis: i for i, axis in enumerate(a for a in perm if before[a] != 1)}
    order = []
    for inside, outside in groups:
        places = [position[a] for a in inside]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        order.append((places[0], outside))
    moved = [axis for _, outside in sorted(order) for axis in outside]
    return _with_ones(after, moved)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Smallest groups of axes with equal products, without axes of size 1."""
    left = [i for i, size in enumerate(before) if size != 1]
    right = [i for i, size in enumerate(after) if size != 1]
    groups: list[tuple[list[int], list[int]]] = []
    while left and right:
        inside, outside = [left.pop(0)], [right.pop(0)]
        a, b = before[inside[0]], after[outside[0]]
        while a != b:
            if a < b and left:
                inside.append(left.pop(0))
                a *= before[inside[-1]]
            elif b < a and right:
                outside.append(right.pop(0))
                b *= after[outside[-1]]
            else:
                return None
        groups.append((inside, outside))
    return None if left or right else groups


def _with_ones(shape: Sequence[int], moved: list[int]) -> Perm:
    """A full permutation whose axes larger than 1 come in the order ``moved``; a usual one if there is a choice."""
    rank = len(shape)
    usual = [identity(rank)] + ([NHWC] if rank == 4 else []) + ([NWC] if rank == 3 else [])
    for candidate in usual:
        if [a for a in candidate if shape[a] != 1] == moved:
            return candidate
    return (*(a for a in range(rank) if shape[a] == 1), *moved)
