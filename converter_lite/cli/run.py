"""Running a command: exit status, the closing line, errors without tracebacks."""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import click

from converter_lite.errors import EXIT_DEFECT, EXIT_INTERRUPTED, EXIT_USAGE, ConverterError, refused_by_system

SUCCESS_LINE = "CONVERT RESULT SUCCESS:0"
"""Last line of the original after a conversion; scripts look for it."""

FAILURE_LINE = "CONVERT RESULT FAILED:{status}"


def run_conversion(work: Callable[[], None], *, json_file: Path | None, details: bool) -> int:
    """Run ``work``; print the closing line on stdout and the reason of a failure on stderr; return the exit status."""
    try:
        work()
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
        click.echo("interrupted; nothing was written", err=True)
    except BrokenPipeError:
        raise
    except ConverterError as error:
        status = error.exit_status
        click.echo(f"ERROR {error}", err=True)
        _write_failure(json_file, status, error)
    except MemoryError as error:
        status = 1
        click.echo("ERROR out of memory", err=True)
        _write_failure(json_file, status, error)
    except OSError as error:
        status = 1
        click.echo(f"ERROR {refused_by_system(error)}", err=True)
        _write_failure(json_file, status, refused_by_system(error))
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback reaches a user
        status = EXIT_DEFECT
        click.echo(
            f"ERROR this is a defect of converter_lite: {type(error).__name__}: {error}{_place(error)}", err=True
        )
        if details:
            click.echo("".join(traceback.format_exception(error)), err=True)
        _write_failure(json_file, status, error)
    else:
        click.echo(SUCCESS_LINE)
        return 0
    with contextlib.suppress(OSError):  # where standard output itself is what failed
        click.echo(FAILURE_LINE.format(status=status))
    return status


def usage_failure(error: Exception) -> int:
    """Report a wrong command line; return the exit status."""
    message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    click.echo(f"ERROR {message}", err=True)
    click.echo("  converter_lite --help lists the flags", err=True)
    click.echo(FAILURE_LINE.format(status=EXIT_USAGE))
    return EXIT_USAGE


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _write_failure(path: Path | None, status: int, error: BaseException) -> None:
    if path is None:
        return
    from converter_lite.output import write_text
    from converter_lite.reports.result_json import failure_to_json

    try:
        write_text(path, json.dumps(failure_to_json(status, error), indent=1) + "\n")
    except ConverterError as problem:
        click.echo(f"ERROR {problem}", err=True)


def exit_with(status: int) -> None:
    """End the process."""
    sys.exit(status)
