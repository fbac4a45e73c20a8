"""How a job ended, and what a batch keeps of it between runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from converter_lite import __version__
from converter_lite.errors import UsageError
from converter_lite.system.files import content_digest, read_regular, write_text


@dataclass(frozen=True, slots=True)
class JobResult:
    """Outcome of a job.

    Attributes:
        name: The job's.
        status: Exit status of its conversion; if negative, the signal that ended its process.
        seconds: Wall time.
        identity: What it depends on (:func:`converter_lite.batch.identity.identity`).
        skipped: Whether it was done already, by an earlier run.
        folder: What the paths in the report are relative to.
        error: What went wrong, with place and remedy; empty after a success.
        report: What ``--json`` of the conversion holds; empty where its process died.
        log: What it printed.
    """

    name: str
    status: int
    seconds: float
    identity: str
    report: Mapping[str, Any]
    error: str = ""
    log: str = ""
    skipped: bool = False
    folder: str = ""

    @property
    def exit_status(self) -> int:
        """The status as a program may return it; a process that was killed counts as a failed conversion."""
        return self.status if self.status >= 0 else 1

    @property
    def artefacts(self) -> list[Mapping[str, Any]]:
        """The files that were written, as in the report."""
        return list(self.report.get("artefacts", ()))

    @property
    def reason(self) -> str:
        """The first line of the error, with the next one where it only announces that: the first of several nodes."""
        first, second = [*self.error.splitlines(), "", ""][:2]
        return f"{first} {second.strip()}" if first.endswith(":") else first

    def line(self) -> str:
        """One line for the user."""
        name = " ".join(self.name.splitlines())  # names of files may hold line breaks
        if self.error:
            return f"FAILED  {name}: {self.reason}"
        size = ", ".join(f"{Path(item['path']).suffix} {item['bytes']:,} bytes" for item in self.artefacts)
        cosines = [output["cosine"] for item in self.artefacts for output in item["accuracy"]]
        accuracy = f", cosine {min(cosines):.4f}" if cosines else ""
        state = "as before" if self.skipped else f"{self.seconds:.1f} s"
        return f"ok      {name}: {size}{accuracy}, {state}"


def is_done(result: JobResult | None, identity: str, folder: Path) -> bool:
    """Whether an earlier success still stands: same inputs and settings, and all its files are there unchanged."""
    if result is None or result.status != 0 or not identity or result.identity != identity or not result.artefacts:
        return False
    try:
        return all(content_digest(*_files(item, folder)) == item["sha256"] for item in result.artefacts)
    except OSError:
        return False


def _files(artefact: Mapping[str, Any], folder: Path) -> list[Path]:
    """All files of an artefact; results of earlier versions name one."""
    path = folder / artefact["path"]
    return [path.with_name(name) for name in artefact.get("files", (path.name,))]


def save_results(path: Path, results: Iterable[JobResult]) -> None:
    """Write the state of a batch, atomically.

    Raises:
        ConverterError: It cannot be written.
    """
    jobs = [{**asdict(result), "folder": _from(path.parent, result.folder)} for result in results]
    counts = {
        "converted": sum(not job["status"] and not job["skipped"] for job in jobs),
        "skipped": sum(job["skipped"] for job in jobs),
        "failed": sum(job["status"] != 0 for job in jobs),
    }
    write_text(path, json.dumps({"version": __version__, **counts, "jobs": jobs}, indent=1) + "\n")


def load_results(path: Path) -> dict[str, JobResult]:
    """Results of an earlier run by job name; empty where there is no file.

    Raises:
        UsageError: The file is something else.
    """
    if not path.exists():
        return {}
    try:
        jobs = json.loads(read_regular(path))["jobs"]
        return {job["name"]: _loaded(job, path.parent) for job in jobs}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            "this is not a batch result", where=str(path), hint="name another file with --json, or remove it"
        ) from error


def _from(folder: Path, other: str) -> str:
    """A folder as seen from another one; as it is, where no path leads there."""
    try:
        return Path(os.path.relpath(other or ".", folder)).as_posix()
    except ValueError:
        return other


def _loaded(job: Mapping[str, Any], folder: Path) -> JobResult:
    return JobResult(**{**job, "skipped": False, "folder": os.path.normpath(folder / job.get("folder", "."))})
