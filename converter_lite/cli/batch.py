"""``converter_lite batch``: many models in one go."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.arguments import executor_option, option, whole_number
from converter_lite.errors import EXIT_INTERRUPTED, ClusterError, ConverterError, UsageError, did_you_mean
from converter_lite.system.files import refuse_overwrites, write_text

if TYPE_CHECKING:
    from converter_lite.batch.jobs import Job
    from converter_lite.batch.results import JobResult
    from converter_lite.execution.executor import Executor

BATCH_DECIDES = ("json", "quiet", "version", "executor")
"""Flags that a job of a batch does not have."""

OTHER_LISTS = (".cfg", ".ini", ".yaml", ".yml")
"""Suffixes of files in which a user of other tools may list jobs."""


@click.command("batch", short_help="Convert many models, each in a process of its own.")
@click.argument("sources", nargs=-1)
@option("configFile", "Configuration of jobs that name none.", metavar="PATH")
@option("outputDir", "Folder of the results, where models are named instead of a job file.", metavar="DIR")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="FLAG=VALUE",
    help="A flag of every job that does not set it; repeatable.",
)
@click.option(
    "-j", "workers", default="1", metavar="N", help="Jobs at the same time; 0 = one for each core.  [default: 1]"
)
@executor_option
@click.option("--resume", is_flag=True, help="Skip what an earlier run did and what has not changed since.")
@option("json", "Results, kept after every job.", "batch_result.json", metavar="FILE")
@option("junit", "Results as JUnit XML.", metavar="FILE")
@click.pass_context
def batch_command(context: click.Context, /, sources: tuple[str, ...], **options: Any) -> int:
    """Convert the jobs of a TOML file, or each of some model files (patterns in quotes work too)."""
    from converter_lite.execution.opening import open_executor

    assert context.parent is not None
    known = [parameter.opts[-1].removeprefix("--") for parameter in context.parent.command.params]
    is_counted = context.get_parameter_source("workers") is click.core.ParameterSource.COMMANDLINE
    try:
        jobs = collect_jobs(
            sources,
            [name for name in known if name not in BATCH_DECIDES],
            options["settings"],
            config=options["config_file"],
            output_dir=options["output_dir"],
        )
        results = (Path(options["json"]), Path(options["junit"]) if options["junit"] else None)
        _refuse_overwrites(jobs, [Path(source) for source in sources if source.endswith(".toml")], results)
        with open_executor(options["executor"], workers=workers(options["workers"])) as executor:
            if executor.is_remote and is_counted:
                raise UsageError(
                    "the cluster decides how many jobs run at the same time", where="-j", hint="leave it out"
                )
            return run_batch(
                jobs,
                executor,
                result_file=results[0],
                junit=results[1],
                resume=options["resume"],
                suite=" ".join(sources),
            )
    except KeyboardInterrupt:  # while a cluster is sought or started; jobs are interrupted in run_batch
        click.echo("interrupted; no job was started", err=True)
        return EXIT_INTERRUPTED
    except ConverterError as error:
        click.echo(f"ERROR {error}", err=True)
        return error.exit_status


def _refuse_overwrites(jobs: Sequence[Job], sources: Sequence[Path], results: Sequence[Path | None]) -> None:
    """Refuse a result of the batch that would replace what a job reads, or stand where a job puts its files.

    Raises:
        UsageError: It would, or both results are one file.
    """
    from converter_lite.batch.identity import files_read

    read = set(sources)
    for job in jobs:
        with suppress(OSError, ConverterError):  # a job that cannot be read fails by itself, with a reason
            read.update(files_read(job))
    refuse_overwrites(results, read)
    folders = {
        folder.absolute() for job in jobs if (path := job.path("outputFile")) is not None for folder in path.parents
    }
    for result in results:
        if result is not None and result.absolute() in folders:
            raise UsageError(
                "a job puts its files into a folder of this name", where=str(result), hint="name another file"
            )


def collect_jobs(
    sources: Sequence[str], known: Collection[str], settings: Sequence[str], *, config: str, output_dir: str
) -> list[Job]:
    """Jobs of a command line: one TOML file, or model files and patterns.

    Raises:
        UsageError: The arguments do not fit each other, or nothing is there.
        ConfigError: The file is wrong.
    """
    from converter_lite.batch.jobs import jobs_of_models, read_jobs

    flags: dict[str, str] = {}
    for text in settings:
        name, value = _setting(text, known)
        if name in flags:
            raise UsageError("the flag is given twice", where=f"--set {text}")
        flags[name] = value
    if config:
        flags["configFile"] = config
    if not all(sources):  # a variable that is not set: the name would be that of the working directory
        raise UsageError("a name is empty", where="batch", hint="name a job file (.toml), or models")
    if not sources:
        raise UsageError("name a job file (.toml), or models", where="batch")
    other = next((source for source in sources if source.endswith(OTHER_LISTS)), None)
    if other is not None:
        raise UsageError(
            "this is no model, and job files are TOML",
            where=other,
            hint="a .toml file has a table [[job]] for each job",
        )
    if not any(source.endswith(".toml") for source in sources):
        return jobs_of_models(sources, flags, output_dir)
    if len(sources) > 1:
        raise UsageError("one job file at a time, and no models beside it", where="batch")
    if output_dir:
        raise UsageError("the job file says where results go", where=f"--outputDir={output_dir}", hint="set outputDir")
    return read_jobs(Path(sources[0]), known, flags)


def run_batch(
    jobs: list[Job], executor: Executor, *, result_file: Path, junit: Path | None, resume: bool, suite: str
) -> int:
    """Run all jobs, one line for each as it ends; failures do not stop the others.

    Results are kept after every job, so that a batch that was killed can be resumed.

    Returns:
        The worst exit status of a job; 130 when interrupted, 1 when the cluster that ran them was lost.

    Raises:
        UsageError: The result file is something else.
        ConverterError: A result file cannot be written.
    """
    from converter_lite.batch.junit import junit_xml
    from converter_lite.batch.results import load_results, save_results
    from converter_lite.batch.run import run_jobs

    for warning in executor.warnings:
        click.echo(f"WARNING {warning}", err=True)
    earlier = load_results(result_file) if resume else {}
    results: dict[str, JobResult] = {}
    stopped, reason = 0, ""

    def keep() -> None:
        kept = {**{name: earlier[name] for name in earlier if resume}, **results}
        save_results(result_file, [kept[job.name] for job in jobs if job.name in kept])

    try:
        with closing(run_jobs(jobs, earlier, executor)) as ended:
            for result in ended:
                results[result.name] = result
                keep()
                click.echo(f"[{len(results):{len(str(len(jobs)))}}/{len(jobs)}] {result.line()}")
    except KeyboardInterrupt:
        stopped, reason = EXIT_INTERRUPTED, "interrupted; "
    except ClusterError as error:
        stopped, reason = error.exit_status, f"ERROR {error}\n  "
    if stopped:
        click.echo(f"{reason}jobs that are not done: {len(jobs) - len(results)}; --resume continues", err=True)
    done = [results[job.name] for job in jobs if job.name in results]
    if junit is not None:
        write_text(junit, junit_xml(done, suite=suite))
    failed = sum(result.status != 0 for result in done)
    skipped = sum(result.skipped for result in done)
    where = f": {result_file}" if done else ""
    click.echo(f"{len(done) - failed - skipped} converted, {skipped} as before, {failed} failed{where}")
    return max([stopped, *(result.exit_status for result in done)])


def workers(text: str) -> int:
    """Value of ``-j``; 0 = one job for each core.

    Raises:
        UsageError: It is not such a number.
    """
    return whole_number(text, "-j", most=256, what="number of jobs") or os.cpu_count() or 1


def _setting(text: str, known: Collection[str]) -> tuple[str, str]:
    from converter_lite.batch.jobs import SWITCHES, wrong_value

    name, equals, value = text.removeprefix("--").partition("=")
    if name not in known:
        raise UsageError(f"unknown flag {name!r}{did_you_mean(name, known)}", where=f"--set {text}")
    value = value if equals else "true"
    wrong = wrong_value(name, value)
    if wrong:
        raise UsageError(f"the value {wrong}", where=f"--set {text}")
    return name, value.lower() if name in SWITCHES else value
