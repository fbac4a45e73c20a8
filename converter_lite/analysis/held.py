"""How a tensor of the quantized graph holds the channels of the float one: in which order, and times which factors.

Conversion reorders channels where that is free (:mod:`converter_lite.quantization.reorder`) and moves factors between layers
(equalization). Neither is written in a file, so both are found in samples: of each channel, the one that it is most alike. What
is found counts only if it explains the difference of the tensors far better than chance would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENOUGH = 8
"""Numbers per channel from which on a factor can be told from chance: it explains an eighth of any noise."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

EXPLAINED = 0.6
"""Factors or an order of channels are taken for what they seem if less than this share of the error is left behind them. Noise
leaves 0.9 and more of itself at 10 dB."""

RECOGNIZABLE = 0.25
"""... and if what is left is below this share of the signal: a destroyed tensor has no factors and no order."""

SPREAD = 1.02
"""... and if the largest factor is so many times the smallest: one factor for a whole tensor is an error, not an equalization."""

FAINT = 1e-6
"""Channels with less than this share of the strongest one's signal have no say about factors, and any order."""

CLOSE = 0.01
"""No order is looked for where the error is below this share of the signal and strong channels are at their places."""

STRONG = 0.01
"""Share of the strongest channel's signal from which on a channel is strong."""

LARGEST = 4096
"""Channels up to which an order is looked for: 64 MB of products of channels."""

VALUES = 128
"""Values of a channel in one sample from which its order is found, at most; factors without an order are found from all."""

TINY = 1e-300
"""Signal of a tensor of zeros."""

ROUNDS = 64
"""Rounds of matching at most; a round matches all that have no doubt, so that they end after a few."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """How a tensor is held.

    Attributes:
        axis: Axis of the channels.
        factors: ``quantized = factor * float`` for each channel of the float tensor; ``None``: equal.
        order: Channels of the float tensor as they come in the quantized one; ``None``: as they are.
    """

    axis: int
    factors: Vector | None = None
    order: Indices | None = None

    @property
    def back(self) -> Indices | None:
        """Channels of the quantized tensor as they come in the float one."""
        return None if self.order is None else np.argsort(self.order)

    @property
    def channels(self) -> int:
        """How many channels it speaks of."""
        found = self.factors if self.factors is not None else self.order
        return 0 if found is None else len(found)

    def fits(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape has these channels."""
        return self.axis < len(shape) and shape[self.axis] == self.channels

    def along(self, rank: int) -> NDArray[np.float32]:
        """Factors in a shape that multiplies a tensor."""
        assert self.factors is not None
        return self.factors.astype(np.float32).reshape([-1 if axis == self.axis else 1 for axis in range(rank)])

    def to_quantized(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the quantized graph holds for float values, in real numbers."""
        if self.factors is not None:
            values = (values * self.along(values.ndim)).astype(values.dtype)
        return values if self.order is None else np.take(values, self.order, axis=self.axis)

    def to_float(self, values: NDArray[Any]) -> NDArray[Any]:
        """Inverse of :meth:`to_quantized`."""
        back = self.back
        if back is not None:
            values = np.take(values, back, axis=self.axis)
        return values if self.factors is None else values / self.along(values.ndim)


def channel_axis(rank: int) -> int:
    """Axis of an activation that runs over channels: 1 from rank 3 on, else the last."""
    return 1 if rank > 2 else rank - 1


class HeldSums:
    """Finds how a tensor is held, from samples of it in both graphs."""

    def __init__(self) -> None:
        self._plain: _AxisSums | None = None
        self._crossed: list[_AxisSums] = []

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample."""
        if expected.shape != given.shape or expected.ndim < 2:
            return
        is_first = self._plain is None
        if self._plain is None:
            axis = channel_axis(expected.ndim)
            self._plain = _AxisSums(axis, expected.shape[axis])
        self._plain.add(expected, given)
        if is_first and self._plain.is_finite and not self._plain.is_close:
            self._crossed = [_AxisSums(axis, expected.shape[axis], with_cross=True) for axis in _axes(expected, given)]
        for sums in self._crossed:
            sums.add(expected, given)

    def result(self) -> Held | None:
        """How it is held; ``None`` where as it is."""
        plain = self._plain
        if plain is None or not plain.is_usable:
            return None
        factors, left = _factors(plain.xx, plain.xy, plain.yy)
        found, least = None if factors is None else Held(plain.axis, factors), left / plain.signal
        for sums in self._crossed:
            for order, factors, left in sums.orders() if sums.is_usable else ():
                if left < EXPLAINED * least * sums.signal:
                    found, least = Held(sums.axis, factors, order), left / sums.signal
        return found


class _AxisSums:
    """Products of the channels along one axis, summed over samples; with ``cross`` of each with each, of some of the values."""

    def __init__(self, axis: int, channels: int, *, with_cross: bool = False) -> None:
        self.axis = axis
        self.count = 0
        self.xx, self.xy, self.yy = np.zeros((3, channels))
        self.cross = np.zeros((channels, channels), np.float32) if with_cross else None

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        if expected.ndim <= self.axis or expected.shape[self.axis] != len(self.xx):
            return
        most = None if self.cross is None else VALUES
        x, y = (_columns(array, self.axis, most) for array in (expected, given))
        self.count += x.shape[1]
        self.xx += np.einsum("ij,ij->i", x, x)
        self.xy += np.einsum("ij,ij->i", x, y)
        self.yy += np.einsum("ij,ij->i", y, y)
        if self.cross is not None:
            with np.errstate(all="ignore"):  # of what is not finite nothing is made
                self.cross += x.astype(np.float32) @ y.T.astype(np.float32)

    @property
    def signal(self) -> float:
        """Squares of the float tensor."""
        return max(float(self.xx.sum()), TINY)

    @property
    def is_usable(self) -> bool:
        """Whether there are numbers enough, all finite."""
        return self.count >= ENOUGH and self.is_finite

    @property
    def is_finite(self) -> bool:
        """Whether all values were."""
        return bool(np.all(np.isfinite([self.xx, self.xy, self.yy])))

    @property
    def is_close(self) -> bool:
        """Whether each channel is clearly at its place."""
        strong = self.xx > STRONG * self.xx.max(initial=0.0)
        alike = np.square(self.xy) > (1 - RECOGNIZABLE) * self.xx * self.yy
        error = float(np.sum(self.xx - 2 * self.xy + self.yy))
        return error <= CLOSE * float(self.xx.sum()) and bool(np.all((alike & (self.xy > 0))[strong]))

    def orders(self) -> list[tuple[Indices, Vector | None, float]]:
        """Orders that are no chance, with factors and what is left of the error."""
        if self.cross is None or not np.all(np.isfinite(self.cross)):
            return []
        cross = self.cross.astype(np.float64)
        chance = 1 - np.sqrt(
            2 * np.log(len(cross)) / self.count
        )  # the best of so many channels of noise leaves twice that
        found = []
        for likeness in (_closeness, _cosines):
            back = _matched(cross, self.xx, self.yy, likeness)
            factors, left = _factors(self.xx, np.take_along_axis(cross, back[:, None], axis=1)[:, 0], self.yy[back])
            if left < min(RECOGNIZABLE, chance) * float(self.xx.sum()) and not np.array_equal(
                back, np.arange(len(back))
            ):
                found.append((np.argsort(back), factors, left))
        return found


def _columns(array: NDArray[Any], axis: int, most: int | None) -> Matrix:
    """The values of each channel, ``(channels, values)``, ``most`` of them at most, evenly spread."""
    if axis == array.ndim - 1:
        values = array.reshape(-1, array.shape[axis]).T
    else:
        values = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    step = 1 if most is None else -(-values.shape[1] // most)
    return values[:, ::step].astype(np.float64)


def _axes(expected: NDArray[Any], given: NDArray[Any]) -> list[int]:
    """Axes along which an order may be: that of channels, and the last one where this sample shows none there."""
    own, last = channel_axis(expected.ndim), expected.ndim - 1
    axes = [axis for axis in dict.fromkeys((own, last)) if 1 < expected.shape[axis] <= LARGEST]
    if axes[:1] == [own]:
        first = _AxisSums(own, expected.shape[own], with_cross=True)
        first.add(expected, given)
        axes = [own] if first.is_usable and first.orders() else axes
    return axes


def _factors(xx: Vector, xy: Vector, yy: Vector) -> tuple[Vector | None, float]:
    """Factors of an equalization, ``None`` for none, and the error that is left with them."""
    plain = float(np.sum(xx - 2 * xy + yy))
    heard = (xx > FAINT * xx.max(initial=0.0)) & (xy > 0.0)
    if not np.any(heard):
        return None, plain
    factors = np.ones_like(xx)
    factors[heard] = yy[heard] / xy[heard]
    left = float(np.sum(xx - 2 * xy / factors + yy / factors**2))
    spread = factors[heard].max() / factors[heard].min()
    is_equalized = left < EXPLAINED * plain and left < RECOGNIZABLE * float(xx.sum()) and spread > SPREAD
    return (factors, left) if is_equalized else (None, plain)


def _closeness(xx: Matrix, xy: Matrix, yy: Matrix) -> Matrix:
    return 2 * xy / (xx + yy)


def _cosines(xx: Matrix, xy: Matrix, yy: Matrix) -> Matrix:
    return xy / np.sqrt(xx * yy)


def _matched(cross: Matrix, xx: Vector, yy: Vector, likeness: Callable[[Matrix, Matrix, Matrix], Matrix]) -> Indices:
    """For each float channel the quantized one that it is most alike, each taken once.

    Those that are each other's best are matched, round by round. Channels without a signal stay where they are if they can.
    """
    rows, columns = (np.flatnonzero(power > FAINT * power.max(initial=0.0)) for power in (xx, yy))
    back = np.full(len(xx), -1)
    for _ in range(ROUNDS):
        if not len(rows) or not len(columns):
            break
        alike = likeness(xx[rows, None], cross[np.ix_(rows, columns)], yy[columns])
        best, chosen = np.argmax(alike, axis=1), np.argmax(alike, axis=0)
        is_mutual = chosen[best] == np.arange(len(rows))
        back[rows[is_mutual]] = columns[best[is_mutual]]
        columns = np.delete(columns, best[is_mutual])
        rows = rows[~is_mutual]
    free = np.ones(len(xx), bool)
    free[back[back >= 0]] = False
    stays = (back < 0) & free
    back[stays] = np.flatnonzero(stays)
    back[back < 0] = np.flatnonzero(free & ~stays)
    return back
