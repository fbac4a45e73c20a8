"""How a tensor of the quantized graph holds the channels of the float one: in which order, and multiplied by which factors.

Conversion reorders channels where that is free (:mod:`converter_lite.quantization.reorder`) and moves factors between layers
(equalization). No file states either, so both are inferred from samples: each channel is matched with the most similar one. A
match counts only if it explains the difference of the tensors far better than chance would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite import graph as g

ENOUGH = 8
"""Values per channel from which a factor can be distinguished from chance, which explains an eighth of any noise."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

EXPLAINED = 0.6
"""Factors or an order of channels are accepted if they leave less than this share of the error. Noise at 10 dB leaves 0.9 and
more."""

RECOGNIZABLE = 0.25
"""... and if the error left is below this share of the signal: a destroyed tensor has no factors and no order."""

SPREAD = 1.02
"""... and if the largest factor is this many times the smallest: one factor for a whole tensor is an error, not an
equalization."""

FAINT = 1e-6
"""Channels with less than this share of the strongest one's signal do not count for factors, and may have any order."""

CLOSE = 0.01
"""No order is looked for if the error is below this share of the signal and strong channels are in their places."""

STRONG = 0.01
"""Share of the strongest channel's signal from which a channel counts as strong."""

LARGEST = 4096
"""Most channels for which an order is looked for: 64 MB of products of channels."""

VALUES = 128
"""Most values of a channel per sample that are used to find the order; factors without an order are found from all."""

TINY = 1e-300
"""Signal of a tensor of zeros."""

ROUNDS = 64
"""Most rounds of matching; a round matches all unambiguous channels, so a few are enough."""


@dataclass(frozen=True, slots=True, eq=False)
class ChannelMap:
    """How a tensor is held.

    Attributes:
        axis: Axis of the channels.
        factors: ``quantized = factor * float`` for each channel of the float tensor; ``None``: equal.
        order: Channels of the float tensor in the order of the quantized one; ``None``: unchanged.
    """

    axis: int
    factors: Vector | None = None
    order: Indices | None = None

    @property
    def back(self) -> Indices | None:
        """Channels of the quantized tensor in the order of the float one."""
        return None if self.order is None else np.argsort(self.order)

    @property
    def channels(self) -> int:
        """Number of channels that it describes."""
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


class ChannelMapSums:
    """Finds how a tensor is held, from samples of it in both graphs."""

    def __init__(self) -> None:
        self._plain: _AxisSums | None = None
        self._crossed: list[_AxisSums] = []

    def add(self, expected: NDArray[Any], given: NDArray[Any]) -> None:
        """Count a sample."""
        if expected.shape != given.shape or expected.ndim < 2 or not expected.size:
            return
        is_first = self._plain is None
        if self._plain is None:
            axis = g.channel_axis(expected.ndim)
            self._plain = _AxisSums(axis, expected.shape[axis])
        self._plain.add(expected, given)
        if is_first and self._plain.is_finite and not self._plain.is_close:
            self._crossed = [_AxisSums(axis, expected.shape[axis], with_cross=True) for axis in _axes(expected, given)]
        for sums in self._crossed:
            sums.add(expected, given)

    def result(self) -> ChannelMap | None:
        """How it is held; ``None`` if unchanged."""
        plain = self._plain
        if plain is None or not plain.is_usable:
            return None
        factors, left = _factors(plain.xx, plain.xy, plain.yy)
        found, least = None if factors is None else ChannelMap(plain.axis, factors), left / plain.signal
        for sums in self._crossed:
            for order, factors, left in sums.orders() if sums.is_usable else ():
                if left < EXPLAINED * least * sums.signal:
                    found, least = ChannelMap(sums.axis, factors, order), left / sums.signal
        return found


class _AxisSums:
    """Products of channels along one axis, summed over samples; with ``cross`` of every pair of channels, for some values."""

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
            with np.errstate(all="ignore"):  # values that are not finite are not used
                self.cross += x.astype(np.float32) @ y.T.astype(np.float32)

    @property
    def signal(self) -> float:
        """Squares of the float tensor."""
        return max(float(self.xx.sum()), TINY)

    @property
    def is_usable(self) -> bool:
        """Whether there are enough values, all finite."""
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
        """Orders that are not due to chance, with factors and the error that is left."""
        if self.cross is None or not np.all(np.isfinite(self.cross)):
            return []
        cross = self.cross.astype(np.float64)
        chance = 1 - np.sqrt(
            2 * np.log(len(cross)) / self.count
        )  # the best of this many noise channels leaves twice that
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
    """The values of each channel, ``(channels, values)``: at most ``most`` of them, evenly spread."""
    if axis == array.ndim - 1:
        values = array.reshape(-1, array.shape[axis]).T
    else:
        values = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    step = 1 if most is None else -(-values.shape[1] // most)
    return values[:, ::step].astype(np.float64)


def _axes(expected: NDArray[Any], given: NDArray[Any]) -> list[int]:
    """Axes along which there may be an order: that of channels, and the last one if this sample shows none there."""
    own, last = g.channel_axis(expected.ndim), expected.ndim - 1
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
    """For each float channel the most similar quantized one, each used once.

    Channels that are each other's best match are matched, round by round. Channels without a signal stay where they are if
    possible.
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
