"""OpenVINO in a child process of its own environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from tests.runtimes.environments import carry_out, interpreter

ENVIRONMENT = "openvino"
skip_if_missing = partial(interpreter, ENVIRONMENT)

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Case:
    """An ONNX file, and one run for each feed."""

    model: onnx.ModelProto
    feeds: Sequence[Mapping[str, NDArray[Any]]]


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
    carry_out(ENVIRONMENT, "ov_child.py", manifest, folder, **({"ONEDNN_MAX_CPU_ISA": processor} if processor else {}))
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
