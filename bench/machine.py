"""What the figures were measured on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

from bench.programs import NotInstalledError, Places, nncf_python, openvino_python
from converter_lite.execution.processor import cpu_field, processor_kind

PACKAGES = ("converter-lite", "numpy", "onnx", "onnx-ir", "onnxruntime", "pillow")

VECTOR_INSTRUCTIONS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")
"""Processor flags that decide how fast integer kernels are."""


def machine_lines(places: Places) -> list[str]:
    """Processor, cores, versions, commit and load: one line of Markdown each."""
    flags = ", ".join(flag for flag in VECTOR_INSTRUCTIONS if flag in cpu_field("flags", "Features").split())
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return [
        f"- {cpu_field('model name') or platform.machine()}, {len(os.sched_getaffinity(0))} cores; {flags}",
        f"- kind of processor: {processor_kind()}",
        f"- {platform.system()}, Python {platform.python_version()}; {versions}",
        f"- NNCF: {_versions('nncf', nncf_python, places)}",
        f"- OpenVINO: {_versions('openvino', openvino_python, places)}",
        f"- commit {_commit(places.root)}",
        f"- load average when the run began: {os.getloadavg()[0]:.1f}",
    ]


def _commit(root: Path) -> str:
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _versions(package: str, interpreter: Callable[[Places], Path], places: Places) -> str:
    try:
        python = interpreter(places)
    except NotInstalledError as reason:
        return f"not measured, {reason}"
    beside = ", 'with onnxruntime', v('onnxruntime')" if package == "nncf" else ""
    code = f"from importlib.metadata import version as v; print(v('{package}'){beside})"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
