"""Running a command: exit status, the closing line, errors without tracebacks."""

from __future__ import annotations

import json
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click

from converter_lite.errors import (
    EXIT_DEFECT,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    ConverterError,
    UsageError,
    missing_package,
    refused_by_system,
)
from converter_lite.system.interruptions import interruptions_come_too_late

SUCCESS_LINE = "CONVERT RESULT SUCCESS:0"
"""Last line of the original after a conversion; scripts look for it."""

FAILURE_LINE = "CONVERT RESULT FAILED:{status}"


def run_conversion(work: Callable[[], None], *, json_file: Path | None, details: bool) -> int:
    """:func:`run_work`, with the closing line on stdout."""
    status = run_work(work, json_file=json_file, details=details)
    if not status:
        click.echo(SUCCESS_LINE)
        return status
    with suppress(OSError):  # the reason is told already
        click.echo(FAILURE_LINE.format(status=status))
    return status


def run_work(work: Callable[[], None], *, json_file: Path | None, details: bool) -> int:
    """Run ``work``; print the reason of a failure on stderr, and write it to ``json_file``; return the exit status."""
    try:
        _work_interruptibly(work)
    except KeyboardInterrupt:
        status = interruption(json_file=json_file)
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
        missing = missing_package(error) if isinstance(error, ModuleNotFoundError) else None
        if missing is None:
            status = report_defect(error)
        else:
            status = missing.exit_status
            click.echo(f"ERROR {missing}", err=True)
        if details:
            click.echo("".join(traceback.format_exception(error)), err=True)
        _write_failure(json_file, status, missing or error)
    else:
        return 0
    return status


def interruption(*, json_file: Path | None) -> int:
    """Report an interruption; return the exit status."""
    click.echo("interrupted; no result was written", err=True)
    _write_failure(json_file, EXIT_INTERRUPTED, ConverterError("interrupted"))
    return EXIT_INTERRUPTED


def results_are_in_place() -> None:
    """Drop interruptions until the command ends: they would deny what it has done."""
    click.get_current_context().with_resource(interruptions_come_too_late())


def _work_interruptibly(work: Callable[[], None]) -> None:
    """Run ``work``; a Ctrl-C that compiled code or an import turned into an error of its own is raised as Ctrl-C again.

    Raises:
        KeyboardInterrupt: For Ctrl-C, however it was disguised.
        Exception: Whatever else ``work`` raises.
    """
    try:
        work()
    except Exception as error:
        found: BaseException | None = error
        while found is not None:
            if isinstance(found, KeyboardInterrupt) or "KeyboardInterrupt" in str(found):
                raise KeyboardInterrupt from error
            found = found.__cause__ or found.__context__
        raise


def usage_failure(error: click.ClickException | UsageError, *, json_file: Path | None, command: str) -> int:
    """Report a wrong command line of ``command`` (empty: a conversion); return the exit status."""
    problem = UsageError(error.format_message()) if isinstance(error, click.ClickException) else error
    click.echo(f"ERROR {problem}", err=True)
    click.echo(f"  converter_lite {command}{' ' if command else ''}--help lists the flags", err=True)
    _write_failure(json_file, EXIT_USAGE, problem)
    return EXIT_USAGE


def report_defect(error: Exception) -> int:
    """Report a defect of ours and its place in the code; return the exit status."""
    click.echo(f"ERROR this is a defect of converter_lite: {type(error).__name__}: {error}{_place(error)}", err=True)
    return EXIT_DEFECT


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _write_failure(path: Path | None, status: int, error: BaseException) -> None:
    if path is None:
        return
    from converter_lite.cli.failure_json import failure_to_json, may_replace
    from converter_lite.system.files import write_text

    if not may_replace(path):
        if str(path) not in str(error):
            click.echo(f"ERROR {path}: this is no result of an earlier run, and stays as it is", err=True)
        return
    try:
        write_text(path, json.dumps(failure_to_json(status, error), indent=1) + "\n")
    except ConverterError as problem:
        if str(problem) == str(error):  # this very file was the failure
            return
        click.echo(f"ERROR {problem}", err=True)


def clean_up_when_terminated() -> None:
    """Treat the end of a session, and the termination signal of a CI time limit, like Ctrl-C: nothing stays behind."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup and its like ignore a signal on purpose
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
