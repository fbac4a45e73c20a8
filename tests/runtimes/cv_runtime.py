"""OpenCV in a child process of its own environment: another reader of Caffe files, which runs them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.formats.caffe.networks import Blobs, caffemodel
from tests.runtimes.ms_runtime import RUNTIMES

PYTHON = RUNTIMES / "opencv" / "bin" / "python"
CHILD = Path(__file__).with_name("cv_child.py")


@dataclass(frozen=True)
class Case:
    """A network and what it is fed."""

    text: str
    weights: Mapping[str, Blobs] | bytes
    feed: Mapping[str, NDArray[Any]]


def skip_if_missing() -> None:
    """Skip the calling test where the environment was not made."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} is missing: make runtimes")


def run_cases(cases: Sequence[Case], folder: Path) -> list[NDArray[Any] | str]:
    """What the last layer of each network gives, or why OpenCV refuses it.

    Raises:
        RuntimeError: OpenCV ends.
    """
    manifest = [_written(case, folder / str(number)) for number, case in enumerate(cases)]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    command = [str(PYTHON), str(CHILD), str(folder / "manifest.json")]
    env = {"PATH": os.environ["PATH"]}
    child = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=600)
    if child.returncode:
        raise RuntimeError(f"OpenCV ended with status {child.returncode}: {child.stderr[-600:]}")
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
