"""Which integer kernels this machine's processor has, and what that means for a quantized model."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from types import MappingProxyType

from converter_lite.execution.environment import CPU_INFO

WITHOUT_VNNI = "AVX2 only (no VNNI)"
_SATURATES = (
    "pairs of int8 products can saturate: ONNX files made with portable=true (the default) give exact numbers, "
    "those of other tools may not"
)
_EXACT = "int8 products are added in 32 bits, which is exact and fast"

MEANINGS: Mapping[str, str] = MappingProxyType(
    {"VNNI": _EXACT, "AVX512 only (no VNNI)": _SATURATES, WITHOUT_VNNI: _SATURATES, "ARM": _EXACT}
)
"""Kind of processor -> what its kernels for int8 do."""


def processor_kind(flags: str | None = None, machine: str | None = None) -> str:
    """In which of the ways that integer kernels know this processor computes.

    Args:
        flags: Its flags; by default those of this machine.
        machine: What :func:`platform.machine` says, which is the default.
    """
    known = set((cpu_field("flags", "Features") if flags is None else flags).split())
    machine = machine or platform.machine()
    if machine.lower() in ("aarch64", "arm64"):
        return "ARM"
    if known & {"avx512_vnni", "avx_vnni"}:
        return "VNNI"
    if "avx512f" in known:
        return "AVX512 only (no VNNI)"
    return WITHOUT_VNNI if "avx2" in known else machine


def cpu_field(*names: str) -> str:
    """The first field of one of these names in the system's description of the processor; empty without one."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in fields if key.strip() in names), "")
