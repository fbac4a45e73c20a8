"""OpenCV in a child process of its own environment: another reader of Caffe files, which runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.formats.caffe.networks import Blobs, caffemodel
from tests.runtimes.environments import carry_out, interpreter

ENVIRONMENT = "opencv"
skip_if_missing = partial(interpreter, ENVIRONMENT)


@dataclass(frozen=True)
class Case:
    """A network and what it is fed."""

    text: str
    weights: Mapping[str, Blobs] | bytes
    feed: Mapping[str, NDArray[Any]]


def run_cases(cases: Sequence[Case], folder: Path) -> list[NDArray[Any] | str]:
    """What the last layer of each network gives, or why OpenCV refuses it.

    Raises:
        RuntimeError: OpenCV ends.
    """
    manifest = [_written(case, folder / str(number)) for number, case in enumerate(cases)]
    carry_out(ENVIRONMENT, "cv_child.py", manifest, folder)
    return [_output(entry) for entry in manifest]


def _written(case: Case, stem: Path) -> dict[str, str]:
    text, weights, feed = (stem.with_suffix(suffix) for suffix in (".prototxt", ".caffemodel", ".in.npz"))
    text.write_text(case.text, encoding="utf-8")
    weights.write_bytes(case.weights if isinstance(case.weights, bytes) else caffemodel(case.weights))
    np.savez(feed, **case.feed)
    paths = {"text": text, "weights": weights, "feed": feed, "output": stem.with_suffix(".out.npz")}
    return {name: str(path) for name, path in {**paths, "error": stem.with_suffix(".error")}.items()}


def _output(entry: Mapping[str, str]) -> NDArray[Any] | str:
    if Path(entry["error"]).exists():
        return Path(entry["error"]).read_text()
    with np.load(entry["output"]) as arrays:
        return arrays["y"]
