"""Files with an input ``x`` and an output ``y`` in every runtime of a device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tests.cli.workshop import command
from tests.runtimes.ms_runtime import PLATFORMS
from tests.runtimes.paddle import Case, require, run_cases
from tests.runtimes.paddle_arm import ARM64, require_arm, run_on_arm

Array = NDArray[Any]

Run = Callable[[bytes, Array, Path], "Array | str"]


def in_mindspore_lite(name: str) -> Run:
    def run(data: bytes, x: Array, folder: Path) -> Array | str:
        platform = next(p for p in PLATFORMS if p.name == name)
        platform.skip_if_missing(shim=True)
        outcome = platform.run({"m": (data, {"x": x})}, folder, shim=True)["m"]
        return outcome.error or outcome.outputs["y"]

    return run


def in_paddle_lite(release: str) -> Run:
    def run(data: bytes, x: Array, folder: Path) -> Array | str:
        require(release)
        (found,) = run_cases(release, [Case(data, [x])], folder)
        return found if isinstance(found, str) else found[0]

    return run


def on_arm(data: bytes, x: Array, folder: Path) -> Array | str:
    require_arm()
    found = run_on_arm(data, [x], folder)
    return found if isinstance(found, str) else found[0]


RUNTIMES: dict[str, tuple[str, str, Run]] = {
    **{f"MindSpore Lite 2.0.0, {p.name}": ("MINDIR_LITE", "", in_mindspore_lite(p.name)) for p in PLATFORMS},
    "Paddle-Lite 2.12, x86": ("NAIVE_BUFFER", "x86", in_paddle_lite("2.12")),
    ARM64: ("NAIVE_BUFFER", "arm", on_arm),
}
"""Runtime -> ``--saveType``, ``--nbTarget``, and what runs a file: its result, or why there is none."""


def written_for(runtime: str) -> Path:
    """The file that the command line makes for a runtime of ``model.onnx``, both in the working directory."""
    save_type, processor, _ = RUNTIMES[runtime]
    flags = [f"--saveType={save_type}", *([f"--nbTarget={processor}"] if processor else [])]
    outcome = command("--fmk=ONNX", "--modelFile=model.onnx", "--outputFile=out", *flags)
    assert outcome.status == 0, outcome
    return Path("out.nb" if processor else "out.ms")
