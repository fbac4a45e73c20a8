"""Second moments of a layer's inputs, to which :mod:`.adaptive` fits its rounding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from converter_lite.execution.ordered import map_ordered

WIDE = 1536
"""Inputs above which a layer's rows of several samples are multiplied together: moments take time and memory by the square of the
inputs, however few rows there are."""

Matrix = NDArray[np.float64]
Rows = NDArray[np.float32]
Pair = tuple[Rows, Rows]
"""Rows of inputs ``(rows, groups, columns)`` in the float and in the quantized network; may be the same array."""


@dataclass(frozen=True, slots=True)
class Products:
    """What one sample adds to :class:`Moments`; shapes as there."""

    rows: int
    quantized: Matrix
    cross: Matrix
    quantized_sum: Matrix
    float_sum: Matrix


def products(float_rows: Rows, quantized_rows: Rows) -> Products:
    """Products of the same rows in both networks, ``(rows, groups, columns)``; may be the same array."""
    x, q = float_rows.swapaxes(0, 1), quantized_rows.swapaxes(0, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        quantized, quantized_sum = (np.swapaxes(q, 1, 2) @ q).astype(np.float64), _sum_of_rows(q)
        if float_rows is quantized_rows:
            return Products(len(float_rows), quantized, quantized, quantized_sum, quantized_sum)
        cross = (np.swapaxes(x, 1, 2) @ q).astype(np.float64)
        return Products(len(float_rows), quantized, cross, quantized_sum, _sum_of_rows(x))


def _sum_of_rows(rows: Rows) -> Matrix:
    """``(groups, columns)`` of ``(groups, rows, columns)``: as a product it is fast in every order of memory."""
    return (np.ones((1, 1, rows.shape[1]), np.float32) @ rows)[:, 0].astype(np.float64)


@dataclass(slots=True)
class Moments:
    """Second moments of a layer's inputs in the float and in the quantized network, gathered sample by sample.

    Shapes:
        quantized, cross: ``(groups, columns, columns)``, sums of ``q q^T`` and ``x q^T``; the means ``(groups, columns)``, sums.
    """

    count: int = 0
    quantized: Matrix | None = None
    cross: Matrix | None = None
    quantized_sum: Matrix | None = None
    float_sum: Matrix | None = None

    def add(self, sample: Products) -> None:
        """Add one sample."""
        with np.errstate(over="ignore", invalid="ignore"):
            self.count += sample.rows
            if self.quantized is None or self.cross is None or self.quantized_sum is None or self.float_sum is None:
                self.quantized, self.cross = sample.quantized.copy(), sample.cross.copy()
                self.quantized_sum, self.float_sum = sample.quantized_sum.copy(), sample.float_sum.copy()
                return
            self.quantized += sample.quantized
            self.cross += sample.cross
            self.quantized_sum += sample.quantized_sum
            self.float_sum += sample.float_sum

    def means(self, *, centered: bool) -> tuple[Matrix, Matrix]:
        """Mean moments of the quantized inputs, and of float with quantized inputs; covariances if ``centered``."""
        assert self.quantized is not None and self.cross is not None
        assert self.quantized_sum is not None and self.float_sum is not None
        quantized, cross = self.quantized / self.count, self.cross / self.count
        if centered:
            q, x = self.quantized_sum / self.count, self.float_sum / self.count
            quantized -= q[:, :, None] * q[:, None, :]
            cross -= x[:, :, None] * q[:, None, :]
        return quantized, cross

    @property
    def is_finite(self) -> bool:
        """Whether there were inputs, all finite and small enough for their products to fit float32."""
        return self.count > 0 and all(
            m is not None and bool(np.isfinite(m).all()) for m in (self.quantized, self.cross)
        )


def gather(pairs: Iterable[Pair], columns: int, threads: int) -> Moments:
    """Moments over samples, from their rows in both networks.

    Where the data decide which rows there are (tokens of an expert), the networks may disagree on it, and rows of the one have no
    partners in the other: those of the quantized network stand for both then.

    Args:
        pairs: Of each sample.
        columns: Inputs of a row.
        threads: In which products are computed; those of wide layers one after another.
    """
    known: Iterator[Pair] = ((q if len(x) != len(q) else x, q) for x, q in pairs)
    found, is_wide = Moments(), columns > WIDE
    parts = _joined(known, columns // 2) if is_wide else known
    for part in map_ordered(lambda pair: products(*pair), parts, 1 if is_wide else threads):
        found.add(part)
    return found


def _joined(pairs: Iterable[Pair], least: int) -> Iterator[Pair]:
    """The same rows, those of so many samples together that there are ``least`` of them."""
    held: list[Pair] = []
    for pair in pairs:
        held.append(pair)
        if sum(len(q) for _, q in held) >= least:
            yield _one(held)
            held = []
    if held:
        yield _one(held)


def _one(pairs: list[Pair]) -> Pair:
    if len(pairs) == 1:
        return pairs[0]
    quantized = np.concatenate([q for _, q in pairs])
    return (quantized if all(x is q for x, q in pairs) else np.concatenate([x for x, _ in pairs])), quantized
