"""Paddle in child processes of its own environments: 3.3.1 writes PIR, 2.6.2 writes protobuf programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.runtimes.environments import finish, interpreter

Arrays = dict[str, NDArray[Any]]


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
    finish(interpreter(name), "paddle3/child.py", str(folder))
    return Exported(folder, json.loads((folder / "failures.json").read_text()))
