"""The page about a batch: all its conversions in one table, with links to their files and pages."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from converter_lite.batch.results import JobResult
from converter_lite.reports.page.content import unit_of

CONVERTED, FAILED = "converted", "failed"


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file of a job; figures that were not measured are ``None``.

    Attributes:
        format: As in ``--saveType``.
        name, link: Its name, and its address from the page.
        bytes: Size.
        share: Size as a multiple of the model's.
        cosine: Of its worst output.
        gate: Least cosine that was asked for.
        speedup: As a multiple of the float model's speed.
    """

    format: str
    name: str
    link: str
    bytes: int
    share: float
    cosine: float | None
    gate: float | None
    speedup: float | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job.

    Attributes:
        name: The job's.
        state: :data:`CONVERTED` or :data:`FAILED`.
        seconds: Wall time.
        error: Why it failed.
        page: Address of its own page, empty without one.
        files: What it wrote, or would have written if the quality gate had let it.
    """

    name: str
    state: str
    seconds: float
    error: str
    page: str
    files: tuple[FileRow, ...]


def render_overview(results: Sequence[JobResult], page: Path, title: str) -> str:
    """The page as text; the same results give the same text.

    Args:
        results: Of a batch, in order.
        page: Where it is going to be: addresses are relative to it.
        title: Its heading.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = resources.files(__package__).joinpath("overview.html").read_text(encoding="utf-8")
    style = resources.files("converter_lite.reports.page").joinpath("page.css").read_text(encoding="utf-8")
    rows = [_row(result, page) for result in results]
    sizes = [file.bytes for row in rows for file in row.files]
    return environment.from_string(template).render(
        title=title,
        rows=rows,
        counts={state: sum(row.state == state for row in rows) for state in (CONVERTED, FAILED)},
        unit=unit_of(max(sizes, default=0)),
        css=Markup(style),
    )


def _row(result: JobResult, page: Path) -> JobRow:
    folder = Path(result.folder)
    state = FAILED if result.status else CONVERTED
    own_page = result.report.get("configuration", {}).get("command line", {}).get("report", "")
    model_bytes = max(int(result.report.get("model_bytes", 0)), 1)
    files = tuple(_file(item, folder, page, model_bytes) for item in result.artefacts)
    link = _address(folder / own_page, page) if own_page else ""
    return JobRow(result.name, state, result.seconds, result.error, link, files)


def _file(artefact: Mapping[str, Any], folder: Path, page: Path, model_bytes: int) -> FileRow:
    speed = artefact.get("speed") or {}
    return FileRow(
        format=artefact["format"],
        name=Path(artefact["path"]).name,
        link=_address(folder / artefact["path"], page),
        bytes=artefact["bytes"],
        share=artefact["bytes"] / model_bytes,
        cosine=min((output["cosine"] for output in artefact["accuracy"]), default=None),
        gate=artefact.get("gate"),
        speedup=speed.get("speedup"),
    )


def _address(path: Path, page: Path) -> str:
    """How a page names a file; without its folder where there is no way from one drive to the other."""
    try:
        relative = os.path.relpath(path, page.absolute().parent)
    except ValueError:
        return path.absolute().as_uri()
    return quote(Path(relative).as_posix())
