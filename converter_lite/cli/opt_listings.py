"""What ``opt`` prints and writes about operators and kernels: tables, tailoring lists, drawings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from converter_lite.errors import UsageError

if TYPE_CHECKING:
    from converter_lite.formats.paddle_nb.program import Program

TABLES = ("print_all_ops", "print_all_ops_in_md_format", "print_supported_ops", "display_kernels")
"""Flags that print a table and end the program, in the original's order."""


def print_tables(options: dict[str, Any], targets: list[str]) -> bool:
    """The first table that is asked for; whether one was."""
    if all(options[name] != "true" for name in TABLES):
        return False
    from converter_lite.formats.paddle_nb import tables

    if options["print_all_ops"] == "true":
        click.echo(tables.all_operators())
    elif options["print_all_ops_in_md_format"] == "true":
        click.echo(tables.markdown_table())
    elif options["print_supported_ops"] == "true":
        click.echo(tables.supported_operators(targets))
    else:
        click.echo(tables.kernel_list())
    return True


def record_tailoring(folder: Path, program: Program) -> None:
    """Lists of operators, kernels and their sources beside a file, for a library built for it."""
    from converter_lite.formats.paddle_nb.tailoring import tailoring_lists
    from converter_lite.output import write_text

    for name, lines in tailoring_lists(program).items():
        write_text(folder / name, "\n".join(lines) + "\n")
    for what, name in (("operators", ".tailored_ops_list"), ("kernels", ".tailored_kernels_list")):
        click.echo(f"{what} information of tailored model is stored into: {folder / name}")


def draw(options: dict[str, Any]) -> int:
    """Draw a ``.nb`` file: one file for Graphviz per block; returns the exit status.

    Raises:
        UsageError: A flag is missing, or the file.
    """
    from converter_lite.formats.paddle_nb.drawing import dot
    from converter_lite.formats.paddle_nb.parse import parse
    from converter_lite.output import write_text

    model, folder = options["optimized_nb_model_path"], options["visualization_file_output_path"]
    for name, value in (("optimized_nb_model_path", model), ("visualization_file_output_path", folder)):
        if not value:
            raise UsageError("a drawing needs both flags", where=f"--{name}")
    if not Path(model).is_file():
        raise UsageError("the model file does not exist", where=model)
    for index, block in enumerate(parse(Path(model).read_bytes(), where=model).program.blocks):
        write_text(Path(folder) / f"Block_{index}.dot", dot(block))
    return 0
