"""Time of one sample in several models, measured in turns: ``python -m bench.latency`` prints JSON.

One thread, batch 1. In each round every model runs once in a row of runs, and the order turns round from round to round;
so a busy machine slows all models of a round down, and ratios within a round stay right.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.accuracy import as_it_is, compared, exact, flat
from bench.figures import OPENVINO
from bench.samples import Feed, calibration_feeds
from bench.turns import Timed

FEEDS = 8

Turn = Callable[[], float]


def main() -> None:
    """Print a line of JSON.

    Keys: ``rounds``: model -> milliseconds of each round; ``cosines`` and ``failures``: model -> how close its outputs in
    OpenVINO are to the exact ones, or why it does not run there.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--openvino", type=Path, help="run every model in OpenVINO of this interpreter, too, in turns")
    parser.add_argument("models", type=Path, nargs="+")
    arguments = parser.parse_args()
    feeds = list(calibration_feeds(arguments.task, arguments.data, FEEDS))
    turns: dict[str, Turn] = {str(path): Timed(as_it_is(path), feeds).turn for path in arguments.models}
    with contextlib.ExitStack() as stack:
        there = (
            stack.enter_context(_openvino(arguments.openvino, arguments.models, feeds)) if arguments.openvino else None
        )
        rounds = _rounds({**turns, **(there.turns if there else {})}, arguments.rounds)
    beside = {"cosines": there.cosines, "failures": there.failures} if there else {}
    print(json.dumps({"rounds": rounds, **beside}))


def _rounds(turns: dict[str, Turn], count: int) -> dict[str, list[float]]:
    rounds: dict[str, list[float]] = {name: [] for name in turns}
    for index in range(count):
        for name in list(turns) if index % 2 == 0 else list(reversed(turns)):
            rounds[name].append(turns[name]())
    return rounds


class _There:
    """Models in OpenVINO, which lives in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], paths: Sequence[Path], feeds: list[Feed]) -> None:
        self._process = process
        self.turns: dict[str, Turn] = {}
        self.cosines: dict[str, float] = {}
        self.failures: dict[str, str] = {}
        for number, path in enumerate(paths):
            said = json.loads(self._line())
            if "failure" in said:
                self.failures[str(path)] = said["failure"]
                continue
            run = exact(path) or as_it_is(path)
            expected = [flat(run(feed)) for feed in feeds]
            with np.load(said["outputs"]) as arrays:
                found = [flat([arrays[f"{i}/{o}"] for o in range(len(e))]) for i, e in enumerate(expected)]
            if any(
                a.shape != b.shape
                for one, other in zip(found, expected, strict=True)
                for a, b in zip(one, other, strict=True)
            ):
                self.failures[str(path)] = "its outputs have other shapes there"
                continue
            self.cosines[str(path)] = compared(found, expected)["cosine"]
            self.turns[f"{OPENVINO}{path}"] = self._turn(number)

    def _turn(self, number: int) -> Turn:
        def turn() -> float:
            assert self._process.stdin is not None
            print(number, file=self._process.stdin, flush=True)
            return float(self._line())

        return turn

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"OpenVINO ended with status {self._process.wait()}")
        return line


@contextlib.contextmanager
def _openvino(python: Path, paths: Sequence[Path], feeds: list[Feed]) -> Iterator[_There]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "feeds.npz"
        np.savez(file, **{f"{i}/{name}": array for i, feed in enumerate(feeds) for name, array in feed.items()})
        command = [str(python), "-m", "bench.in_openvino", str(file), *map(str, paths)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            yield _There(process, paths, feeds)
            assert process.stdin is not None
            process.stdin.close()


if __name__ == "__main__":
    main()
