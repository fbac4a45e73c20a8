"""Time of one sample in several models, measured in turns: ``python -m bench.latency`` prints JSON.

One thread, batch 1. In each round every model runs once in a row of runs, and the order turns round from round to round;
so a busy machine slows all models of a round down, and ratios within a round stay right.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from pathlib import Path

import onnxruntime as ort

from bench.samples import Feed, calibration_feeds

TURN_SECONDS = 0.02
"""Least time of one model's turn: long enough that its weights are in the cache for most of the runs."""

FEEDS = 8


def main() -> None:
    """Print ``{"model": [milliseconds of each round]}``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    feeds = list(calibration_feeds(arguments.task, arguments.data, FEEDS))
    sessions = {str(path): _Timed(path, feeds) for path in arguments.models}
    rounds: dict[str, list[float]] = {name: [] for name in sessions}
    for index in range(arguments.rounds):
        names = list(sessions) if index % 2 == 0 else list(reversed(sessions))
        for name in names:
            rounds[name].append(sessions[name].turn())
    json.dump(rounds, sys.stdout)


class _Timed:
    def __init__(self, path: Path, feeds: list[Feed]) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self._feeds = itertools.cycle(feeds)
        self._once()
        self._runs = max(3, round(TURN_SECONDS * 1e3 / self._once()))

    def turn(self) -> float:
        """Median milliseconds of a row of runs."""
        return statistics.median(self._once() for _ in range(self._runs))

    def _once(self) -> float:
        feed = next(self._feeds)
        start = time.perf_counter()
        self._session.run(None, feed)
        return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
