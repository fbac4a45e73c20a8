"""Measuring a process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.process import ProcessRun, failure_reason, measure


def test_status_and_both_streams_are_kept(tmp_path: Path) -> None:
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
    run = measure([sys.executable, "-c", code], cwd=tmp_path)
    assert (run.status, run.output.split()) == (3, ["out", "err"])


def test_the_memory_of_the_process_is_seen(tmp_path: Path) -> None:
    size = 300 * 2**20
    run = measure([sys.executable, "-c", f"x = b'1' * {size}"], cwd=tmp_path)
    assert run.peak_bytes >= size


def test_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    run = measure([sys.executable, "-c", "import time; time.sleep(60)"], cwd=tmp_path, timeout=0.2)
    assert run.status == -9


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Traceback\nValueError: bad shape\nwarning\n", "ValueError: bad shape"),
        ("ERROR a.cfg:3 no such key\n  set it\nCONVERT RESULT FAILED:2\n", "ERROR a.cfg:3 no such key"),
        ("stopped\nCONVERT RESULT FAILED:1\n", "stopped"),
        ("", "exit status 9"),
    ],
)
def test_the_reason_of_a_failure_is_its_error_line(output: str, reason: str) -> None:
    assert failure_reason(ProcessRun(9, 0.0, 0, output)) == reason
