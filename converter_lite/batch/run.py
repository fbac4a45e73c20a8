"""Running jobs: each in a process of its own, so that one that dies takes no other with it and gives its memory back."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from converter_lite.batch import GRACE_SECONDS
from converter_lite.batch.identity import identity
from converter_lite.batch.jobs import SWITCHES, Job
from converter_lite.batch.results import JobResult, is_done
from converter_lite.errors import EXIT_FAILED, ConverterError, DataError
from converter_lite.execution.executor import Executor
from converter_lite.system.work_directory import temporary_folder

SAME_FILES = "every machine of a cluster needs the same files at the same paths (a shared file system)"


@dataclass(frozen=True, slots=True)
class JobTask:
    """A job, and what is known about it.

    Attributes:
        job: The conversion.
        earlier: Its result in an earlier run, where that may be kept.
    """

    job: Job
    earlier: JobResult | None


class JobRunner:
    """Runs jobs. It satisfies :class:`converter_lite.execution.executor.Work`.

    Args:
        threads: Worker threads of a job that does not say; results do not depend on them.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_running": set()}

    def __call__(self, task: JobTask) -> JobResult:
        """Convert, unless an earlier run did and nothing has changed.

        Raises:
            ConverterError: The folder of the job is not there, or the batch was stopped.
        """
        job, start = task.job, time.perf_counter()
        if self._stopped:
            raise ConverterError("the batch was interrupted")
        if not job.folder.is_dir():
            raise DataError(f"machine {platform.node()} has no such folder", where=str(job.folder), hint=SAME_FILES)
        found = identity(job)
        if task.earlier is not None and is_done(task.earlier, found, job.folder):
            kept = task.earlier
            return replace(kept, status=0, seconds=0.0, identity=found, error="", skipped=True, folder=str(job.folder))
        with temporary_folder() as folder:
            report = folder / "result.json"
            status, out, err = self._run(_command(job, report, self._threads), job.folder)
            content = _content(report)
        error = "" if status == 0 else _reason(status, err)
        seconds = time.perf_counter() - start
        return JobResult(job.name, status, seconds, found, content, error=error, log=out + err, folder=str(job.folder))

    def stop(self) -> None:
        """End the jobs that run, and start no other."""
        self._stopped = True
        for process in list(self._running):
            process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        for process in list(self._running):
            try:
                process.wait(max(deadline - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                process.kill()

    def _run(self, command: list[str], folder: Path) -> tuple[int, str, str]:
        reader, writer = os.pipe()
        with os.fdopen(writer, "wb"):  # its end shows the job that this process has ended
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
            self._running.add(process)
            try:
                out, err = process.communicate()
            finally:
                self._running.discard(process)
        return process.returncode, out, err


def run_jobs(
    jobs: Sequence[Job], earlier: Mapping[str, JobResult], executor: Executor
) -> Generator[JobResult, None, None]:
    """Results of all jobs, in the order in which they end; closing the iterator ends the jobs that run.

    Raises:
        ClusterError: The machines that should run them are lost.
    """
    placed = [replace(job, folder=job.folder.absolute()) for job in jobs]
    tasks = [JobTask(job, earlier.get(job.name)) for job in placed]
    with closing(executor.run(JobRunner(executor.threads), tasks)) as outcomes:
        for number, outcome in outcomes:
            job = placed[number]
            if isinstance(outcome, ConverterError):
                yield JobResult(job.name, outcome.exit_status, 0.0, "", {}, error=str(outcome), folder=str(job.folder))
            else:
                yield _confirmed(job, outcome) if executor.is_remote else outcome


def _confirmed(job: Job, result: JobResult) -> JobResult:
    """The result, if this machine sees what the one saw that ran the job, and the files that it wrote."""
    if result.identity != identity(job):
        problem = "the machine that ran it read files that differ from those here"
    elif result.status == 0 and not is_done(result, result.identity, job.folder):
        problem = "the machine that ran it wrote files that this one does not see"
    else:
        return result
    text = f"{job.folder}: {problem}\n  {SAME_FILES}"
    return replace(result, status=EXIT_FAILED, error=f"{text}\n{result.error}".rstrip(), skipped=False)


def _command(job: Job, report: Path, threads: int) -> list[str]:
    flags = dict(job.flags)
    if threads and "threads" not in flags:
        flags["threads"] = str(threads)
    switches = [f"--{name}" for name in SWITCHES if flags.pop(name, "false") == "true"]
    values = [f"--{name}={value}" for name, value in flags.items()]
    return [sys.executable, "-m", "converter_lite.cli.batch_job", *values, *switches, f"--json={report}"]


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
