"""The interpreter of TensorFlow Lite files in a child process of its own environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.runtimes.environments import carry_out, interpreter

ENVIRONMENT = "litert"
skip_if_missing = partial(interpreter, ENVIRONMENT)

Array = NDArray[Any]


@dataclass(frozen=True)
class Run:
    """A file, what its inputs get in each run, and which of the interpreter's sets of kernels computes it."""

    data: bytes
    feeds: Sequence[Sequence[Array]]
    kernels: str = "default"


@dataclass(frozen=True)
class Output:
    """A result in real numbers, and the step of its integers; 0 for what is none."""

    array: Array
    scale: float


Results = list[list[Output]]
"""For each run the outputs of the file."""


def run_files(runs: Sequence[Run], folder: Path) -> list[Results | str]:
    """Outputs of each run of each file, or why the interpreter refuses the file.

    Raises:
        RuntimeError: The interpreter ended the process.
    """
    manifest = [_written(run, folder / str(number)) for number, run in enumerate(runs)]
    carry_out(ENVIRONMENT, "litert_child.py", manifest, folder)
    return [_outputs(entry) for entry in manifest]


def run_file(data: bytes, feeds: Sequence[Sequence[Array]], folder: Path, *, kernels: str = "default") -> Results:
    """The same for one file.

    Raises:
        RuntimeError: The interpreter refuses it, with its words.
    """
    (found,) = run_files([Run(data, feeds, kernels)], folder)
    if isinstance(found, str):
        raise RuntimeError(f"the interpreter refuses the file: {found[:600]}")
    return found


def _written(run: Run, stem: Path) -> dict[str, Any]:
    model, error = stem.with_suffix(".tflite"), stem.with_suffix(".error")
    model.write_bytes(run.data)
    error.unlink(missing_ok=True)
    feeds = [stem.with_suffix(f".in{index}.npz") for index in range(len(run.feeds))]
    for path, feed in zip(feeds, run.feeds, strict=True):
        np.savez(path, **{f"in{index}": array for index, array in enumerate(feed)})
    outputs = [stem.with_suffix(f".out{index}.npz") for index in range(len(run.feeds))]
    paths = {"model": str(model), "error": str(error), "feeds": [*map(str, feeds)], "outputs": [*map(str, outputs)]}
    return {**paths, "kernels": run.kernels}


def _outputs(entry: dict[str, Any]) -> Results | str:
    if Path(entry["error"]).exists():
        return Path(entry["error"]).read_text()
    found = []
    for path in entry["outputs"]:
        with np.load(path) as arrays:
            count = sum(name.startswith("out") for name in arrays.files)
            found.append([Output(arrays[f"out{n}"], float(arrays[f"scale{n}"])) for n in range(count)])
    return found
