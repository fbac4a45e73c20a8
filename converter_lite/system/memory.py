"""How much memory a conversion takes: its own, and with the files that the system has mapped for it."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

SAMPLED_EVERY = 0.02
"""Seconds; a process takes a few tens of MiB in this time at most."""

_STATM = Path("/proc/self/statm")

RARE = (100_000, 10, 20)
"""Thresholds of the garbage collector for long graphs, whose nodes it otherwise looks through so often that a fifth of the
time is its own (10,000 nodes: 6.1 of 33.5 s with a fifth of these thresholds, 3 s with these, for 80 MiB more of 1.2 GiB)."""


class MemoryWatch:
    """Watches what this process holds beside pages of files, while the context is open: the kernel keeps no peak of it."""

    def __init__(self) -> None:
        self._own = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory watch", daemon=True)

    def __enter__(self) -> MemoryWatch:
        if _STATM.exists():
            self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def peak(self) -> int:
        """Bytes so far; with mapped files, where the system does not tell them apart."""
        self._own = max(self._own, own_memory())
        return self._own or peak_resident()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLED_EVERY):
            self._own = max(self._own, own_memory())


@contextmanager
def rare_collections(*, wanted: bool) -> Iterator[None]:
    """Have the garbage collector run less often, if that is wanted."""
    usual = gc.get_threshold()
    try:
        if wanted and usual[0]:  # 0: somebody switched it off
            gc.set_threshold(*(max(pair) for pair in zip(usual, RARE, strict=True)))
        yield
    finally:
        gc.set_threshold(*usual)


def return_freed_memory(above: int = 0) -> bool:
    """Give the system back what was freed between blocks that are in use; returns whether anything was.

    glibc keeps it: where large tensors come and go among small ones, a heap grows to more than what is in use. Memory that is
    given back costs page faults when it is used again.

    Args:
        above: Bytes; nothing is done while the process holds no more.
    """
    if not sys.platform.startswith("linux") or own_memory() <= above:
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and trim(0) == 1


def peak_resident() -> int:
    """Bytes since the process began, with the pages of files that the system takes back when it needs them; 0: not known."""
    try:
        import resource
    except ImportError:
        return 0
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(size if sys.platform == "darwin" else size * 1024)


def own_memory() -> int:
    """Bytes that this process holds now, beside pages of files; 0: not known."""
    try:
        _, resident, shared, *_ = (int(pages) for pages in _STATM.read_text(encoding="ascii").split())
    except OSError:
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
