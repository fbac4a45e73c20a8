"""JSON piece by piece: what is never in memory as a whole cannot fill it.

Python's decoder makes up to thirty bytes of one (``[],[],…``). It is given short pieces only; what is longer is taken apart
here, and what is kept is counted. Text is taken as Latin-1, one byte a character, since the structure of JSON is ASCII;
strings get their UTF-8 back one by one (:func:`text_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

PIECE = 8192
"""Most characters that the decoder is given at once."""

KEPT = 6
"""Most bytes of memory that are kept for each byte of the file."""

NESTED = 256
"""Most opening brackets in a piece, so that the decoder stays far from Python's limit of recursion: finalizers that run while it
is near that limit fail, whoever made them."""

DEEPEST = 48
"""Levels of nesting; programs have about ten, control flow adds a few for each block."""

MEMBER = 160
"""Bytes that a member of an object takes beside its name and value."""

ITEM = 8
"""Bytes that an item of a list takes beside its value."""

CONTAINER = 240
"""Bytes of memory of an object, or of a list at most, beside what is in it."""

_BLANK = re.compile(r"[ \t\r\n]*")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def is_pir(data: bytes) -> bool:
    """Whether a program file is JSON, which no protobuf message of a program begins like."""
    return data.removeprefix(BYTE_ORDER_MARK)[:1] == b"{"


class MalformedText(ValueError):
    """The text is not JSON, or no program could look like this."""


def text_of(value: str) -> str:
    """A string as it was meant: its bytes are UTF-8, unless escapes wrote characters directly."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


class Scanner:
    """A position in JSON text.

    Callers walk along objects and lists (:meth:`members`, :meth:`items`) and take single values (:meth:`value`).

    Args:
        data: The text.
        shorten: What is kept of an object that has been decoded.
    """

    def __init__(self, data: bytes, shorten: Callable[[dict[str, Any]], Any]) -> None:
        self._text = data.decode("latin-1")
        self._shorten = shorten
        self._decoder = json.JSONDecoder(object_hook=shorten, parse_constant=_refuse_constant)
        self._position = 0
        self._left = KEPT * len(data) + (1 << 16)

    def members(self) -> Iterator[str]:
        """Keys of the object that begins here; the caller takes each value before the next key."""
        self._take("{")
        if self._is_next("}"):
            return
        while True:
            key, self._position = self._decode(self._blank())
            if not isinstance(key, str):
                raise MalformedText(f"the key before character {self._position} is not a string")
            self._take(":")
            yield key
            if not self._is_next(","):
                self._take("}")
                return

    def items(self) -> Iterator[None]:
        """Once per item of the list that begins here; the caller takes each item."""
        self._take("[")
        if self._is_next("]"):
            return
        while True:
            yield
            if not self._is_next(","):
                self._take("]")
                return

    def value(self, depth: int = 0) -> Any:
        """The value that begins here.

        Raises:
            MalformedText: It is not JSON, is nested too deeply, or would take far more memory than the file.
        """
        start = self._blank()
        try:
            value, self._position = self._decode(start)
            return value
        except MalformedText:
            if depth >= DEEPEST or start + len(self._piece(start)) == len(self._text):
                raise
        kind = self._text[start]
        if kind == "{":
            return self._shorten({key: self._counted(depth, MEMBER + len(key)) for key in self.members()})
        if kind == "[":
            return [self._counted(depth, ITEM) for _ in self.items()]
        return self._long_string(start)

    def keep(self, weight: int) -> None:
        """Count bytes of memory that are kept.

        Raises:
            MalformedText: They are far more than those of the file.
        """
        self._left -= weight
        if self._left < 0:
            raise MalformedText("it describes far more than it holds")

    def end(self) -> None:
        """Nothing but blanks may follow."""
        if self._blank() != len(self._text):
            raise MalformedText(f"there is text behind the program, from character {self._position} on")

    def _decode(self, start: int) -> tuple[Any, int]:
        piece = self._piece(start)
        try:
            value, length = self._decoder.raw_decode(piece)
        except ValueError as error:
            raise MalformedText(f"no JSON at character {start}: {str(error)[:60]}") from None
        if length == len(piece) and piece[-1] not in '"}]':
            raise MalformedText(f"the number at character {start} is too long")
        return value, start + length

    def _piece(self, start: int) -> str:
        piece = self._text[start : start + PIECE]
        while piece.count("[") + piece.count("{") > NESTED:
            piece = piece[: len(piece) // 2]
        return piece

    def _counted(self, depth: int, more: int) -> Any:
        """A value inside of another; one that is taken apart itself has counted what is in it."""
        before = self._left
        value = self.value(depth + 1)
        self.keep(more + (weight(value) if self._left == before else CONTAINER))
        return value

    def _long_string(self, start: int) -> str:
        if self._text[start] != '"':
            raise MalformedText(f"no JSON at character {start}")
        try:
            value, self._position = json.decoder.scanstring(self._text, start + 1)  # type: ignore[attr-defined]
        except ValueError as error:
            raise MalformedText(f"no JSON at character {start}: {str(error)[:60]}") from None
        self.keep(weight(value))
        return str(value)

    def _blank(self) -> int:
        found = _BLANK.match(self._text, self._position)
        self._position = found.end() if found else self._position
        return self._position

    def _is_next(self, mark: str) -> bool:
        start = self._blank()
        found = self._text[start : start + 1] == mark
        self._position += found
        return found

    def _take(self, mark: str) -> None:
        if not self._is_next(mark):
            raise MalformedText(f"{mark!r} is missing at character {self._position}")


def weight(value: Any) -> int:
    """Bytes of memory of a decoded value, about."""
    if isinstance(value, str):
        return 60 + len(value)
    if isinstance(value, dict):
        return CONTAINER + sum(weight(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return 64 + sum(ITEM + weight(item) for item in value)
    return 32


def _refuse_constant(name: str) -> float:
    raise MalformedText(f"{name} is not JSON")
