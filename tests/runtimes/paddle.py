"""Released Paddle-Lite runtimes, each in a child process of its own interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtimes.environments import Child, survive
from tests.support import MODELS

ROOT = Path(__file__).parents[2]
PADDLE_MODELS = MODELS / "paddle_mobilenet_v1_075"
RELEASES = {"2.10": "pd210", "2.12": "pd212", "2.13rc0": "pd213"}


@dataclass(frozen=True, slots=True)
class Case:
    """A file, what is fed (in feed order), and how many outputs are read."""

    data: bytes
    inputs: Sequence[NDArray[Any]]
    outputs: int = 1


def interpreter(release: str) -> Path | None:
    """Python of a release's environment, or ``None`` when it was not made."""
    found = ROOT / ".runtimes" / RELEASES[release] / "bin" / "python"
    return found if found.exists() else None


def require(release: str) -> None:
    """Skip the test where a release's environment was not made."""
    if interpreter(release) is None:
        pytest.skip(f"Paddle-Lite {release} is not installed; make runtimes")


def require_paddle_models() -> None:
    """Skip the test where the Paddle models are not there."""
    if not PADDLE_MODELS.is_dir():
        pytest.skip("the Paddle models are not beside the checkout")


def run_cases(release: str, cases: Sequence[Case], folder: Path) -> list[list[NDArray[Any]] | str]:
    """Outputs of each case, or the message with which it ended the process."""
    python = interpreter(release)
    assert python is not None
    manifest = []
    for number, case in enumerate(cases):
        model, inputs, outputs = (folder / f"{number}{end}" for end in (".nb", ".in.npz", ".out.npz"))
        model.write_bytes(case.data)
        np.savez(inputs, **{f"in{index}": array for index, array in enumerate(case.inputs)})
        paths = {"model": str(model), "inputs": str(inputs), "outputs": str(outputs)}
        manifest.append({**paths, "count": case.outputs})
    ended, _ = survive(python, "paddle_child.py", manifest, folder)
    failures = {number: _last_words(child) for number, child in ended.items()}
    return [
        failures[number] if number in failures else _outputs(folder / f"{number}.out.npz", case.outputs)
        for number, case in enumerate(cases)
    ]


def _last_words(child: Child) -> str:
    fatal = [line for line in child.stderr.splitlines() if line.startswith("[F") or "Error" in line]
    return f"ended with status {child.returncode}: {fatal[-1][-160:] if fatal else 'no message'}"


def _outputs(path: Path, count: int) -> list[NDArray[Any]]:
    with np.load(path) as found:
        return [found[f"out{index}"] for index in range(count)]
