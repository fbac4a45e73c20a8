"""Protobuf's text format, in which networks are described.

Read without a table of messages: forks of Caffe add fields of their own, a reader that knows none of them would have to drop
them silently, and a message should name the line. What a field means is decided where it is asked for.

Source: the text format language specification of Protocol Buffers; numbers are rounded to float32, as Caffe holds them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from converter_lite.errors import FormatError, ModelError, shorten

DEEPEST = 16
"""Messages inside each other; a network has five."""

CHARACTERS = 5
"""Fewest characters of a field, on average, in a description of any length beyond :data:`LEAST_FIELDS`."""

LEAST_FIELDS = 4096

_TOKEN = re.compile(
    r"""[ \t\r\f\v]+ | \#[^\n]* | (?P<line>\n) | (?P<word>[\w.+\-]+) | (?P<mark>[{}<>\[\]:;,])
    | (?P<text>"(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*')""",
    re.VERBOSE,
)
_MARKS = tuple("{}<>[]:;,")
_QUOTES = "\"'"
_NO_TOKEN = "\n"
"""Begins what is no token: no token holds it."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_WHOLE = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})")
_OCTAL = re.compile(r"0[0-7]+")
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|(.))")
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_BOOLEANS = {**dict.fromkeys(("true", "True", "t", "1"), True), **dict.fromkeys(("false", "False", "f", "0"), False)}

Scalar = str
"""A value as it stands in the text; strings keep their first quote, which tells them from words and numbers."""


@dataclass(slots=True)
class Message:
    """Fields of one message.

    Attributes:
        line: Where it begins, counted from 1.
        fields: Name -> values in the order of the text.
    """

    line: int = 0
    fields: dict[str, list[Scalar | Message]] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether the text gives the field."""
        return name in self.fields

    def messages(self, name: str) -> list[Message]:
        """All messages of a field.

        Raises:
            ModelError: One of them is a number or a word.
        """
        found = [value for value in self.fields.get(name, ()) if isinstance(value, Message)]
        if len(found) != len(self.fields.get(name, ())):
            raise ModelError(f"{name} is not a group of fields in braces")
        return found

    def message(self, name: str) -> Message:
        """The message of a field, an empty one without it.

        Raises:
            ModelError: There are several.
        """
        found = self.messages(name)
        if len(found) > 1:
            raise ModelError(f"{name} is given {len(found)} times")
        return found[0] if found else Message(self.line)

    def texts(self, name: str) -> list[str]:
        """Strings of a field.

        Raises:
            ModelError: One of them is none.
        """
        return [_string(value, name) for value in self._scalars(name)]

    def text(self, name: str, default: str = "") -> str:
        """One string.

        Raises:
            ModelError: It is none.
        """
        return (self.texts(name) or [default])[-1]

    def word(self, name: str, default: str, words: Collection[str] | Mapping[str, int] = MappingProxyType({})) -> str:
        """A word of an enumeration, which may also be given by its number.

        Args:
            name: The field.
            default: Without it.
            words: The enumeration, a mapping where it does not count from 0; empty: any.

        Raises:
            ModelError: Another word.
        """
        given = (self._scalars(name) or [default])[-1]
        numbers = words if isinstance(words, Mapping) else {word: number for number, word in enumerate(words)}
        found = next((word for word, number in numbers.items() if given in (word, str(number))), None)
        if not words and given[:1] not in _QUOTES:
            return given
        if found is None:
            raise ModelError(f"{name} is {shorten(given)}", hint=f"it can be {', '.join(words)}")
        return found

    def integers(self, name: str) -> list[int]:
        """Whole numbers of a field.

        Raises:
            ModelError: One of them is none.
        """
        return [_integer(value, name) for value in self._scalars(name)]

    def integer(self, name: str, default: int = 0) -> int:
        """One whole number.

        Raises:
            ModelError: It is none.
        """
        return (self.integers(name) or [default])[-1]

    def sizes(self, name: str) -> list[int]:
        """Whole numbers from 0 on.

        Raises:
            ModelError: One of them is none.
        """
        found = self.integers(name)
        if any(value < 0 or value >= 1 << 31 for value in found):
            raise ModelError(f"{name} is {next(v for v in found if not 0 <= v < 1 << 31)}")
        return found

    def size(self, name: str, default: int = 0) -> int:
        """One whole number from 0 on.

        Raises:
            ModelError: It is none.
        """
        return (self.sizes(name) or [default])[-1]

    def numbers(self, name: str) -> list[float]:
        """Numbers of a field, rounded to float32.

        Raises:
            ModelError: One of them is none.
        """
        return [_number(value, name) for value in self._scalars(name)]

    def number(self, name: str, default: float = 0.0) -> float:
        """One number, rounded to float32, as is the default.

        Raises:
            ModelError: It is none.
        """
        return (self.numbers(name) or [float(np.float32(default))])[-1]

    def flag(self, name: str, default: bool) -> bool:
        """A truth value.

        Raises:
            ModelError: It is none.
        """
        given = self._scalars(name)
        if given and given[-1] not in _BOOLEANS:
            raise ModelError(f"{name} is {shorten(given[-1])}, not true or false")
        return _BOOLEANS[given[-1]] if given else default

    def _scalars(self, name: str) -> list[Scalar]:
        given = self.fields.get(name, ())
        found = [value for value in given if isinstance(value, str)]
        if len(found) != len(given):
            raise ModelError(f"{name} is a group of fields, not a value")
        return found


def _string(value: Scalar, name: str) -> str:
    if value[:1] not in _QUOTES:
        raise ModelError(f"{name} is {shorten(value)}, not a text in quotes")
    return value[1:]


def _integer(value: Scalar, name: str) -> int:
    if not _WHOLE.fullmatch(value):
        raise ModelError(f"{name} is {shorten(value)}, not a whole number")
    digits = value.lstrip("+-")
    base = 8 if _OCTAL.fullmatch(digits) else 16 if digits[:2] in ("0x", "0X") else 10
    return -int(digits, base) if value[0] == "-" else int(digits, base)


def _number(value: Scalar, name: str) -> float:
    number = next((float(form) for form in (value, value.rstrip("fF")) if _is_number(form)), None)
    if number is None:
        number = float(_integer(value, name))
    if math.isfinite(number) and abs(number) > float(np.finfo(np.float32).max):
        raise ModelError(f"{name} is {shorten(value)}, which float32 does not hold")
    return float(np.float32(number))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text and text[:1] not in _QUOTES


def parse(text: str, *, where: str = "") -> Message:
    """The message that a text describes.

    Raises:
        FormatError: The text is no message in text format; the line is named.
    """
    return _Parser(text, where).message("", 0)


class _Parser:
    def __init__(self, text: str, where: str) -> None:
        self._where = where
        self._left = LEAST_FIELDS + len(text) // CHARACTERS
        self._line = 1
        self._tokens = _tokens(text)
        self._next, self._next_line = "", 1
        self._take()

    def _take(self) -> str:
        """The next token, an empty text at the end."""
        token, self._line = self._next, self._next_line
        self._next, self._next_line = next(self._tokens, ("", self._next_line))
        if self._next[:1] == _NO_TOKEN:
            self._line = self._next_line
            raise self._wrong(f"{shorten(self._next[1:])} makes no sense here")
        return token

    def message(self, closing: str, depth: int) -> Message:
        """Fields up to ``closing``, which is taken too; an empty one is the end of the text."""
        if depth > DEEPEST:
            raise self._wrong("too many groups of fields inside each other")
        found = Message(self._line)
        while self._next != closing:
            if not self._next:
                raise self._wrong(f"the group that begins in line {found.line} has no end")
            self._field(found, depth)
        if closing:
            self._take()
        return found

    def _field(self, message: Message, depth: int) -> None:
        name = self._take()
        if not _NAME.fullmatch(name):
            raise self._wrong(f"{shorten(name)} stands where a field should begin")
        values = message.fields.setdefault(name, [])
        colon = self._next == ":"
        if colon:
            self._take()
        if self._next == "[" and colon:
            self._list(values, depth)
        elif self._next in ("{", "<"):
            values.append(self._group(depth))
        elif colon:
            values.append(self._scalar(name))
        else:
            raise self._wrong(f"{name} has no value")
        self._count()
        if self._next in (";", ","):
            self._take()

    def _list(self, values: list[Scalar | Message], depth: int) -> None:
        self._take()
        while self._next != "]":
            values.append(self._group(depth) if self._next in ("{", "<") else self._scalar("a list"))
            self._count()
            if self._next == ",":
                self._take()
            elif self._next != "]":
                raise self._wrong("a list has no end")
        self._take()

    def _group(self, depth: int) -> Message:
        return self.message("}" if self._take() == "{" else ">", depth + 1)

    def _scalar(self, name: str) -> Scalar:
        if not self._next or self._next in _MARKS:
            raise self._wrong(f"{name} has no value")
        token = self._take()
        if token[0] in _QUOTES:
            parts = [token]
            while self._next and self._next[0] in _QUOTES:
                parts.append(self._take()[1:])
            return "".join(parts)
        return token

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise self._wrong("the text has far more fields than a network of its length")

    def _wrong(self, what: str) -> FormatError:
        return FormatError(what, where=f"{self._where} line {self._line}".strip())


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    """Tokens with their lines: words and marks as they are, strings decoded behind their first quote."""
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            yield _NO_TOKEN + text[position : position + 24].split("\n")[0], line
            return
        position = match.end()
        if match.lastgroup == "line":
            line += 1
        elif match.lastgroup == "text":
            yield match["text"][0] + _unescaped(match["text"][1:-1]), line
        elif match.lastgroup is not None:
            yield match[0], line


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_byte, text.encode("utf-8", "replace")).decode("utf-8", "replace")


def _byte(escape: re.Match[bytes]) -> bytes:
    octal, hexadecimal, other = escape.groups()
    if octal or hexadecimal:
        return bytes([int(octal, 8) & 0xFF if octal else int(hexadecimal, 16)])
    return _ESCAPED.get(other, other)
