"""The memory of a conversion is its own: pages of mapped files are told apart."""

from __future__ import annotations

import gc
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from converter_lite.system.memory import MemoryWatch, peak_resident, rare_collections

SIZE = 64 << 20

CHILD = f"""
import mmap, sys
import numpy as np
from converter_lite.system.memory import MemoryWatch

with MemoryWatch() as memory:
    found = [memory.peak()]
    with open(sys.argv[1], "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        assert not np.frombuffer(pages, np.uint8).any()
        found.append(memory.peak())
    held = np.ones({SIZE}, np.uint8)
    found.append(memory.peak())
    del held
    found.append(memory.peak())
print(*(peak - found[0] for peak in found))
"""
"""In a process of its own, whose other memory stays as it is."""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells mapped files apart")
def test_mapped_files_are_not_own_memory(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(SIZE))
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True)
    _, mapped, held, released = map(int, done.stdout.split())
    assert mapped < SIZE / 4
    assert held > SIZE * 3 / 4
    assert released == pytest.approx(held, abs=SIZE / 4), "it is the peak"


FREEING = """
import ctypes
from converter_lite.system.memory import own_memory, return_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
large, small = [], []
for _ in range(1000):
    large.append(libc.malloc(100_000))
    small.append(libc.malloc(100))
    ctypes.memset(large[-1], 1, 100_000)
for block in large:
    libc.free(block)
held = own_memory()
assert not return_freed_memory(above=held + (64 << 20)), "it holds less"
assert return_freed_memory(above=held // 2)
print(held - own_memory())
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other allocators return memory themselves, or cannot be asked to"
)
def test_memory_between_blocks_that_are_in_use_is_returned() -> None:
    done = subprocess.run([sys.executable, "-c", FREEING], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 80_000_000


def test_the_peak_with_files_is_at_least_the_own_one() -> None:
    with MemoryWatch() as memory:
        assert 0 < memory.peak() <= peak_resident()


@pytest.mark.parametrize("wanted", [True, False])
def test_the_collector_runs_as_often_as_before_in_the_end(wanted: bool) -> None:
    usual = gc.get_threshold()
    with rare_collections(wanted=wanted):
        assert (gc.get_threshold() == usual) is not wanted
    assert gc.get_threshold() == usual
