"""Cosines of an ONNX file's outputs, and its speed, as a line of JSON: ``python -m bench.zoo.judging FLOAT FILE PROOF.npz``.

With ``--times`` behind them, its speed only.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.accuracy import Outputs, Run, as_it_is, exact, flat
from bench.samples import Feed
from bench.turns import Timed

ROUNDS = 7
"""Turns of each model."""


def main() -> None:
    """Print the figures."""
    model, written, proof = map(Path, sys.argv[1:4])
    with np.load(proof) as arrays:
        stacked = {name: arrays[name] for name in arrays.files}
    feeds = [
        {name: np.asarray(array[i]) for name, array in stacked.items()}
        for i in range(len(next(iter(stacked.values()))))
    ]
    before, after = as_it_is(model), as_it_is(written)
    found = _times(before, after, feeds)
    if "--times" not in sys.argv:
        found |= _cosines(before, after, exact(written) or after, feeds)
    print(json.dumps({name: round(value, 6) for name, value in found.items()}))


def _cosines(before: Run, after: Run, exactly: Run, feeds: list[Feed]) -> dict[str, float]:
    reference = [flat(before(feed)) for feed in feeds]
    found = {}
    for name, run in (("native", after), ("exact", exactly)):
        outputs = [flat(run(feed)) for feed in feeds]
        found |= {name: cosine(reference, outputs), f"{name}_centred": cosine(*_centred(reference, outputs))}
    return found


def _times(before: Run, after: Run, feeds: list[Feed]) -> dict[str, float]:
    timed = [Timed(run, feeds, time.thread_time) for run in (before, after)]
    turns = [[one.turn() for one in timed] for _ in range(ROUNDS)]
    speeds = (turn[0] / turn[1] for turn in turns)
    return {"float_ms": statistics.median(turn[0] for turn in turns), "speedup": statistics.median(speeds)}


def cosine(reference: list[Outputs], found: list[Outputs]) -> float:
    """Mean over samples of the least of any output; outputs of different sizes count as 0."""
    pairs = zip(reference, found, strict=True)
    return float(np.mean([min(map(_cosine, one, other)) for one, other in pairs]))


def _centred(reference: list[Outputs], found: list[Outputs]) -> tuple[list[Outputs], list[Outputs]]:
    """Both without the mean of the reference over the samples: networks with random weights say nearly the same to each."""
    if any([a.shape for a in outputs] != [a.shape for a in reference[0]] for outputs in (*reference, *found)):
        return reference, found
    means = [np.mean(arrays, 0) for arrays in zip(*reference, strict=True)]
    return tuple([[a - m for a, m in zip(one, means, strict=True)] for one in side] for side in (reference, found))


def _cosine(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    if a.shape != b.shape:
        return 0.0
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else float(np.array_equal(a, b))


if __name__ == "__main__":
    main()
