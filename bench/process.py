"""Running one command and measuring the whole process.

The measuring process must stay small: on Linux the peak memory of a child starts at what its parent held when it was
started. Therefore nothing in it imports NumPy or a runtime; everything that computes is a child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """What one process took.

    Attributes:
        status: Exit status; negative: the signal that ended it.
        seconds: Wall time from start to end.
        peak_bytes: Largest resident set of the process, or of a process that it waited for.
        output: Standard output and standard error, as they came.
    """

    status: int
    seconds: float
    peak_bytes: int
    output: str


def measure(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 600
) -> ProcessRun:
    """Run ``command`` to its end, or kill it after ``timeout`` seconds.

    Python programs may keep what they compile, as installed ones do.

    Args:
        command: Program and arguments.
        cwd: Working directory.
        env: Variables that are added to the environment.
        timeout: Seconds.
    """
    with tempfile.TemporaryFile() as sink:
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        start = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=cwd, env={**own, **(env or {})}, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        deadline = threading.Timer(timeout, os.kill, (child.pid, signal.SIGKILL))
        deadline.start()
        try:
            _, wait_status, usage = os.wait4(child.pid, 0)
        finally:
            deadline.cancel()
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(wait_status)
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    return ProcessRun(child.returncode, seconds, usage.ru_maxrss * 1024, output)


def failure_reason(run: ProcessRun) -> str:
    """The line of the output that says why the process failed: its error message, else its last line."""
    lines = [line.strip() for line in run.output.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("ERROR") or "Error:" in line]
    told = named or [line for line in lines if not line.startswith("CONVERT RESULT")]
    return told[-1][:160] if told else f"exit status {run.status}"
