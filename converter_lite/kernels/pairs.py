"""Weights for which no integer kernel of an x86 processor can saturate.

Without VNNI, ``vpmaddubsw`` multiplies uint8 activations with int8 weights and adds two neighbouring products in saturating
int16: 2 * 255 * 127 does not fit. What cannot saturate is a pair of weights whose positive elements add up to at most
``32767 // 255 = 128``, and whose negative ones to at least -128. Opposite signs cost nothing.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, VPMADDUBSW; the order of the sums as the kernels of
onnxruntime's MLAS and of oneDNN have it (docs/formats/x86_integer_kernels.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_CODE = 255
"""Largest code of a uint8 activation."""

PAIR_LIMIT = 32767 // LARGEST_CODE
"""Largest sum of the positive weights of a pair, and of the magnitudes of the negative ones: 128."""

STEP_FACTORS = tuple(1 + i / 64 for i in range(65))
"""Factors of steps that are tried; with 2 every pair fits."""

BLOCK_VALUES = 1 << 22
"""Weights that are examined at a time (whole rows)."""

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class PairRule:
    """Which elements of a weight are neighbours in a sum.

    Attributes:
        rows: Axes of the weight that count its sums (output channels).
        summed: The other axes in the order in which kernels add their products, the fastest last.
        restart: Pairs start anew after this many elements; 0: they run through the whole sum. For an odd number kernels differ:
            the last element of a run is paired with nothing or with the first one of the next run.
    """

    rows: tuple[int, ...]
    summed: tuple[int, ...]
    restart: int = 0

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a weight of this shape has these axes, and runs of this length."""
        if sorted((*self.rows, *self.summed)) != list(range(len(shape))):
            return False
        return self.restart <= 0 or prod(shape[axis] for axis in self.summed) % self.restart == 0

    def matrix(self, weight: NDArray[Any]) -> NDArray[Any]:
        """One sum per row, ``(sums, elements)``; the elements in the order of the weight."""
        order = (*self.rows, *sorted(self.summed))
        return weight.transpose(order).reshape(prod(weight.shape[axis] for axis in self.rows), -1)

    def as_weight(self, matrix: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
        """Inverse of :meth:`matrix` for a weight of this shape."""
        order = (*self.rows, *sorted(self.summed))
        moved = matrix.reshape([shape[axis] for axis in order])
        return np.ascontiguousarray(moved.transpose(np.argsort(order)))

    def pairs(self, shape: Sequence[int]) -> tuple[Indices, ...]:
        """Columns of :meth:`matrix` that are neighbours: arrays ``(pairs, 2)``, one for each order that kernels use."""
        axes = sorted(self.summed)
        places = np.arange(prod(shape[axis] for axis in axes)).reshape([shape[axis] for axis in axes])
        order = places.transpose([axes.index(axis) for axis in self.summed]).reshape(-1)
        through = order[: len(order) // 2 * 2].reshape(-1, 2)
        run = self.restart
        if run <= 0 or run % 2 == 0 or len(order) == run:
            return (through,)
        apart = order.reshape(-1, run)[:, : run // 2 * 2].reshape(-1, 2)
        return (through, apart) if len(apart) else (through,)


Rules = tuple[PairRule, ...]


def convolution_rule(shape: Sequence[int], group: int) -> PairRule | None:
    """Neighbours in a weight ``(output channels, input channels of a group, *kernel)``: input channels of one position.

    ``None`` if every output channel reads an input channel of its own: those kernels do not saturate.
    """
    if shape[1] == 1 and group == shape[0]:
        return None
    return PairRule((0,), (*range(2, len(shape)), 1), restart=shape[1])


def matrix_rule(rank: int, *, transposed: bool = False) -> PairRule:
    """Neighbours in the right-hand matrices of a product, ``(..., elements, sums)``, or ``(..., sums, elements)`` transposed."""
    summed = max(rank - (1 if transposed else 2), 0)
    return PairRule(tuple(axis for axis in range(rank) if axis != summed), (summed,))


def count_pairs(shape: Sequence[int], rules: Rules) -> int:
    """How many pairs a weight has, in all orders of its sums."""
    sums = [prod(shape[axis] for axis in rule.rows) for rule in rules]
    return sum(count * len(pairs) for rule, count in zip(rules, sums, strict=True) for pairs in rule.pairs(shape))


def count_violations(integers: NDArray[np.integer], rules: Rules) -> int:
    """How many pairs can make a kernel saturate."""
    found = 0
    for rule in rules:
        matrix = rule.matrix(integers)
        for start, end in _blocks(matrix):
            for pairs in rule.pairs(integers.shape):
                sums = _largest_sums(matrix[start:end].astype(np.int16), pairs)
                found += int(np.count_nonzero(sums > PAIR_LIMIT))
    return found


def step_factors(weight: NDArray[np.float32], scale: NDArray[np.float32], rule: PairRule) -> NDArray[np.float64]:
    """Factors, at least 1, by which the steps of a weight should grow so that its pairs fit.

    With one step per sum, the step grows until the sum's worst pair fits: clipping it instead errs in one direction, which costs
    more (ResNet-8: 3 dB). With one step for the whole weight, the worst pair of all sums would decide; there :func:`repair` clips
    what does not fit, and the factor is that of least squared error.

    Shapes:
        weight: any; scale: one number, or broadcasts to the weight along the axis of its sums.

    Returns:
        ``(sums,)``, or ``(1,)`` for one scale.
    """
    matrix = rule.matrix(weight / scale)
    columns = rule.pairs(weight.shape)
    if scale.size > 1:
        worst = np.zeros(len(matrix))
        for start, end in _blocks(matrix):
            for pairs in columns:
                sums = _largest_sums(matrix[start:end], pairs)
                worst[start:end] = np.maximum(worst[start:end], sums.max(axis=1, initial=0.0))
        return np.maximum(worst / PAIR_LIMIT, 1.0)
    found = [_largest_sums(matrix[start:end], pairs) for start, end in _blocks(matrix) for pairs in columns]
    beyond = np.concatenate([sums[sums > PAIR_LIMIT] for sums in found])
    errors = [
        factor**2 * (matrix.size / 12 + np.square(np.maximum(beyond / factor - PAIR_LIMIT, 0)).sum() / 2)
        for factor in STEP_FACTORS
    ]
    return np.array([STEP_FACTORS[int(np.argmin(errors))]])


def repair(integers: NDArray[np.int32], exact: Callable[[], NDArray[np.floating]], rules: Rules) -> NDArray[np.int32]:
    """Integers of which no pair saturates a kernel: both elements of one that would move towards zero, by least squared error.

    Args:
        integers: Zero point 0.
        exact: Gives the unrounded values, in steps; called only if something has to move.
        rules: Orders of the sums.
    """
    for rule in rules:
        matrix = rule.matrix(integers)
        columns = rule.pairs(integers.shape)
        if not any(_violating(matrix[start:end], pairs)[0].size for start, end in _blocks(matrix) for pairs in columns):
            continue
        moved, goal = matrix.astype(np.int32), rule.matrix(exact())
        for start, end in _blocks(moved):
            repair_rows(moved[start:end], goal[start:end], columns)
        integers = rule.as_weight(moved, integers.shape)
    return integers


def repair_rows(rows: NDArray[Any], exact: NDArray[Any], columns: Sequence[Indices]) -> None:
    """:func:`repair` in place, for sums ``(sums, elements)`` and pairs of their columns.

    Moving an element towards zero breaks no other pair, so one round over the orders is enough.
    """
    for pairs in columns:
        row, pair = _violating(rows, pairs)
        first, second = pairs[pair, 0], pairs[pair, 1]
        x, y = rows[row, first], rows[row, second]
        sign, excess = np.sign(x), np.abs(x) + np.abs(y) - PAIR_LIMIT
        errs_more = sign * ((x - exact[row, first]) - (y - exact[row, second]))
        share = np.rint((excess + errs_more) / 2).astype(rows.dtype)
        share = np.clip(share, np.maximum(excess - np.abs(y), 0), np.minimum(excess, np.abs(x)))
        rows[row, first], rows[row, second] = x - sign * share, y - sign * (excess - share)


def may_grow(rows: NDArray[Any], columns: Sequence[Indices]) -> NDArray[np.bool_]:
    """Elements that may move one step away from zero, even if their partners do the same."""
    free = np.ones(rows.shape, bool)
    for pairs in columns:
        fits = _largest_sums(rows.astype(np.int16), pairs) <= PAIR_LIMIT - 2
        free[:, pairs[:, 0]] &= fits
        free[:, pairs[:, 1]] &= fits
    return free


def _violating(rows: NDArray[Any], pairs: Indices) -> tuple[Indices, Indices]:
    row, pair = np.nonzero(_largest_sums(rows.astype(np.int16), pairs) > PAIR_LIMIT)
    return row, pair


def _largest_sums(rows: NDArray[Any], pairs: Indices) -> NDArray[Any]:
    """Sum of the elements of one sign in each pair, for the sign with the larger sum. Shape ``(sums, pairs)``."""
    count = 2 * len(pairs)
    if np.array_equal(pairs.reshape(-1), np.arange(count)):  # as they lie: no copies
        a, b = rows[:, 0:count:2], rows[:, 1:count:2]
    else:
        a, b = rows[:, pairs[:, 0]], rows[:, pairs[:, 1]]
    positive = np.maximum(a, 0) + np.maximum(b, 0)
    negative = np.minimum(a, 0) + np.minimum(b, 0)
    return np.maximum(positive, -negative)


def _blocks(matrix: NDArray[Any]) -> list[tuple[int, int]]:
    rows = max(BLOCK_VALUES // max(matrix.shape[1], 1), 1)
    return [(start, min(start + rows, len(matrix))) for start in range(0, len(matrix), rows)]
