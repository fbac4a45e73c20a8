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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from bench.figures import OPENVINO
from bench.samples import Feed, calibration_feeds

TURN_SECONDS = 0.02
"""Least time of one model's turn: long enough that its weights are in the cache for most of the runs."""

FEEDS = 8


def main() -> None:
    """Print ``{"model": [milliseconds of each round]}``, and with ``--openvino`` each model once more, if it works there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--openvino", action="store_true", help="run every model in OpenVINO, too, in the same turns")
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    feeds = list(calibration_feeds(arguments.task, arguments.data, FEEDS))
    runs = {str(path): _in_onnxruntime(path) for path in arguments.models}
    for path in arguments.models if arguments.openvino else ():
        run = _in_openvino(path)
        if _agree(run(feeds[0]), runs[str(path)](feeds[0])):
            runs[f"{OPENVINO}{path}"] = run
    sessions = {name: _Timed(run, feeds) for name, run in runs.items()}
    rounds: dict[str, list[float]] = {name: [] for name in sessions}
    for index in range(arguments.rounds):
        names = list(sessions) if index % 2 == 0 else list(reversed(sessions))
        for name in names:
            rounds[name].append(sessions[name].turn())
    json.dump(rounds, sys.stdout)


Outputs = Sequence[NDArray[Any]]


def _agree(found: Outputs, expected: Outputs) -> bool:
    """Whether outputs are about the same: the time of a model that gives nothing says nothing."""
    return all(
        a.shape == b.shape and np.linalg.norm(a - b) <= 0.5 * np.linalg.norm(b)
        for a, b in zip(found, expected, strict=True)
    )


def _in_onnxruntime(path: Path) -> Callable[[Feed], Outputs]:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def run(feed: Feed) -> Outputs:
        outputs: Outputs = session.run(None, feed)
        return outputs

    return run


def _in_openvino(path: Path) -> Callable[[Feed], Outputs]:
    """In the types of the file: by default OpenVINO makes bfloat16 of float32, where the processor knows it."""
    import openvino  # type: ignore[import-not-found]  # lives in an environment of its own

    one = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    model = openvino.Core().compile_model(str(path), "CPU", {**one, "EXECUTION_MODE_HINT": "ACCURACY"})
    request = model.create_infer_request()

    def run(feed: Feed) -> Outputs:
        found = request.infer(feed)
        return [found[output] for output in model.outputs]

    return run


class _Timed:
    def __init__(self, run: Callable[[Feed], Outputs], feeds: list[Feed]) -> None:
        self._run = run
        self._feeds = itertools.cycle(feeds)
        self._once()
        self._runs = max(3, round(TURN_SECONDS * 1e3 / self._once()))

    def turn(self) -> float:
        """Median milliseconds of a row of runs."""
        return statistics.median(self._once() for _ in range(self._runs))

    def _once(self) -> float:
        feed = next(self._feeds)
        start = time.perf_counter()
        self._run(feed)
        return (time.perf_counter() - start) * 1e3


if __name__ == "__main__":
    main()
