"""Flags that concern one output format, declared in its folder: what the command line offers and how messages name them.

The request of a conversion has the flags of every format (:class:`converter_lite.pipeline.request.ConvertRequest` inherits them),
and each format takes its own from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from converter_lite.errors import UsageError, one_of


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        attribute: Name in requests.
        default: Value that has no effect.
        name: On the command line, without dashes; empty: for the programming interface only.
        help: What the command line says about it.
        choices: Words that it accepts; none for switches and numbers.
    """

    attribute: str
    default: Any
    name: str = ""
    help: str = ""
    choices: tuple[str, ...] = ()

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)

    def check(self, value: object) -> None:
        """Refuse a value that it does not accept: a string such as "off" would pass for true.

        Raises:
            UsageError: The value is not valid.
        """
        if self.choices:
            one_of(str(value), self.choices, f"--{self.name}")
        elif self.is_switch and not isinstance(value, bool):
            raise UsageError(f"must be True or False, not {value!r}", where=self.attribute)

    def given(self, value: object) -> str:
        """The flag with a value, as the user writes it."""
        if not self.name:
            return self.attribute if self.is_switch else f"{self.attribute}={value}"
        return f"--{self.name}=on" if self.is_switch else f"--{self.name}={value}"


def flag(default: Any, *, name: str = "", help: str = "", choices: tuple[str, ...] = ()) -> Any:
    """An attribute of a :class:`FormatFlags`."""
    return field(default=default, metadata={"name": name, "help": help, "choices": choices})


@dataclass(frozen=True, kw_only=True)
class FormatFlags:
    """The flags of one format; without slots, since a request has those of several."""

    @classmethod
    def flags(cls) -> Iterator[Flag]:
        """Its flags, in the order of their declaration."""
        for entry in fields(cls):
            yield Flag(entry.name, entry.default, **entry.metadata)
