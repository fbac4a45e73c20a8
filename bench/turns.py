"""A model that runs a row of samples in each turn."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

TURN_SECONDS = 0.02
"""Least time of one model's turn: long enough that its weights are in the cache for most of the runs."""


class Timed:
    """Times single samples of a model, by the wall or another clock of seconds."""

    def __init__(
        self, run: Callable[[Any], object], feeds: Sequence[Any], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._run = run
        self._clock = clock
        self._feeds = itertools.cycle(feeds)
        self._once()
        self._runs = max(3, round(TURN_SECONDS * 1e3 / self._once()))

    def turn(self) -> float:
        """Median milliseconds of a row of runs."""
        return statistics.median(self._once() for _ in range(self._runs))

    def _once(self) -> float:
        feed = next(self._feeds)
        start = self._clock()
        self._run(feed)
        return (self._clock() - start) * 1e3
