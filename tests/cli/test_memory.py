import platform
import subprocess
import sys

import pytest

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
