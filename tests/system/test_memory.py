"""The memory of a conversion is its own: pages of mapped files are told apart."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from converter_lite.system.memory import MemoryWatch, peak_resident

SIZE = 64 << 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells mapped files apart")
def test_mapped_files_are_not_own_memory(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(SIZE))
    with MemoryWatch() as memory:
        before = memory.peak()
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            assert not np.frombuffer(pages, np.uint8).any()
            assert memory.peak() - before < SIZE / 4
        held = np.ones(SIZE, np.uint8)
        assert memory.peak() - before > SIZE * 3 / 4
        del held
        assert memory.peak() - before > SIZE * 3 / 4, "it is the peak"


def test_the_peak_with_files_is_at_least_the_own_one() -> None:
    with MemoryWatch() as memory:
        assert 0 < memory.peak() <= peak_resident()
