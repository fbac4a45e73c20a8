"""Access of the tests to the released runtimes in ``.runtimes`` (x86-64, and 64-bit ARM under qemu-user)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
RUNTIMES = Path(os.environ.get("CONVERTER_LITE_RUNTIMES", ROOT / ".runtimes"))
X86_PYTHON = RUNTIMES / "ms20" / "bin" / "python"
X86_SHIM = RUNTIMES / "ms_weight_cache_shim.so"
ARM = RUNTIMES / "ms20-arm64"
CHILD = Path(__file__).with_name("ms_child.py")

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Outcome:
    """What a runtime made of one file: outputs, or why there are none."""

    outputs: Arrays
    error: str = ""


def x86_missing() -> str:
    """Why the x86 runtime cannot be used; empty if it can."""
    return "" if X86_PYTHON.exists() else f"{X86_PYTHON} is missing: make runtimes"


def arm_missing() -> str:
    """Why the ARM runtime cannot be used; empty if it can."""
    if not (ARM / "run_ms_arm64").exists():
        return f"{ARM / 'run_ms_arm64'} is missing: make runtimes"
    return "" if shutil.which("qemu-aarch64-static") else "qemu-aarch64-static is missing (package qemu-user-static)"


def run_x86(
    cases: Mapping[str, tuple[bytes, Mapping[str, NDArray[np.generic]]]], folder: Path, *, shim: bool = False
) -> dict[str, Outcome]:
    """Run many files in as few processes as possible; a crash costs only its own case."""
    for name, (data, feed) in cases.items():
        (folder / f"{name}.ms").write_bytes(data)
        np.savez(folder / f"{name}.in.npz", **feed)
    environment = {"PATH": os.environ["PATH"], "GLOG_v": "3"}
    if shim:
        environment["LD_PRELOAD"] = str(X86_SHIM)
    for _ in range(len(cases) + 1):
        done = subprocess.run(
            [X86_PYTHON, CHILD, folder], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        crashed = list(folder.glob("*.running"))
        for mark in crashed:
            mark.with_suffix(".error").write_text(f"the process died ({done.returncode}): {done.stderr[-300:]}")
            mark.unlink()
        if not crashed:
            break
    return {name: _outcome(folder, name, done.stderr) for name in cases}


def _outcome(folder: Path, name: str, log: str) -> Outcome:
    error = folder / f"{name}.error"
    if error.exists():
        return Outcome({}, f"{error.read_text()} {log[-600:]}")
    result = folder / f"{name}.out.npz"
    if not result.exists():
        return Outcome({}, f"no result: {log[-600:]}")
    with np.load(result) as arrays:
        return Outcome({key: arrays[key] for key in arrays.files})
