"""How the process uses memory and processors. Only commands call this: a library should leave its program's allocator alone."""

from __future__ import annotations

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""Parameters of ``mallopt`` (malloc.h of glibc)."""

_LARGEST_KEPT = 32 << 20
"""Bytes of a block from which it is always returned to the system; glibc takes no larger limit."""


def use_one_heap() -> bool:
    """Make all threads allocate from one heap; call it before threads start.

    glibc gives each thread a heap of its own, and the others cannot use what one frees: the longer calibration runs, the more
    lies unused (mobilenet: 260 MiB at 50 samples and 294 MiB at 400; with one heap 226 and 231 MiB, in the same time).

    Returns:
        Whether the C library accepted it; others than glibc have one heap anyway, or no such setting.
    """
    return _set(_M_ARENA_MAX, 1)


def keep_freed_memory() -> bool:
    """Allocate again what was freed, instead of returning it to the system, for a process that ends soon.

    Fresh memory costs a page fault every 4 KiB, a tenth of the time of a short conversion.

    Returns:
        Whether the C library accepted it.
    """
    return _set(_M_MMAP_THRESHOLD, _LARGEST_KEPT) and _set(_M_TRIM_THRESHOLD, 8 * _LARGEST_KEPT)


def multiply_in_one_thread() -> None:
    """Have matrices multiplied by the thread that asks; call it before NumPy is loaded.

    Samples are processed in threads of ours. Threads of the library wait for their turn by running in a circle, beside ours: on
    two processors, fitting 4-bit weights took half as much processor time again. The user's own choice is kept.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _set(parameter: int, value: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(parameter, value) == 1
