"""Paddle in child processes of its own environments: 3.3.1 writes PIR, 2.6.2 writes protobuf programs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtimes.ms_runtime import RUNTIMES

CHILD = Path(__file__).parent / "paddle3" / "child.py"

Arrays = dict[str, NDArray[Any]]


def interpreter(name: str) -> Path:
    """Python of an environment; the calling test is skipped where it was not made."""
    python = RUNTIMES / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} is missing: make runtimes")
    return python


@dataclass(frozen=True)
class Exported:
    """What one release made of the networks.

    Attributes:
        folder: A folder for each network.
        failures: Network -> why it could not be exported or run.
    """

    folder: Path
    failures: Mapping[str, str]

    def names(self) -> list[str]:
        """The networks, in alphabetical order."""
        return sorted(path.name for path in self.folder.iterdir() if (path / "data.npz").exists())

    def recorded(self, name: str, inputs: list[str]) -> tuple[Arrays, list[NDArray[Any]]]:
        """What was fed, and what Paddle found."""
        with np.load(self.folder / name / "data.npz") as arrays:
            count = sum(key.startswith("out") for key in arrays.files)
            return {key: arrays[key] for key in inputs}, [arrays[f"out{place}"] for place in range(count)]


def export(name: str, folder: Path) -> Exported:
    """Export all networks with an environment.

    Raises:
        RuntimeError: Paddle ended early.
    """
    command = [str(interpreter(name)), str(CHILD), str(folder)]
    child = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if child.returncode:
        raise RuntimeError(f"{name} ended with status {child.returncode}: {child.stderr[-600:]}")
    return Exported(folder, json.loads((folder / "failures.json").read_text()))
