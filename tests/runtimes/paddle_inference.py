"""Inference models in Paddle itself, 3.3.1 and 2.6.2, each in a child process of its own interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.runtimes.environments import interpreter, survive

ENVIRONMENTS = {"2.6.2": "paddle26", "3.3.1": "paddle33"}
"""Release -> environment."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class InferenceCase:
    """A program with its parameters beside it, and what is fed.

    Attributes:
        program: The ``.pdmodel`` file.
        samples: By input name, along a first axis.
        way: ``plain`` (no pass changes the program), ``cpu``, ``onednn`` or ``int8`` (oneDNN with integers).
    """

    program: Path
    samples: Mapping[str, Array]
    way: str = "plain"


@dataclass(frozen=True, slots=True)
class Found:
    """Outputs, along a first axis of samples, seconds of each sample, and what oneDNN ran; or why there are none."""

    outputs: tuple[Array, ...] = ()
    seconds: Array | None = None
    error: str = ""
    kernels: tuple[str, ...] = ()


def run_models(release: str, cases: Sequence[InferenceCase], folder: Path) -> list[Found]:
    """What Paddle makes of the cases; the calling test is skipped where the release was not made."""
    python = interpreter(ENVIRONMENTS[release])
    manifest = []
    for number, case in enumerate(cases):
        inputs, outputs = folder / f"{number}.in.npz", folder / f"{number}.out.npz"
        arrays: dict[str, Any] = dict(case.samples)
        np.savez(inputs, **arrays)
        paths = {"program": case.program, "parameters": case.program.with_suffix(".pdiparams")}
        paths |= {"inputs": inputs, "outputs": outputs}
        manifest.append({name: str(path) for name, path in paths.items()} | {"way": case.way})
    ended, lines = survive(python, "paddle3/inference_child.py", manifest, folder, ONEDNN_VERBOSE="1")
    kernels = _kernels(lines)
    return [
        _found(
            folder / f"{number}.out.npz",
            f"ended with status {ended[number].returncode}" if number in ended else "",
            kernels.get(number, ()),
        )
        for number in range(len(cases))
    ]


def _kernels(lines: Sequence[str]) -> dict[int, tuple[str, ...]]:
    """Lines of oneDNN about what it computed, by the number of the case."""
    found: dict[int, tuple[str, ...]] = {}
    number = -1
    for line in lines:
        if line.startswith("case "):
            number = int(line.split()[1])
        elif "onednn_verbose" in line and ",exec," in line and ",reorder," not in line:
            found[number] = (*found.get(number, ()), line)
    return found


def _found(path: Path, ended: str, kernels: tuple[str, ...]) -> Found:
    error = path.with_suffix(".error")
    if ended or error.exists():
        return Found(error=ended or error.read_text())
    with np.load(path) as made:
        count = sum(name.startswith("out") for name in made.files)
        return Found(tuple(made[f"out{place}"] for place in range(count)), made["seconds"], kernels=kernels)
