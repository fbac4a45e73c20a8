"""Shards: runs of samples whose statistics are gathered apart and then merged, on this machine or on another one.

A sum of floats depends on the order of its terms. Shards always have the same samples and are merged in order, so the result has
the same bytes wherever each was observed, and wherever between two of them a killed run resumes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.calibration.statistics import CalibrationStats, Need, TensorStatistics
from converter_lite.graph import observation
from converter_lite.kernels.histogram import histogram
from converter_lite.runtime.engine import Engine, Feed, Session
from converter_lite.runtime.serializing import Message

SHARD = 16
"""Samples of a shard: the work of one machine at a time, and the most that a killed run loses."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Samples that follow each other; can be pickled.

    Attributes:
        feeds: Inputs by name, for each sample.
        first: Number of samples before it.
    """

    feeds: Iterable[Feed]
    first: int


class ShardObserver:
    """Runs a graph whose outputs are reductions of tensors, and keeps their statistics.

    It satisfies :class:`converter_lite.execution.executor.Work`: the model is opened once in every process, at its first sample.

    Args:
        graph: The graph; outputs of tensor ``i`` are ``min_i`` (where it is not known to be 0 at least), ``max_i``, ``sum_i`` and
            what ``need`` asks for.
        names: The tensors.
        need: What is collected of them.
        engine: Runs the graph.
    """

    def __init__(self, graph: Message, names: list[str], need: Need, engine: Engine) -> None:
        self.graph = graph
        self.names = names
        self._need = need
        self._engine = engine
        self._open: Session | None = None
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    def __call__(self, task: Shard) -> CalibrationStats:
        """Statistics over the samples of a shard.

        Raises:
            CalibrationError: A tensor is NaN or infinite.
            ModelError: The runtime refuses the model or a sample.
            DataError: A sample cannot be read.
        """
        found = CalibrationStats()
        for part in self.gather(map(self.observe, task.feeds), task.first):
            found.merge(part)
        return found

    def stop(self) -> None:
        """Nothing: a shard takes seconds."""

    def gather(self, samples: Iterable[list[TensorStatistics]], first: int) -> Iterator[CalibrationStats]:
        """Statistics of single samples, from number ``first`` on, merged shard by shard.

        Raises:
            CalibrationError: A tensor is NaN or infinite.
        """
        stats = CalibrationStats()
        for number, sample in enumerate(samples, first + 1):
            for name, part in zip(self.names, sample, strict=True):
                stats.add(name, part, sample=number)
            if number % SHARD == 0:
                yield stats
                stats = CalibrationStats()
        if stats.tensors:
            yield stats

    def observe(self, feed: Feed) -> list[TensorStatistics]:
        """Statistics of one sample, of each tensor.

        Raises:
            ModelError: The runtime refuses the model or the sample.
        """
        return self.parts(self.run(feed))

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs of the graph for one sample.

        Raises:
            ModelError: The runtime refuses the model or the sample.
        """
        return self._session().run(feed)

    def parts(self, outputs: Mapping[str, NDArray[Any]]) -> list[TensorStatistics]:
        """Statistics of each tensor, from the outputs of one sample."""
        parts = []
        for i, _ in enumerate(self.names):
            total, high = float(outputs[observation("sum", i)]), float(outputs[observation("max", i)])
            if total == 0 and high == -np.inf:  # the extremes of no values
                parts.append(TensorStatistics(samples=1, empty=1))
                continue
            low = float(outputs.get(observation("min", i), 0.0))
            part = TensorStatistics(samples=1, rmin=low, rmax=high)
            if np.isnan(total):
                part.rmin = part.rmax = float("nan")
            if Need.OUTLIER in self._need:
                part.outliers = len(outputs[observation("low", i)]) - 1
                part.low_sum = float(outputs[observation("low", i)][-1])
                part.high_sum = float(outputs[observation("high", i)][-1])
            if Need.HISTOGRAM in self._need and np.isfinite(part.rmin) and np.isfinite(part.rmax):
                part.histogram = histogram(outputs[observation("values", i)])
            parts.append(part)
        return parts

    def _session(self) -> Session:
        with self._lock:
            if self._open is None:
                self._open = self.graph.session(self._engine)
            return self._open
