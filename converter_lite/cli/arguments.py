"""Reading command-line values: shapes, switches, repeated and refused flags."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import click

from converter_lite.cli.completion import BY_METAVAR, words
from converter_lite.errors import UsageError, one_of
from converter_lite.formats.registry import FORMATS

Function = TypeVar("Function", bound=Callable[..., Any])
Number = TypeVar("Number", int, float)

_FORMAT_FLAGS = [flag for known in FORMATS.values() for flag in known.flags.flags() if flag.name]

REPEATABLE = ("--set",)
"""Flags that may stand several times."""


def refuse_repeated(arguments: Sequence[str]) -> None:
    """The original refuses a flag that is given twice; so do we.

    Raises:
        UsageError: A flag stands twice.
    """
    seen: set[str] = set()
    for argument in arguments:
        if argument == "--":
            return
        flag = argument[:2] if argument[:2] == "-j" else argument.split("=", 1)[0]
        if not flag.startswith(("--", "-j")):
            continue
        if flag in seen and flag not in REPEATABLE:
            raise UsageError("the flag is given twice", where=flag)
        seen.add(flag)


def refuse_empty(arguments: Sequence[str], flags: Collection[str]) -> None:
    """Refuse ``--flag=`` where an empty value would mean a different run from the one that was asked for.

    Raises:
        UsageError: One of the flags has an empty value.
    """
    for flag, value in values_of(arguments).items():
        if flag in flags and not value and arguments[-1] != flag:  # one that ends the line is refused as such
            raise UsageError("the value is empty", where=flag, hint="give one, or leave the flag out")


def refuse_folders(arguments: Sequence[str], flags: Collection[str]) -> None:
    """Refuse ``--flag=results/``: a file of the name of the folder would be written.

    Raises:
        UsageError: The value of one of the flags, which name files, ends with a slash.
    """
    for flag, value in values_of(arguments).items():
        if flag in flags and value.endswith("/"):
            raise UsageError("the path is a directory", where=f"{flag}={value}", hint="add a file name")


def refuse_swallowed(arguments: Sequence[str], flags: Collection[str]) -> None:
    """Refuse ``--flag --other=value``, where a variable was not set and the next flag would be taken for the value.

    A value behind ``=`` does not begin with two dashes either.

    Args:
        arguments: Of the command line.
        flags: Flags that take a value.

    Raises:
        UsageError: Another flag stands where a value is missing.
    """
    for argument, following in pairwise((*arguments, "")):
        flag, _, value = argument.partition("=")
        if flag == "--":
            return
        if argument in flags and following.startswith("--"):
            hint = f"write {flag}=VALUE, with quotes around a variable"
            raise UsageError(f"the value is missing: {following} follows", where=flag, hint=hint)
        if flag in flags and value.startswith("--"):
            raise UsageError("the value begins with two dashes, as a flag does", where=argument)


def refuse_single_dashes(arguments: Sequence[str], flags: Collection[str]) -> None:
    """Refuse ``-configFile=x``, which would be read as a row of one-letter flags.

    Args:
        arguments: Of the command line.
        flags: All flags.

    Raises:
        UsageError: A flag stands behind one dash.
    """
    for argument in arguments:
        name = argument.partition("=")[0]
        if name == "--":
            return
        meant = next((flag for flag in flags if flag.casefold() == f"-{name}".casefold()), "")
        if meant and name not in flags:
            raise UsageError("flags have two dashes", where=name, hint=f"write {meant}{argument.removeprefix(name)}")


def values_of(arguments: Sequence[str]) -> dict[str, str]:
    """``--flag=value`` and ``--flag value`` as a dictionary; anything else is left out."""
    values: dict[str, str] = {}
    for argument, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        if argument == "--":
            break
        flag, equals, value = argument.partition("=")
        if flag.startswith("--"):
            values[flag] = value if equals else following
    return values


def parse_input_shape(text: str) -> dict[str, tuple[int, ...]]:
    """``name:1,3,224,224;name2:1,128`` -> shapes by input name; the part behind the last colon is the shape.

    Raises:
        UsageError: The text has another form.
    """
    example = "write name:1,3,224,224;name2:1,128, sizes from 1 on"
    return _by_input(text, _size, flag="--inputShape", what="a shape", example=example)


def parse_input_value(text: str) -> dict[str, tuple[float, ...]]:
    """``name:16000;name2:1,0,1`` -> numbers by input name; the part behind the last colon holds them.

    Raises:
        UsageError: The text has another form.
    """
    return _by_input(text, _real, flag="--inputValue", what="a value", example="write name:16000;name2:1,0,1")


def _size(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0 else None


def _real(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _by_input(
    text: str, read: Callable[[str], Number | None], *, flag: str, what: str, example: str
) -> dict[str, tuple[Number, ...]]:
    """``name:1,2;name2:3`` -> numbers by input name; ``read`` gives ``None`` for what is none."""
    found: dict[str, tuple[Number, ...]] = {}
    for part in text.strip().removesuffix(";").split(";") if text else ():
        name, colon, listed = part.strip().rpartition(":")
        numbers = [read(number.strip()) for number in listed.split(",")]
        known = tuple(number for number in numbers if number is not None)
        if not colon or not name.strip() or len(known) != len(numbers):
            raise UsageError(f"{part!r} is not {what}", where=flag, hint=example)
        if name.strip() in found:
            raise UsageError(f"input {name.strip()!r} is given twice", where=flag)
        found[name.strip()] = known
    return found


def switch(value: str, flag: str, *, on: str = "true", off: str = "false") -> bool:
    """``true``/``false`` (or ``on``/``off``) as a boolean.

    Raises:
        UsageError: It is another word.
    """
    return one_of(value, (on, off), flag) == on


def encryption_key(wanted: str, key: str) -> str:
    """The key to encrypt with, empty for a file that is not encrypted.

    Raises:
        UsageError: ``--encryption`` and ``--encryptKey`` contradict each other.
    """
    if not wanted:
        return key
    if switch(wanted, "--encryption") != bool(key):
        message = "has no effect with --encryption=false" if key else "is missing: --encryption=true needs it"
        raise UsageError(message, where="--encryptKey")
    return key


def option(name: str, help_text: str, default: str = "", *, choices: Sequence[str] = (), **more: Any) -> Any:
    """A flag with a value, spelled as in the original; the parameter is in snake case.

    Args:
        name: Without dashes.
        help_text: What ``--help`` says.
        default: Its value where it is not given.
        choices: Words that it takes; they are shown and completed, whoever checks them.
        more: For click.
    """
    parameter = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    shown = f"{help_text}  [default: {default}]" if default else help_text
    metavar = more.pop("metavar", f"[{'|'.join(choices)}]" if choices else "TEXT")
    complete = more.pop("shell_complete", words(choices) if choices else BY_METAVAR.get(metavar))
    return click.option(
        f"--{name}", parameter, default=default, help=shown, metavar=metavar, shell_complete=complete, **more
    )


def format_flags(function: Function) -> Function:
    """The flags that concern one output format each."""
    for flag in reversed(_FORMAT_FLAGS):
        choices = ("on", "off") if flag.is_switch else flag.choices
        function = option(flag.name, flag.help, "off" if flag.is_switch else flag.default, choices=choices)(function)
    return function


def values_of_flags(options: dict[str, Any]) -> dict[str, Any]:
    """What :func:`format_flags` read, as attributes of a request.

    Raises:
        UsageError: A switch is neither on nor off.
    """
    texts = ((flag, options[flag.attribute]) for flag in _FORMAT_FLAGS)
    return {f.attribute: switch(text, f"--{f.name}", on="on", off="off") if f.is_switch else text for f, text in texts}


external_paths = click.option(
    "--allowExternalPaths",
    "allow_external_paths",
    is_flag=True,
    help="Read external data and samples that lie, or are links to, outside their folder.",
)

unsafe_models = click.option(
    "--allowUnsafeModels",
    "allow_unsafe_models",
    is_flag=True,
    help="Run code that a TF or PYTORCH file holds (pickles, Lambda layers); only for files that you trust.",
)


executor_option = option(
    "executor",
    "Where the work is done: local, dask (workers on this machine), or dask:ADDRESS (of a scheduler).",
    "local",
    metavar="[local|dask|dask:ADDRESS]",
    shell_complete=words(("local", "dask")),
)


def path_of(text: str) -> Path | None:
    """A path, ``None`` for an empty text."""
    return Path(text) if text else None


def whole_number(text: str, flag: str, *, least: int = 0, most: int, what: str = "number") -> int:
    """A number within bounds; ``what`` says what it counts.

    Raises:
        UsageError: It is not.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not least <= int(text) <= most:
        raise UsageError(f"{text!r} is not a {what} from {least} to {most}", where=flag)
    return int(text)


def cosine(text: str, flag: str) -> float | None:
    """A number from -1 to 1, ``None`` for an empty text.

    Raises:
        UsageError: It is not.
    """
    return _number(text, flag, lambda value: -1.0 <= value <= 1.0, "from -1 to 1")


def ratio(text: str, flag: str) -> float | None:
    """A number above 0, ``None`` for an empty text.

    Raises:
        UsageError: It is not.
    """
    return _number(text, flag, lambda value: 0.0 < value < math.inf, "above 0")


def _number(text: str, flag: str, is_valid: Callable[[float], bool], bounds: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not is_valid(value):
        raise UsageError(f"{text!r} is not a number {bounds}", where=flag)
    return value
