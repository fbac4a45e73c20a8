"""OpenVINO in a child process of its own environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.runtimes.ms_runtime import RUNTIMES

PYTHON = RUNTIMES / "openvino" / "bin" / "python"
CHILD = Path(__file__).with_name("ov_child.py")

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """An ONNX file, and one run for each feed."""

    model: onnx.ModelProto
    feeds: Sequence[Mapping[str, NDArray[Any]]]


def skip_if_missing() -> None:
    """Skip the calling test where the environment was not made."""
    if not PYTHON.exists():
        pytest.skip(f"{PYTHON} is missing: make runtimes")


def run_cases(cases: Sequence[Case], folder: Path, *, processor: str = "") -> list[list[Arrays]]:
    """Outputs of each feed of each case, by name.

    Args:
        cases: What to run.
        folder: For files that are exchanged.
        processor: What its kernels may use of this one, as oneDNN calls it: AVX2 has no VNNI.

    Raises:
        RuntimeError: OpenVINO refuses a file, with its words.
    """
    manifest = [_written(case, folder / str(number)) for number, case in enumerate(cases)]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    command = [str(PYTHON), str(CHILD), str(folder / "manifest.json")]
    env = {"PATH": os.environ["PATH"], **({"ONEDNN_MAX_CPU_ISA": processor} if processor else {})}
    child = subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=900)
    if child.returncode:
        raise RuntimeError(f"OpenVINO ended with status {child.returncode}: {child.stderr[-600:]}")
    return [_outputs(case, entry) for case, entry in zip(cases, manifest, strict=True)]


def _written(case: Case, stem: Path) -> dict[str, Any]:
    model, error = stem.with_suffix(".onnx"), stem.with_suffix(".error")
    onnx.save(case.model, model)
    feeds = [stem.with_suffix(f".in{index}.npz") for index in range(len(case.feeds))]
    for path, feed in zip(feeds, case.feeds, strict=True):
        np.savez(path, **feed)
    outputs = [stem.with_suffix(f".out{index}.npz") for index in range(len(case.feeds))]
    return {"model": str(model), "error": str(error), "feeds": [*map(str, feeds)], "outputs": [*map(str, outputs)]}


def _outputs(case: Case, entry: Mapping[str, Any]) -> list[Arrays]:
    if Path(entry["error"]).exists():
        raise RuntimeError(f"OpenVINO: {Path(entry['error']).read_text()[:600]}")
    names = [value.name for value in case.model.graph.output]
    found = []
    for path in entry["outputs"]:
        with np.load(path) as arrays:
            found.append({name: arrays[f"out{index}"] for index, name in enumerate(names)})
    return found
