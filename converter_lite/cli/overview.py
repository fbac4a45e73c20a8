"""``converter_lite overview``: a page about a batch that was run before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from converter_lite.cli.arguments import option
from converter_lite.cli.exit_status import run_work
from converter_lite.errors import MISFITS, UsageError
from converter_lite.system.files import refuse_overwrite, write_text


@click.command("overview", short_help="Make a page about all models of a batch.")
@click.argument("result", metavar="RESULT")
@option("report", "Where the page goes.", "batch.html", metavar="FILE")
def overview_command(**options: Any) -> int:
    """Make a page about all models of a batch: status, size, accuracy and speed, with links to files and pages.

    RESULT is what --json of the batch named.
    """
    result, page = Path(options["result"]), Path(options["report"])
    return run_work(lambda: _write(result, page), json_file=None, details=False)


def _write(result: Path, page: Path) -> None:
    from converter_lite.batch.overview import render_overview
    from converter_lite.batch.results import load_results
    from converter_lite.log import counted
    from converter_lite.reports.page.packages import require_packages

    require_packages(f"--report={page}")
    refuse_overwrite(page, [result])
    if not result.is_file():
        raise UsageError(
            "there is no such file",
            where=str(result),
            hint="give the result of a batch, batch_result.json",
        )
    results = list(load_results(result).values())
    try:
        text = render_overview(results, page, result.name)
    except MISFITS as error:
        raise UsageError("this is not a batch result", where=str(result), hint="name another file") from error
    write_text(page, text)
    click.echo(f"{page}: {counted(len(results), 'model')}")
