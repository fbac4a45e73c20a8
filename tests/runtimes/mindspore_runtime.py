"""MindSpore in child processes of its own environments: 2.7.1 and 2.0.0 export networks and run MindIR files."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.runtimes.environments import interpreter, start

CHILDREN = Path(__file__).parent / "mindspore"
MADE_BY = "make mindspore (3 GB, not a part of make runtimes)"
MOST_STARTS = 40
"""A file that ends the process takes a start each."""

Arrays = list[NDArray[Any]]


@dataclass(frozen=True)
class Exported:
    """What one release made of the networks.

    Attributes:
        folder: Files of all networks.
    """

    folder: Path

    def recorded(self, name: str) -> tuple[Arrays, Arrays]:
        """What was fed, and what MindSpore found."""
        with np.load(self.folder / f"{name}.npz") as arrays:
            return tuple(
                [arrays[f"{letter}{index}"] for index in range(sum(key[0] == letter for key in arrays.files))]
                for letter in "xy"
            )  # type: ignore[return-value]


def export(name: str, folder: Path) -> Exported:
    """Export all networks with an environment.

    Raises:
        RuntimeError: MindSpore ended early.
    """
    child = _start(name, "export.py", folder)
    if child.returncode:
        raise RuntimeError(f"{name} ended with status {child.returncode}: {child.stderr[-600:]}")
    return Exported(folder)


def run_files(name: str, files: Mapping[str, tuple[bytes, Arrays]], folder: Path) -> dict[str, Arrays | str]:
    """What MindSpore computes with each file, or why it does not."""
    stems = {case: folder / f"{index:04}" for index, case in enumerate(files)}
    for case, (content, feed) in files.items():
        stems[case].with_suffix(".mindir").write_bytes(content)
        arrays: dict[str, Any] = {f"x{index}": array for index, array in enumerate(feed)}
        np.savez(stems[case].with_suffix(".in.npz"), **arrays)
    for _ in range(MOST_STARTS):
        if not _start(name, "run.py", folder).returncode:
            break
    return {case: _outcome(stem) for case, stem in stems.items()}


def _start(name: str, script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return start(interpreter(name, MADE_BY), f"mindspore/{script}", str(folder), GLOG_v="3")


def _outcome(stem: Path) -> Arrays | str:
    error, output = stem.with_suffix(".error"), stem.with_suffix(".out.npz")
    if error.exists():
        return error.read_text()
    with np.load(output) as arrays:
        return [arrays[f"y{index}"] for index in range(len(arrays.files))]
