"""Paddle-Lite's light library 2.12 for ARM64 under qemu-user: one process per file, since a bad file ends it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".runtimes" / "pd212-arm64"
ARM64 = "Paddle-Lite 2.12, arm"
"""Name of the runtime in tables."""

EMULATOR = "qemu-aarch64-static"
DOT_PRODUCT = "0xd05"
"""Part number of Cortex-A55, for which the library takes its dot-product kernels; without one it takes the plain ones."""

TYPES = {"f32": np.float32, "i64": np.int64, "i32": np.int32, "u8": np.uint8, "i8": np.int8, "bool": np.bool_}
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

Array = NDArray[Any]


def missing(*, half: bool = False) -> str:
    """Why the library cannot be run, or nothing."""
    if not _runner(half=half).exists():
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
    command = [EMULATOR, "-cpu", "max", "-L", "/usr/aarch64-linux-gnu", str(_runner(half=half))]
    command += [str(model), str(folder), "1", "-t", str(threads)]
    for index, array in enumerate(arrays):
        path = folder / f"in{index}.bin"
        path.write_bytes(np.ascontiguousarray(array).tobytes())
        command.append(f"{NAMES[array.dtype]}:{','.join(map(str, array.shape or (1,)))}:{path}")
    command[-len(arrays) : -len(arrays)] = [word for name in inner for word in ("-v", name)]
    processor = folder / "cpuinfo"
    processor.write_text(
        f"processor\t: 0\nCPU part\t: {part}\n", encoding="ascii"
    )  # the other cores are taken to be equal
    environment = {**os.environ, "CPUINFO": str(processor)} if part else dict(os.environ)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)
    if done.returncode:
        fatal = [line for line in done.stderr.splitlines() if line.startswith(("[F", "runner:"))]
        return f"ended with status {done.returncode}: {fatal[-1][-160:] if fatal else 'no message'}"
    return [_output(folder, *line.split()) for line in (folder / "out.txt").read_text().splitlines()]


def _runner(*, half: bool) -> Path:
    return (FOLDER / "fp16" if half else FOLDER) / "run_nb_arm64"


def _output(folder: Path, number: str, kind: str, dims: str = "") -> Array:
    path = folder / (f"var{number[1:]}.bin" if number.startswith("v") else f"out{number}.bin")
    values = np.frombuffer(path.read_bytes(), TYPES[kind])
    return values.reshape([int(size) for size in dims.split(",")] if dims else (1,))
