"""What CI says about the machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CPUINFO = Path("/proc/cpuinfo")


@pytest.mark.skipif(not CPUINFO.is_file(), reason="the processor is described elsewhere")
def test_the_kind_of_processor_is_one_line() -> None:
    line = subprocess.run([ROOT / ".ci/processor"], capture_output=True, text=True, check=True).stdout
    has_vnni = any(flag in CPUINFO.read_text().split() for flag in ("avx512_vnni", "avx_vnni"))
    assert line.startswith("processor: ")
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert ("with VNNI" in line) is has_vnni
