"""Pages of ``docs`` made from tables of the code, and the list of decisions: ``python -m converter_lite.cli.documentation``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from converter_lite.cli.converter_lite import OPT, cli
from converter_lite.cli.help import grouped
from converter_lite.config.schema import SECTIONS
from converter_lite.config.template import TEMPLATES, keys_table_markdown
from converter_lite.formats.registry import FORMATS, FRAMEWORKS, UNAVAILABLE, Format
from converter_lite.pipeline.request import NOT_AVAILABLE

FOLDER = Path(__file__).parents[2] / "docs"

Lines = Iterator[str]


def pages() -> dict[str, str]:
    """Name of each page -> its text."""
    made = {
        "reference/configuration.md": _configuration(),
        "reference/commands.md": _commands(),
        "reference/formats.md": _formats(),
        "decisions/index.md": _decisions(),
    }
    note = "<!-- made by python -m converter_lite.cli.documentation; a test compares it with the code -->"
    return {name: "\n".join((note, *lines)) + "\n" for name, lines in made.items()}


def write() -> None:
    """Bring the pages up to date."""
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


def _configuration() -> Lines:
    yield "# Configuration keys"
    yield ""
    yield "Sections and keys of the INI file behind `--configFile`. Words and keys with a `*` are not in MindSpore Lite's"
    yield "converter."
    yield "A key that is misspelt, has a wrong value, or has no effect in this conversion is reported with file and line."
    yield "`converter_lite template NAME` prints a commented file:"
    yield ""
    yield from _table(["name", "use"], ([f"`{name}`", chosen.title] for name, chosen in TEMPLATES.items()))
    for section in SECTIONS:
        yield from ("", f"## {section.name}", "", section.help, "")
        yield keys_table_markdown(section).rstrip("\n")


def _commands() -> Lines:
    yield "# Commands and flags"
    yield ""
    yield "The shell completes all of them ([how](../how_to/commands.md#completion))."
    yield ""
    yield "## converter_lite"
    yield ""
    yield "Without a command it converts."
    context = click.Context(cli, info_name="converter_lite", **cli.context_settings)
    for title, records in grouped(cli, context):
        yield from ("", f"### {title}", "")
        yield from _flags(records)
    yield from ("", "### Known and refused", "", "Flags of the original with the only value that is accepted.", "")
    refused = ((f"`--{name}`", f"`{value}`", reason) for name, (value, reason) in NOT_AVAILABLE.items())
    yield from _table(["flag", "accepted", "why no other"], refused)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, parent=context, info_name=name)
        title = "opt, or converter_lite opt" if name == OPT else f"converter_lite {name}"
        usage = " ".join(command.collect_usage_pieces(inner))
        yield from ("", f"## {title}", "", f"`{inner.command_path} {usage}`", *_paragraphs(command.help), "")
        options = (parameter for parameter in command.get_params(inner) if isinstance(parameter, click.Option))
        shown = (option.get_help_record(inner) for option in options)
        yield from _flags([record for record in shown if record is not None])


def _formats() -> Lines:
    yield "# Formats"
    yield ""
    yield "## What is read"
    yield ""
    read = [[f"`{name}`", *_read(known)] for name, known in FRAMEWORKS.items()]
    yield from _table(["`--fmk`", "files", "second file"], read)
    yield ""
    yield "## What is written"
    yield ""
    written = [[f"`{name}`", f"`{known.suffix}`", _own_flags(known)] for name, known in FORMATS.items()]
    refused = [[f"`{name}`", "", f"refused: {reason}"] for name, reason in UNAVAILABLE.items()]
    yield from _table(["`--saveType`", "files", "flags of its own"], [*written, *refused])


def _decisions() -> Lines:
    yield "# Decisions"
    yield ""
    yield "Choices with a cost, and what was measured."
    yield ""
    for path in sorted((FOLDER / "decisions").glob("0*.md")):
        yield f"- [{path.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}]({path.name})"


def _read(known: Format | str) -> tuple[str, str]:
    if isinstance(known, str):
        return f"refused: {known}", ""
    folder = f", folders with {' or '.join(f'`{name}`' for name in known.folder_files)}" if known.folder_files else ""
    second = f"`{known.weight_suffix}`" if known.weight_suffix else ""
    return ", ".join(f"`{suffix}`" for suffix in known.suffixes) + folder, second


def _own_flags(known: Format) -> str:
    return ", ".join(f"`--{flag.name}`" for flag in known.flags.flags() if flag.name)


def _flags(records: list[tuple[str, str]]) -> Lines:
    yield from _table(["flag", "value", "meaning"], ([*_spelling(spelling), meaning] for spelling, meaning in records))


def _spelling(text: str) -> tuple[str, str]:
    """Names of a flag, and its value: each of the words that it takes, or what it stands for."""
    last = text.rpartition(", ")[2]
    value = last.partition(" ")[2]
    names = text.removesuffix(f" {value}")
    words, _, more = value.removeprefix("[").partition("]")
    quoted = ", ".join(f"`{word}`" for word in words.split("|") if word)
    return ", ".join(f"`{name}`" for name in names.split(", ")), f"{quoted}, several with commas" if more else quoted


def _paragraphs(text: str | None) -> Lines:
    for paragraph in (text or "").split("\n\n"):
        yield from ("", " ".join(paragraph.split()))


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Lines:
    for cells in (titles, ["---"] * len(titles), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    write()
