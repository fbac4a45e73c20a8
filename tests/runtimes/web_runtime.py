"""onnxruntime-web: onnxruntime in WebAssembly, as browsers run it, in a process of Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tests.runtimes.environments import PROGRAMS
from tests.runtimes.ms_runtime import RUNTIMES
from tests.runtimes.ov_runtime import Arrays, Case

PACKAGES = RUNTIMES / "web" / "node_modules"


def skip_if_missing() -> None:
    if not (shutil.which("node") and PACKAGES.exists()):
        pytest.skip(f"{PACKAGES} or Node is missing: make runtimes")


def run_cases(cases: Sequence[Case], folder: Path) -> list[list[Arrays]]:
    """Outputs of each feed of each case, by name.

    Args:
        cases: What to run.
        folder: For files that are exchanged.

    Raises:
        RuntimeError: onnxruntime-web refuses a file, with its words, or Node ends with an error.
    """
    manifest = [_written(case, folder / str(number)) for number, case in enumerate(cases)]
    listed = folder / "manifest.json"
    listed.write_text(json.dumps(manifest), encoding="utf-8")
    command = ["node", str(PROGRAMS / "web_child.mjs"), str(PACKAGES.absolute()), str(listed)]
    child = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=900)
    if child.returncode:
        raise RuntimeError(f"Node ended with status {child.returncode}: {child.stderr[-2000:]}")
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
