import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.workshop import Workshop
from tests.faults.forking import Forker

SMALL_DISK = 64 << 10
"""Bytes; the converted model of :mod:`tests.faults` does not fit."""


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A working directory with a model and data."""
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path)


@pytest.fixture(scope="module")
def forker() -> Iterator[Forker]:
    """Runs commands in forked processes."""
    if os.name != "posix":
        pytest.skip("processes are forked and killed on POSIX systems")
    with Forker() as forker:
        yield forker


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own that is nearly full from the start."""
    folder = tmp_path / "disk"
    folder.mkdir()
    line = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(line, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a small disk; tests/cli/test_process.py limits the size of files instead")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
