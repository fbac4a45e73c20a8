"""What two machines must have in common so that both compute the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from converter_lite import __version__

PACKAGES = ("converter-lite", "numpy", "onnx", "onnx-ir", "onnxruntime", "pillow", "dask", "distributed")
"""Packages that compute, read pictures, or carry work to other machines."""

VECTOR_UNITS = ("avx", "amx", "fma", "sse4", "asimd", "sve", "i8mm", "bf16")
"""Prefixes of the processor features by which the runtime chooses its kernels."""

CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class Environment:
    """What determines a process's results.

    Attributes:
        versions: Package -> version.
        processor: Vector units of the processor, empty if the system does not report them.
    """

    versions: Mapping[str, str]
    processor: frozenset[str]

    def differences(self, other: Environment) -> list[str]:
        """Packages whose versions differ, each with both versions, the own one first."""
        return [
            f"{name} {version} / {other.versions.get(name, 'not installed')}"
            for name, version in self.versions.items()
            if other.versions.get(name) != version
        ]


def environment() -> Environment:
    """The environment of this process."""
    return Environment({**installed(PACKAGES), "converter-lite": __version__}, _vector_units())


def installed(packages: Sequence[str]) -> dict[str, str]:
    """Package -> version, or ``not installed``."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _vector_units() -> frozenset[str]:
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    names = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return frozenset(name for name in names.split() if name.startswith(VECTOR_UNITS))
