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

SAMPLED_EVERY = 0.02
"""Seconds between two looks at the memory of a process."""

BLOCK = 512
"""Bytes that the system counts reads and writes in."""


@dataclass(frozen=True, slots=True)
class ProcessRun:
    """What one process took.

    Attributes:
        status: Exit status; negative: the signal that ended it.
        seconds: Wall time from start to end.
        peak_bytes: Largest resident set of the process, or of a process that it waited for.
        output: Standard output and standard error, as they came.
        own_bytes: Largest memory of its own, which leaves out pages of mapped files: these are the system's to take
            back. Sampled, so short peaks are missed; 0 where it was not asked for.
        processor_seconds: Of the process in user and system mode.
        read_bytes, written_bytes: From and to the disk, what the page cache held left out.
    """

    status: int
    seconds: float
    peak_bytes: int
    output: str
    own_bytes: int = 0
    processor_seconds: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0


def measure(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    own_memory: bool = False,
) -> ProcessRun:
    """Run ``command`` to its end, or kill it after ``timeout`` seconds.

    Python programs may keep what they compile, as installed ones do.

    Args:
        command: Program and arguments.
        cwd: Working directory.
        env: Variables that are added to the environment.
        timeout: Seconds.
        own_memory: Look at the process every ``SAMPLED_EVERY`` seconds.
    """
    with tempfile.TemporaryFile() as sink:
        own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        start = time.perf_counter()
        child = subprocess.Popen(
            command, cwd=cwd, env={**own, **(env or {})}, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
        deadline = threading.Timer(timeout, os.kill, (child.pid, signal.SIGKILL))
        deadline.start()
        sampler = _OwnMemory(child.pid)
        if own_memory:
            sampler.start()
        try:
            _, wait_status, usage = os.wait4(child.pid, 0)
        finally:
            deadline.cancel()
            sampler.ended.set()
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(wait_status)
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    return ProcessRun(
        child.returncode,
        seconds,
        usage.ru_maxrss * 1024,
        output,
        sampler.peak,
        usage.ru_utime + usage.ru_stime,
        usage.ru_inblock * BLOCK,
        usage.ru_oublock * BLOCK,
    )


class _OwnMemory(threading.Thread):
    """Samples what a process holds beside pages of files."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.ended = threading.Event()
        self._status = Path(f"/proc/{pid}/status")

    def run(self) -> None:
        while not self.ended.wait(SAMPLED_EVERY):
            try:
                lines = self._status.read_text().splitlines()
            except OSError:  # it has just ended
                return
            sizes = (int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem")))
            self.peak = max(self.peak, 1024 * sum(sizes))


def failure_reason(run: ProcessRun) -> str:
    """The line of the output that says why the process failed: its error message, else its last line."""
    lines = [line.strip() for line in run.output.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("ERROR") or "Error:" in line]
    told = named or [line for line in lines if not line.startswith("CONVERT RESULT")]
    return told[-1][:160] if told else f"exit status {run.status}"
