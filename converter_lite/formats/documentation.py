"""Tables on the pages of ``docs/formats`` that are made from the tables of the code, between two markers."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_MADE = re.compile(r"(<!-- operators:begin [^>]*-->\n).*(<!-- operators:end -->)", re.DOTALL)

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a checkout.

    Attributes:
        name: Its name in ``docs/formats``.
        lines: What stands between its markers, as Markdown.
    """

    name: str
    lines: tuple[str, ...]

    @property
    def path(self) -> Path:
        """Where it is in the checkout that holds this module."""
        return Path(__file__).parents[2] / "docs" / "formats" / self.name

    def text(self) -> str:
        """The page as it is."""
        return self.path.read_text(encoding="utf-8")

    def up_to_date(self) -> str:
        """The page as the code would have it."""
        made = "\n".join(self.lines)
        return _MADE.sub(lambda match: f"{match[1]}{made}\n{match[2]}", self.text())

    def write(self) -> None:
        """Bring it up to date."""
        self.path.write_text(self.up_to_date(), encoding="utf-8", newline="\n")


def grouped(keys: Mapping[str, _Key]) -> dict[_Key, list[str]]:
    """Names of one key together, in the order of their first."""
    groups: dict[_Key, list[str]] = {}
    for name, key in keys.items():
        groups.setdefault(key, []).append(name)
    return groups


def refused(reasons: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """The table of what is refused: names, and for each why and what to do instead."""
    yield "| refused | because | instead |"
    yield "|---|---|---|"
    for (why, instead), names in grouped(reasons).items():
        yield f"| {quoted(names)} | {why} | {instead} |"


def quoted(names: Iterable[str]) -> str:
    """Names as code, in one cell; a description stays as it is."""
    return ", ".join(name if " " in name else f"`{name}`" for name in names)
