"""Protobuf's wire format, read in place: what is not asked for is skipped, and numbers stay where they are in the file.

Source: "Encoding" in the documentation of Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types; the other two, groups, are in no file that is read here."""

Field = tuple[int, int, int, int]
"""Number of a field, its wire type, and where its value begins and ends."""


class Wire:
    """A file whose messages are looked through.

    Args:
        data: The file.
        damaged: Makes the error for what is wrong at which byte.
    """

    def __init__(self, data: bytes | memoryview, damaged: Callable[[str, int], Exception]) -> None:
        self.data = memoryview(data)
        self.damaged = damaged

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Fields of the message in ``data[start:end]``.

        Raises:
            Exception: That of ``damaged``.
        """
        position = start
        while position < end:
            tag, first = self.varint(position)
            field, kind = tag >> 3, tag & 7
            if kind == VARINT:
                last = self.varint(first)[1]
            elif kind == BYTES:
                length, first = self.varint(first)
                last = first + length
            elif kind in (FIXED32, FIXED64):
                last = first + (4 if kind == FIXED32 else 8)
            else:
                raise self.damaged(f"wire type {kind}", position)
            if field <= 0 or not first <= last <= end:
                raise self.damaged(f"field {field} runs over its end", position)
            yield field, kind, first, last
            position = last

    def varint(self, position: int) -> tuple[int, int]:
        """A number of up to ten bytes as a signed one of 64 bits, and the position behind it.

        Raises:
            Exception: That of ``damaged``.
        """
        value, data = 0, self.data
        for index in range(min(10, len(data) - position)):
            byte = data[position + index]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                value &= (1 << 64) - 1
                return value - (value >> 63 << 64), position + index + 1
        raise self.damaged("a number has no end", position)

    def varints(self, field: Field) -> list[int]:
        """The numbers of one occurrence of a repeated field, packed or single."""
        _, kind, first, last = field
        found = []
        while kind in (VARINT, BYTES) and first < last:
            number, first = self.varint(first)
            found.append(number)
        return found

    def text(self, field: Field) -> str:
        """A text; bytes that are none of UTF-8 are replaced."""
        return bytes(self.data[field[2] : field[3]]).decode("utf-8", "replace")
