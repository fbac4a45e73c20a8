"""Paddle-Lite's light library 2.12 for ARM64 under qemu-user: one process per file, since a bad file ends it.

The processes are forks of one that has loaded the library, which takes three quarters of the time of a small file.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runtimes.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".runtimes" / "pd212-arm64"
FORK_SERVER = FOLDER / "fork_server.so"
ARM64 = "Paddle-Lite 2.12, arm"
"""Name of the runtime in tables."""

EMULATOR = "qemu-aarch64-static"
DOT_PRODUCT = "0xd05"
"""Part number of Cortex-A55, for which the library takes its dot-product kernels; without one it takes the plain ones."""

TYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8, "bool": np.bool_}
POISON = {"MALLOC_PERTURB_": "1"}
"""Fills memory with NaN (as float16) before the library gets it, so that what nobody wrote is noticed when it is read."""

NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

Array = NDArray[Any]


def missing(*, half: bool = False) -> str:
    """Why the library cannot be run, or nothing."""
    if not _runner(half=half).exists() or not FORK_SERVER.exists():
        return "Paddle-Lite for ARM64 (pd212-arm64) is not made; make runtimes, with the library beside the checkout"
    return "" if shutil.which(EMULATOR) else f"pd212-arm64 needs {EMULATOR} (package qemu-user-static)"


def require_arm(*, half: bool = False) -> None:
    """Skip the test where the library cannot be run."""
    reason = missing(half=half)
    if reason:
        pytest.skip(reason)


def run_on_arm(
    data: bytes,
    inputs: Sequence[Array] | Mapping[str, Array],
    folder: Path,
    *,
    threads: int = 1,
    part: str = "",
    half: bool = False,
    inner: Sequence[str] = (),
) -> list[Array] | str:
    """Outputs of a file and then the inner variables that are asked for, or the way in which the process ended.

    Args:
        data: The ``.nb`` file.
        inputs: What is fed, in feed order.
        folder: Where files are put.
        threads: Of the library.
        part: The part number of the processor's cores that the library sees; see :data:`DOT_PRODUCT`.
        half: Take the library that has float16 kernels.
        inner: Variables of the file; ours share no memory, so that all can be read when it has run.
    """
    arrays = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.nb"
    model.write_bytes(data)
    words = [str(model), str(folder), "1", "-t", str(threads), *(word for name in inner for word in ("-v", name))]
    for index, array in enumerate(arrays):
        path = folder / f"in{index}.bin"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        words.append(f"{NAMES[array.dtype]}:{','.join(map(str, array.shape or (1,)))}:{path}")
    log = folder / "log.txt"
    status = _server(_runner(half=half), part).run(words, log, timeout=300)
    if status:
        fatal = [line for line in log.read_text(errors="replace").splitlines() if line.startswith(("[F", "runner:"))]
        return f"ended with status {status}: {fatal[-1][-160:] if fatal else 'no message'}"
    return [_output(folder, *line.split()) for line in (folder / "out.txt").read_text().splitlines()]


@cache
def _server(runner: Path, part: str) -> ForkServer:
    """The library on a processor of cores of this part number."""
    processor = Path(tempfile.mkdtemp(prefix="paddle_arm_")) / "cpuinfo"
    # the other cores are taken to be equal
    processor.write_text(f"processor\t: 0\nCPU part\t: {part}\n", encoding="ascii")
    command = [EMULATOR, "-cpu", "max", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_PRELOAD={FORK_SERVER}", str(runner)]
    return ForkServer(command, {**os.environ, **POISON, **({"CPUINFO": str(processor)} if part else {})})


def _runner(*, half: bool) -> Path:
    return (FOLDER / "fp16" if half else FOLDER) / "run_nb_arm64"


def _output(folder: Path, number: str, kind: str, dims: str = "") -> Array:
    path = folder / (f"var{number[1:]}.bin" if number.startswith("v") else f"out{number}.bin")
    values = np.frombuffer(path.read_bytes(), TYPES[kind])
    return values.reshape([int(size) for size in dims.split(",")] if dims else (1,))
