"""Access of the tests to the released runtimes in ``.runtimes`` (x86-64, and 64-bit ARM under qemu-user)."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.container import from_bytes
from converter_lite.formats.mindspore_lite.enums import DataType
from tests.runtimes.fork_server import ForkServer

ROOT = Path(__file__).parents[2]
RUNTIMES = Path(os.environ.get("CONVERTER_LITE_RUNTIMES", ROOT / ".runtimes"))
X86_PYTHON = RUNTIMES / "ms20" / "bin" / "python"
X86_SHIM = RUNTIMES / "ms_weight_cache_shim.so"
ARM = RUNTIMES / "ms20-arm64"
ARM_SERVER = ARM / "fork_server.so"
CHILD = Path(__file__).with_name("ms_child.py")

Arrays = dict[str, NDArray[np.generic]]
RuntimeCase = tuple[bytes, Mapping[str, NDArray[np.generic]]]


@dataclass(frozen=True)
class Platform:
    """A released runtime and how files are run in it."""

    name: str
    missing: Callable[[], str]
    missing_shim: Callable[[], str]
    run: Callable[..., dict[str, Outcome]]

    def skip_if_missing(self, *, shim: bool = False) -> None:
        """Skip the calling test, with the reason, where the runtime (or the shim for packed weights) is not installed."""
        reason = self.missing() or (self.missing_shim() if shim else "")
        if reason:
            pytest.skip(reason)


@dataclass(frozen=True)
class Outcome:
    """What a runtime made of one file: outputs, or why there are none."""

    outputs: Arrays
    error: str = ""


def x86_missing() -> str:
    """Why the x86 runtime cannot be used; empty if it can."""
    return "" if X86_PYTHON.exists() else f"{X86_PYTHON} is missing: make runtimes"


def shim_missing() -> str:
    """Why files with packed weights cannot be run on x86; empty if they can."""
    return x86_missing() or ("" if X86_SHIM.exists() else f"{X86_SHIM} is missing: make runtimes needs a C compiler")


def arm_missing() -> str:
    """Why the ARM runtime cannot be used; empty if it can."""
    for path in (ARM / "ms_arm_child", ARM_SERVER):
        if not path.exists():
            return f"{path} is missing: make runtimes"
    return "" if shutil.which("qemu-aarch64-static") else "qemu-aarch64-static is missing (package qemu-user-static)"


def arm_shim_missing() -> str:
    """Why files with packed weights cannot be run under emulation; empty if they can."""
    shim = ARM / X86_SHIM.name
    return arm_missing() or ("" if shim.exists() else f"{shim} is missing: make runtimes needs the ARM compiler")


def run_x86(cases: Mapping[str, RuntimeCase], folder: Path, *, shim: bool = False) -> dict[str, Outcome]:
    """Run many files in as few processes as possible; a crash costs only its own case."""
    for name, (data, feed) in cases.items():
        _forget(folder, name)
        (folder / f"{name}.ms").write_bytes(data)
        np.savez(folder / f"{name}.in.npz", **feed)
    environment = {"PATH": os.environ["PATH"], "GLOG_v": "3"}
    if shim:
        environment["LD_PRELOAD"] = str(X86_SHIM)
    command = [str(X86_PYTHON), str(CHILD), str(folder)]

    def run() -> str:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", timeout=900, check=False
        )
        return f"the process died ({done.returncode}): {done.stderr[-600:]}"

    _run_until_done(run, folder, len(cases))
    return {name: _outcome(folder, name, _x86_outputs) for name in cases}


def run_arm(cases: Mapping[str, RuntimeCase], folder: Path, *, shim: bool = False) -> dict[str, Outcome]:
    """The same under qemu-user; inputs are brought into the layout of the file first."""
    lines = []
    for name, (data, feed) in cases.items():
        _forget(folder, name)
        (folder / f"{name}.ms").write_bytes(data)
        model = from_bytes(data)
        for place, index in enumerate(model.inputs):
            tensor = model.tensors[index]
            array = np.asarray(feed[tensor.name])
            array = array.transpose(0, 2, 3, 1) if array.ndim == 4 and array.shape[1:] != tensor.dims[1:] else array
            (folder / f"{name}.in{place}").write_bytes(np.ascontiguousarray(array, tensor.dtype.numpy).tobytes())
        lines.append(f"{name} {len(model.inputs)}\n")
    (folder / "list").write_text("".join(lines))
    log = folder / "log.txt"

    def run() -> str:
        status = _arm_server(shim=shim).run([str(folder)], log, timeout=900)
        return f"the process died ({status}): {log.read_text(errors='replace')[-600:]}"

    _run_until_done(run, folder, len(cases))
    return {name: _outcome(folder, name, _arm_outputs) for name in cases}


@functools.cache
def _arm_server(*, shim: bool) -> ForkServer:
    """The emulated runtime, loaded once: that is most of the time of a small file."""
    environment = {"PATH": os.environ["PATH"], "GLOG_v": "3", "LD_LIBRARY_PATH": str(ARM / "mindspore_lite" / "lib")}
    libraries = [ARM_SERVER, *([ARM / X86_SHIM.name] if shim else [])]
    emulator = ["qemu-aarch64-static", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"]
    preload = ["-E", f"LD_PRELOAD={':'.join(map(str, libraries))}"]
    return ForkServer([*emulator, *preload, str(ARM / "ms_arm_child")], environment)


def _forget(folder: Path, name: str) -> None:
    """Remove what an earlier run of a case of this name gave: it would be taken for the result of this one."""
    for suffix in ("error", "out.npz", "shapes"):
        (folder / f"{name}.{suffix}").unlink(missing_ok=True)


def _run_until_done(run: Callable[[], str], folder: Path, count: int) -> None:
    """Run what takes up the cases that are left, and says how it ended, until none is."""
    for _ in range(count + 1):
        try:
            end = run()
        except subprocess.TimeoutExpired:
            end = "the process hung"
        marks = list(folder.glob("*.running"))
        for mark in marks:
            mark.with_suffix(".error").write_text(end)
            mark.unlink()
        if not marks:
            return


def _outcome(folder: Path, name: str, read: Callable[[Path, str], Arrays | None]) -> Outcome:
    error = folder / f"{name}.error"
    if error.exists():
        return Outcome({}, error.read_text())
    outputs = read(folder, name)
    return Outcome({}, "there is no result") if outputs is None else Outcome(outputs)


def _x86_outputs(folder: Path, name: str) -> Arrays | None:
    path = folder / f"{name}.out.npz"
    if not path.exists():
        return None
    with np.load(path) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _arm_outputs(folder: Path, name: str) -> Arrays | None:
    path = folder / f"{name}.shapes"
    if not path.exists():
        return None
    outputs: Arrays = {}
    for place, line in enumerate(path.read_text().splitlines()):
        output, kind, *dims = line.split("\t")
        data = np.fromfile(folder / f"{name}.out{place}", DataType(int(kind)).numpy)
        outputs[output] = data.reshape([int(d) for d in dims])
    return outputs


PLATFORMS = (
    Platform("x86", x86_missing, shim_missing, run_x86),
    Platform("arm", arm_missing, arm_shim_missing, run_arm),
)
"""Every runtime that the tests know."""
