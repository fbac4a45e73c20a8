"""onnxruntime-web: onnxruntime in WebAssembly, as browsers run it, in a process of Node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.runtimes.environments import finish, stored
from tests.runtimes.ms_runtime import RUNTIMES
from tests.runtimes.ov_runtime import Arrays, Case

PACKAGES = RUNTIMES / "web" / "node_modules"


def skip_if_missing() -> None:
    """Skip the calling test where there was no Node to make it with."""
    if not PACKAGES.exists():
        pytest.skip(f"{PACKAGES} is missing: make runtimes")


def run_cases(cases: Sequence[Case], folder: Path) -> list[list[Arrays]]:
    """Outputs of each feed of each case, by name.

    Args:
        cases: What to run.
        folder: For files that are exchanged.

    Raises:
        RuntimeError: onnxruntime-web refuses a file, with its words, or Node ends with an error.
    """
    manifest = [_written(case, folder / str(number)) for number, case in enumerate(cases)]
    finish(Path("node"), "web_child.mjs", str(PACKAGES.absolute()), str(stored(manifest, folder)))
    return [_outputs(entry) for entry in manifest]


def _written(case: Case, stem: Path) -> dict[str, Any]:
    model = stem.with_suffix(".onnx")
    onnx.save(case.model, model)
    feeds = [_stored(feed, f"{stem}.in{index}") for index, feed in enumerate(case.feeds)]
    outputs = [f"{stem}.out{index}" for index in range(len(case.feeds))]
    return {"model": str(model), "error": f"{stem}.error", "feeds": feeds, "outputs": outputs}


def _stored(feed: Mapping[str, NDArray[Any]], stem: str) -> dict[str, Any]:
    for number, array in enumerate(feed.values()):
        array.tofile(f"{stem}.{number}")
    return {
        name: {"type": str(array.dtype), "shape": array.shape, "file": f"{stem}.{number}"}
        for number, (name, array) in enumerate(feed.items())
    }


def _outputs(entry: Mapping[str, Any]) -> list[Arrays]:
    error = Path(entry["error"])
    if error.exists():
        raise RuntimeError(f"onnxruntime-web: {error.read_text()[:600]}")
    found = [json.loads(Path(path).read_text()) for path in entry["outputs"]]
    return [
        {name: np.fromfile(out["file"], out["type"]).reshape(out["shape"]) for name, out in run.items()}
        for run in found
    ]
