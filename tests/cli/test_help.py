"""What ``--help`` shows, and the second command under the name of the first."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from converter_lite.cli.converter_lite import cli
from converter_lite.cli.help import EXAMPLE, FIRST_STEPS, GROUPS
from converter_lite.cli.opt import cli as opt_command
from converter_lite.formats.registry import FORMATS, readable
from tests.cli.workshop import Workshop, command


def test_every_flag_that_is_shown_stands_in_one_group() -> None:
    context = click.Context(cli, **cli.context_settings)
    shown = [option for option in cli.get_params(context) if isinstance(option, click.Option) and not option.hidden]
    names = [max(option.opts, key=len).removeprefix("--") for option in shown]
    assert sorted(names) == sorted(name for group in GROUPS.values() for name in group)


def test_the_help_has_groups_choices_an_example_and_the_first_steps() -> None:
    text = command("--help").out
    for title in (*GROUPS, "First steps", "Example", "Commands"):
        assert f"\n{title}:\n" in text
    assert f"--fmk [{'|'.join(readable())}]" in text
    assert f"--saveType [{'|'.join(FORMATS)}]" in text
    assert "--executor [local|dask|dask:ADDRESS]" in text
    assert EXAMPLE in text
    assert all(line in text for line, _ in FIRST_STEPS)
    assert "..." not in text.split("\nCommands:\n")[1], "a sentence about a command is cut"


def test_the_first_steps_name_commands_that_exist() -> None:
    context = click.Context(cli, **cli.context_settings)
    for line, _ in FIRST_STEPS:
        assert line.split()[1] in cli.list_commands(context)


def test_opt_is_also_a_command_of_converter_lite(workshop: Workshop) -> None:
    done = command("opt", "-model_file", "model.onnx", "--optimize_out=out", "--noquant_model")
    assert (done.status, done.err) == (0, "output y: cosine 1.000000 with the float model\n")
    assert Path("out.nb").is_file()
    assert command("opt", "--help").out.startswith("Usage: converter_lite opt [")
    assert command("--help", program=opt_command).out.startswith("Usage: opt [")


@pytest.mark.parametrize(
    "arguments", [["--model_fil=m.onnx"], ["--model_file=m.onnx", "--quant_model=maybe"], ["word"]]
)
def test_errors_of_opt_are_those_of_opt_under_either_name(arguments: list[str]) -> None:
    alone, inside = command(*arguments, program=opt_command), command("opt", *arguments)
    assert (inside.status, inside.out) == (alone.status, alone.out) == (2, "")
    assert inside.err == alone.err.replace("  opt --help", "  converter_lite opt --help")
