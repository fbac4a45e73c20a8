"""Running jobs: each in a process of its own, so that one that dies takes no other with it and gives its memory back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol

from converter_lite.batch import GRACE_SECONDS
from converter_lite.batch.identity import identity
from converter_lite.batch.jobs import Job
from converter_lite.batch.results import JobResult, is_done

SWITCHES = ("allowExternalPaths", "dryRun", "verbose")
"""Flags without a value."""


class Executor(Protocol):
    """Where jobs run."""

    def run(self, tasks: Sequence[tuple[Job, JobResult | None]]) -> Iterator[JobResult]:
        """Results of all jobs, in the order in which they end; see :func:`run_job` for the tasks."""


class LocalExecutor:
    """Runs jobs on this machine.

    Args:
        workers: Jobs at the same time.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._threads = max((os.cpu_count() or 1) // workers, 1)
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, tasks: Sequence[tuple[Job, JobResult | None]]) -> Iterator[JobResult]:
        """See :class:`Executor`; an interruption ends the jobs that run."""
        with ThreadPoolExecutor(max_workers=self._workers) as pool:
            futures: list[Future[JobResult]] = [
                pool.submit(run_job, job, earlier, threads=self._threads, watch=self._running) for job, earlier in tasks
            ]
            try:
                for future in as_completed(futures):
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()
                self._stop()

    def _stop(self) -> None:
        for process in list(self._running):
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in list(self._running):
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()


def run_job(
    job: Job,
    earlier: JobResult | None,
    *,
    threads: int = 0,
    watch: set[subprocess.Popen[str]] | None = None,
) -> JobResult:
    """Convert, unless an earlier run did and nothing has changed.

    Args:
        job: The conversion.
        earlier: Its result in an earlier run, where that may be kept.
        threads: Worker threads of a job that does not say; results do not depend on them.
        watch: Holds the process while it runs.
    """
    start = time.perf_counter()
    found = identity(job)
    if earlier is not None and is_done(earlier, found, job.folder):
        return JobResult(job.name, 0, 0.0, found, earlier.report, log=earlier.log, skipped=True)
    with tempfile.TemporaryDirectory(prefix="converter_lite_") as folder:
        report = Path(folder) / "result.json"
        status, out, err = _run(_command(job, report, threads), job.folder, watch if watch is not None else set())
        content = _content(report)
    error = "" if status == 0 else _reason(status, err)
    return JobResult(job.name, status, time.perf_counter() - start, found, content, error=error, log=out + err)


def _command(job: Job, report: Path, threads: int) -> list[str]:
    flags = dict(job.flags)
    if threads and "threads" not in flags:
        flags["threads"] = str(threads)
    switches = [f"--{name}" for name in SWITCHES if flags.pop(name, "false") == "true"]
    values = [f"--{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-m", "converter_lite.cli.batch_job", *values, *switches, f"--json={report}"]


def _run(command: list[str], folder: Path, watch: set[subprocess.Popen[str]]) -> tuple[int, str, str]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb"):  # its end tells the job that this process is gone
        with os.fdopen(reader, "rb") as stdin:
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C reaches the batch alone, which then ends its jobs once
            )
        watch.add(process)
        try:
            out, err = process.communicate()
        finally:
            watch.discard(process)
    return process.returncode, out, err


def _content(report: Path) -> dict[str, Any]:
    try:
        found = json.loads(report.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _reason(status: int, err: str) -> str:
    if status < 0:
        name = signal.Signals(-status).name
        hint = "; the system kills processes when memory runs out" if -status == signal.SIGKILL else ""
        return f"the process was ended by {name}{hint}"
    text = err.strip()
    return text[text.find("ERROR ") :].removeprefix("ERROR ") if "ERROR " in text else text or f"status {status}"
