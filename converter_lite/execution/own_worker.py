"""Loaded by the workers that a run starts on its own machine (``preload`` of Dask)."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Ignore Ctrl-C: a terminal sends it to all processes of a run, and the one that the user started ends the others."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
