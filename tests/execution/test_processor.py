"""Kinds of processors."""

from __future__ import annotations

import pytest

from converter_lite.execution.processor import processor_kind


@pytest.mark.parametrize(
    ("flags", "machine", "kind"),
    [
        ("avx2 avx512f avx512_vnni", "x86_64", "VNNI"),
        ("avx2 avx_vnni", "x86_64", "VNNI"),
        ("sse2 avx2", "x86_64", "AVX2 only (no VNNI)"),
        ("avx2 avx512f", "x86_64", "AVX512 only (no VNNI)"),
        ("asimddp i8mm", "aarch64", "ARM"),
        ("", "riscv64", "riscv64"),
    ],
)
def test_a_processor_is_named_by_its_integer_kernels(flags: str, machine: str, kind: str) -> None:
    assert processor_kind(flags, machine) == kind
