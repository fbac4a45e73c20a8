"""Holding back Ctrl-C, and the signals that are treated like it, at times when it would do harm."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def interruptions_come_too_late() -> Iterator[None]:
    """Drop them: once files are being put into place, the conversion is a success."""
    kept = _handlers()
    for kind in kept:
        signal.signal(kind, signal.SIG_IGN)
    try:
        yield
    finally:
        _restore(kept)


@contextlib.contextmanager
def interruptions_wait() -> Iterator[None]:
    """Handle them at the end: an interrupted import leaves half a module behind, and an extension module may even crash.

    Raises:
        KeyboardInterrupt: Or whatever else the handler of the signal that came does.
    """
    kept = {kind: handler for kind, handler in _handlers().items() if callable(handler)}
    came: list[tuple[int, FrameType | None]] = []
    for kind in kept:
        signal.signal(kind, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        _restore(kept)
    for number, frame in came[:1]:
        kept[signal.Signals(number)](number, frame)


@contextlib.contextmanager
def started_without_ctrl_c() -> Iterator[None]:
    """Start processes that Ctrl-C never reaches, from their first moment on; one that comes meanwhile is handled at the end.

    A terminal sends it to all processes of a run; those that still import what they need would each print a traceback.

    Raises:
        KeyboardInterrupt: At the end.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # with the first process it would let the signal through again (before Python 3.13)
    kept = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes and threads inherit it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, kept)


def _handlers() -> dict[signal.Signals, Any]:
    """Handlers that Python set; none outside the main thread, to which they belong."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    kinds = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    return {kind: handler for kind in kinds if (handler := signal.getsignal(kind)) is not None}


def _restore(kept: dict[signal.Signals, Any]) -> None:
    for kind, handler in kept.items():
        signal.signal(kind, handler)
