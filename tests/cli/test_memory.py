import os
import platform
import subprocess
import sys

import pytest

from converter_lite.cli.memory import multiply_in_one_thread

THREADS = "OPENBLAS_NUM_THREADS"

PROGRAM = """
import ctypes, threading
from converter_lite.cli.memory import use_one_heap
assert use_one_heap()
blocks = {}
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def allocate(name):
    blocks[name] = libc.malloc(1000)
allocate("main")
thread = threading.Thread(target=allocate, args=("worker",))
thread.start()
thread.join()
print(abs(blocks["main"] - blocks["worker"]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has heaps per thread")
def test_threads_allocate_from_the_same_heap() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1 << 26  # a heap of its own starts at another multiple of 64 MiB, far away


REUSING = """
import ctypes, resource
from converter_lite.cli.memory import keep_freed_memory
assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = libc.malloc(16 << 20)
    ctypes.memset(block, 1, 16 << 20)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
first = faults()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have settings of their own")
def test_memory_that_was_freed_is_used_again_without_page_faults() -> None:
    done = subprocess.run([sys.executable, "-c", REUSING], capture_output=True, text=True, check=True)
    first, again = map(int, done.stdout.split())
    assert first > 4000 > 400 > again


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("3", "3")])
def test_matrices_are_multiplied_in_one_thread_unless_the_user_says_otherwise(
    given: str | None, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(THREADS, given or "")
    if given is None:
        monkeypatch.delenv(THREADS)
    multiply_in_one_thread()
    assert os.environ[THREADS] == used
