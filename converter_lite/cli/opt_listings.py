"""What ``opt`` prints in the original's words, and its listings of operators: tables, tailoring lists, drawings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.cli.opt_arguments import SINGLE_FILES, idle_beside
from converter_lite.errors import UsageError

if TYPE_CHECKING:
    from converter_lite.formats.paddle.program import Program
    from converter_lite.pipeline.request import ConvertRequest
    from converter_lite.pipeline.result import ConvertResult
    from converter_lite.system.files import Transaction

SAVED = "2. Model is optimized and saved into {} successfully"
"""Line about a written file, in the original's words."""

TABLES = ("print_all_ops", "print_all_ops_in_md_format", "print_supported_ops", "display_kernels")
"""Flags that print a table and end the program, in the original's order."""


def warn(notes: Iterable[str]) -> None:
    """Print each note as a warning."""
    for note in notes:
        click.echo(f"Warning: {note}", err=True)


def announce(request: ConvertRequest) -> None:
    """Say which files are read, in the original's words."""
    program = request.model_file
    click.echo(f"Loading topology data from {program}")
    if request.weight_file is not None:
        click.echo(f"Loading params data from {request.weight_file}")
    elif program.suffix not in SINGLE_FILES:
        click.echo(f"Loading non-combined params data from {program.parent}")


def report_result(result: ConvertResult, *, of: str = "") -> None:
    """Say that the model was read, what the user should know, and how the result compares; ``of`` names one model of a set."""
    click.echo("1. Model is successfully loaded!")
    named = f"{of}: " if of else ""
    warn(f"{named}{note}" for note in result.warnings)
    for output in result.artefacts[0].accuracy:
        click.echo(f"{named}output {output.name}: cosine {output.cosine:.6f} with the float model", err=True)


def print_tables(options: dict[str, Any], given: Collection[str], targets: list[str]) -> bool:
    """Print the first table that is asked for; returns whether one was."""
    table = next((name for name in TABLES if options[name] == "true"), None)
    if table is None:
        return False
    warn(idle_beside(table, options, given))
    from converter_lite.formats.paddle import tables

    if table == "print_all_ops":
        click.echo(tables.all_operators())
    elif table == "print_all_ops_in_md_format":
        click.echo(tables.markdown_table())
    elif table == "print_supported_ops":
        click.echo(tables.supported_operators(targets))
    else:
        click.echo(tables.kernel_list())
    return True


def record_tailoring(folder: Path, programs: Sequence[Program]) -> None:
    """Lists of operators, kernels and their sources in a folder, for a library built for these programs."""
    from converter_lite.system.files import transaction

    with transaction(folder) as files:
        stage_tailoring(files, folder, programs)
        files.commit()
    report_tailoring(folder)


def stage_tailoring(files: Transaction, folder: Path, programs: Sequence[Program]) -> None:
    """Add the lists of :func:`record_tailoring` to a transaction of their folder."""
    from converter_lite.formats.paddle.nb.tailoring import tailoring_lists

    for name, lines in tailoring_lists(programs).items():
        made = files.work / name
        made.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
        files.add(made, folder / name)


def report_tailoring(folder: Path) -> None:
    """Say where the lists are, in the original's words."""
    for what, name in (("operators", ".tailored_ops_list"), ("kernels", ".tailored_kernels_list")):
        click.echo(f"{what} information of tailored model is stored into: {folder / name}")


def draw(model: str, folder: str) -> list[str]:
    """Draw a ``.nb`` file: one file for Graphviz per block; returns their names, without suffix.

    Raises:
        UsageError: A flag is missing, or the file.
    """
    from converter_lite.formats.paddle.nb.drawing import dot
    from converter_lite.formats.paddle.nb.parse import parse
    from converter_lite.system.files import write_text

    for name, value in (("optimized_nb_model_path", model), ("visualization_file_output_path", folder)):
        if not value:
            raise UsageError("a drawing needs both flags", where=f"--{name}")
    if not Path(model).is_file():
        raise UsageError("the model file does not exist", where=model)
    blocks = parse(Path(model).read_bytes(), where=model).program.blocks
    names = [f"Block_{index}" for index in range(len(blocks))]
    for name, block in zip(names, blocks, strict=True):
        write_text(Path(folder) / f"{name}.dot", dot(block))
    return names
