"""Hidden directories for files under construction: locked while their process lives; the next process removes abandoned ones."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

WORK_PREFIX = ".converter_lite_"
"""Start of their names."""


def make_work_directory(parent: Path) -> tuple[Path, int | None]:
    """A new, locked work directory, and what holds the lock; the system releases it however the process ends.

    Directories that killed processes left in the same place are removed. Another process may mistake this one for abandoned
    before it is locked; then a new one is made.

    Raises:
        OSError: The directory cannot be made.
    """
    while True:
        work = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=parent))
        if fcntl is None:
            return work, None
        with contextlib.suppress(FileNotFoundError, BlockingIOError):
            lock = _locked(work)
            if work.exists():
                _remove_abandoned(parent)
                return work, lock
            if lock is not None:
                os.close(lock)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A work directory among the system's temporary files.

    Raises:
        OSError: It cannot be made.
    """
    folder, lock = make_work_directory(Path(tempfile.gettempdir()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _locked(directory: Path) -> int | None:
    """Descriptor that holds the lock of a directory; ``None`` on file systems without locks.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: The directory cannot be opened.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return descriptor


def _remove_abandoned(parent: Path) -> None:
    """Remove work directories whose process is gone; what cannot be removed stays."""
    if fcntl is None:
        return
    for left in parent.glob(f"{WORK_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = _locked(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
