"""Calibration samples that judge what is learnt, and those that it is learnt from.

Nothing is fitted to the samples that judge. The others are joined by copies that are mirrored and cut where they are pictures:
adaptive rounding in 4 bits fits 80 pictures better than the data that they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from converter_lite.calibration.runner import Samples
from converter_lite.quantization.pictures import changed, channel_axis

Feed = dict[str, NDArray[Any]]

Item = TypeVar("Item")

SAMPLES = 200
"""Most samples that a network learns from and is judged on, within the memory for samples."""

EVERY, MOST = 5, 24
"""Every fifth sample is held out, up to this number."""


COPIES = 4
"""Times that a picture is fitted to: as it is, and changed."""

COPIES_BYTES = 200 << 20
"""Memory for them."""


@dataclass(frozen=True, slots=True)
class FittingSamples:
    """All samples for ranges; those in memory, to which layers are fitted, without the ones that are held out but with copies.

    Attributes:
        samples: The calibration samples.
        seed: Of the changes.
    """

    samples: Samples
    seed: int = 0

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Feed]:
        return iter(self.samples)

    def tail(self, start: int) -> Iterator[Feed]:
        """One pass over the feeds from number ``start`` on."""
        return self.samples.tail(start)

    def part(self, start: int, stop: int) -> Iterable[Mapping[str, NDArray[Any]]]:
        """Some samples, in a form that can be sent to another process."""
        return self.samples.part(start, stop)

    def head(self, count: int) -> list[Feed]:
        """The first samples that are not held out, and changed copies of them behind them."""
        return list(with_copies(split(self.samples.head(SAMPLES))[0][:count], self.seed))


def with_copies(feeds: Sequence[Feed], seed: int) -> Iterator[Feed]:
    """Samples and, where they are pictures, changed copies behind them; each copy is made when it is asked for."""
    axis = channel_axis(feeds[0])
    generator = np.random.default_rng(seed)
    yield from feeds
    for _ in range(times(feeds) - 1):
        for feed in feeds:
            assert axis is not None
            yield changed(feed, axis, generator)


def times(feeds: Sequence[Feed]) -> int:
    """How often :func:`with_copies` gives each sample: as often as there is memory for, once if it is no picture."""
    size = sum(array.nbytes for feed in feeds for array in feed.values())
    return 1 if channel_axis(feeds[0]) is None else max(min(COPIES, COPIES_BYTES // max(size, 1)), 1)


def split(feeds: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Samples to fit to, and those that are held out; one of each at least, the same where there is only one."""
    every = max(EVERY, -(-len(feeds) // MOST))
    if len(feeds) < every:
        return list(feeds[:-1]) or list(feeds), list(feeds[-1:])
    fitted = [feed for index, feed in enumerate(feeds) if index % every != every - 1]
    return fitted, list(feeds[every - 1 :: every])
