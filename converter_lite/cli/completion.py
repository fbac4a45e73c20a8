"""Shell completion of flags and their values, also behind ``--flag=``, where click's own scripts for shells stop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
)

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_FISH = """\
function %(complete_func)s
    set -l token (commandline -t)
    set -l flag (string match -r -- '^--[^=]*=' $token; or echo)
    for item in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=$token %(prog_name)s)
        set -l parts (string split -m 1 , -- $item)
        switch $parts[1]
            case dir
                printf '%%s\\n' $flag(__fish_complete_directories $parts[2])
            case file
                printf '%%s\\n' $flag(__fish_complete_path $parts[2])
            case plain
                printf '%%s\\n' $flag$parts[2]
        end
    end
end
complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


def words(known: Sequence[str]) -> Completion:
    """Completion with these words, also behind the last comma of a list."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + word) for word in known if word.startswith(last)]

    return complete


def paths(kind: str) -> Completion:
    """Completion with files (``file``) or folders (``dir``), which the shell knows."""
    return lambda _, __, incomplete: [CompletionItem(incomplete, type=kind)]


BY_METAVAR: Mapping[str, Completion] = MappingProxyType(
    {"PATH": paths("file"), "FILE": paths("file"), "DIR": paths("dir"), "BOOL": words(("true", "false"))}
)
"""Metavar of a flag -> completion of its value."""


@add_completion_class
class Bash(BashComplete):
    """Bash makes a word of each ``=``."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, without ``=`` between flag and value, and the one at it."""
        before, incomplete = super().get_completion_args()
        return [word for word in before if word != "="], incomplete


@add_completion_class
class Zsh(ZshComplete):
    """Zsh completes the whole word unless it is told which part is complete."""

    source_template = ZshComplete.source_template.replace(
        "    local -a completions\n", "    local -a completions\n    compset -P '--*='\n", 1
    ).replace("compadd -U ", "compadd ")


@add_completion_class
class Fish(FishComplete):
    """Fish compares with the whole word."""

    source_template = _FISH
