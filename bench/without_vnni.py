"""onnxruntime as on an x86 processor without VNNI and AVX-512, at full speed, on one that has them.

``python -m bench.without_vnni COMMAND ...`` runs a command of Python like that: ``-m pytest``.

onnxruntime asks the processor (CPUID) which kernels it can run. A copy of its library asks through an instruction that raises a
signal, and ``without_vnni.c``, which is loaded before, answers without those features: products of matrices and convolutions
then saturate and take the time that they take there. NumPy and OpenBLAS do without them as well.
"""

from __future__ import annotations

import functools
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import onnxruntime as ort

ANSWERS = Path(__file__).with_name("without_vnni.c")

FOLDER = Path(__file__).resolve().parents[1] / ".runtimes" / "without_vnni"

CPUID, UNDEFINED = b"\x0f\xa2", b"\x0f\x0b"
"""Two bytes each."""

INSTRUCTION = re.compile(r"\s*([0-9a-f]+):\s+cpuid\b")
"""As objdump shows it."""


def missing() -> str:
    """Why it cannot be made here; empty if it can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return "the processor is no x86 of Linux"
    tools = [tool for tool in ("cc", "objdump") if shutil.which(tool) is None]
    return f"{' and '.join(tools)} not installed: no onnxruntime without VNNI" if tools else ""


def environment(*modules: Path) -> dict[str, str]:
    """Variables of a process that computes without VNNI, and imports from folders of ``modules``.

    Raises:
        RuntimeError: It cannot be made here (:func:`missing`).
    """
    folder = _made()
    core = importlib.import_module(f"numpy.{'_core' if np.__version__ >= '2' else 'core'}._multiarray_umath")
    disabled = [name for name in core.__cpu_dispatch__ if name.startswith(("AVX512", "X86_V4"))]
    return {
        "LD_PRELOAD": str(folder / "answers.so"),
        "PYTHONPATH": os.pathsep.join(map(str, (folder, *modules))),
        "NPY_DISABLE_CPU_FEATURES": " ".join(disabled),
        "OPENBLAS_CORETYPE": "Haswell",
    }


@functools.cache
def _made() -> Path:
    """The folder of the library's copy (70 MB), which the first call makes."""
    if reason := missing():
        raise RuntimeError(reason)
    sources = ANSWERS.read_bytes() + Path(__file__).read_bytes()
    folder = FOLDER / f"{ort.__version__}-{zlib.crc32(sources):08x}"
    if not folder.is_dir():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as name:
            _make(Path(name) / "made")
            try:
                (Path(name) / "made").rename(folder)
            except OSError:
                if not folder.is_dir():  # another process was faster
                    raise
    return folder


def _make(folder: Path) -> None:
    package = Path(ort.__file__).parent
    shutil.copytree(package, folder / package.name)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", folder / "answers.so", ANSWERS, "-ldl"], check=True)
    for library in (folder / package.name / "capi").glob("onnxruntime_pybind11_state*.so"):
        _replace_cpuid(library)


def _replace_cpuid(library: Path) -> None:
    """In the text section, whose addresses objdump knows; the two bytes occur in other instructions, too."""
    headers = subprocess.run(["objdump", "-hw", library], check=True, capture_output=True, text=True).stdout
    address, offset = next(
        (int(fields[3], 16), int(fields[5], 16))
        for fields in map(str.split, headers.splitlines())
        if fields[1:2] == [".text"]
    )
    content = bytearray(library.read_bytes())
    command = ["objdump", "-d", "--no-show-raw-insn", str(library)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:  # hundreds of megabytes
            if found := INSTRUCTION.match(line):
                at = int(found[1], 16) - address + offset
                assert content[at : at + 2] == CPUID, f"{library.name}: no CPUID at {at:#x}"
                content[at : at + 2] = UNDEFINED
    if child.returncode:
        raise RuntimeError(f"objdump cannot read {library.name}")
    library.write_bytes(content)


if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {**os.environ, **environment(Path.cwd())})
