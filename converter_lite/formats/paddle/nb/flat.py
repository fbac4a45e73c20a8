"""Flatbuffers from and to dictionaries, driven by the field tables of :mod:`schema`.

Writing uses the ``flatbuffers`` builder. Reading is our own: every offset is checked, and the work is bounded by the
size of the buffer, because offsets of a hostile file may point at the same bytes again and again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from flatbuffers import number_types

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.nb.schema import TABLES, Field

_SCALARS: dict[str, tuple[str, Any]] = {
    "bool": ("<?", number_types.BoolFlags),
    "uint8": ("<B", number_types.Uint8Flags),
    "int32": ("<i", number_types.Int32Flags),
    "int64": ("<q", number_types.Int64Flags),
    "float32": ("<f", number_types.Float32Flags),
    "float64": ("<d", number_types.Float64Flags),
}
_SCALAR_SIZE = {name: struct.calcsize(code) for name, (code, _) in _SCALARS.items()}
_ABSENT = {"bool": bool, "float32": float, "float64": float}
_NUMPY = {"bool": "u1", "uint8": "u1", "int32": "<i4", "int64": "<i8", "float32": "<f4", "float64": "<f8"}

WORK_PER_BYTE = 16
"""Bytes that reading may visit per byte of buffer; shared strings and vtables make honest files need more than one."""


def encode(table: str, value: dict[str, Any], *, size_hint: int = 1024) -> bytes:
    """Flatbuffer whose root is ``value`` as ``table``; absent keys are left out."""
    builder = flatbuffers.Builder(size_hint)
    builder.Finish(_encode_table(builder, table, value))
    return bytes(builder.Output())


def _encode_table(builder: Any, table: str, value: dict[str, Any]) -> int:
    definition = TABLES[table]
    present = [field for field in definition.fields if value.get(field.name) is not None]
    offsets = {
        field.slot: _encode_reference(builder, field, value[field.name])
        for field in present
        if field.type not in _SCALARS
    }
    builder.StartObject(definition.slots)
    for field in present:
        if field.slot in offsets:
            builder.PrependUOffsetTRelativeSlot(field.slot, offsets[field.slot], 0)
        else:
            builder.PrependSlot(_SCALARS[field.type][1], field.slot, value[field.name], field.default)
    return int(builder.EndObject())


def _encode_reference(builder: Any, field: Field, value: Any) -> int:
    if field.type == "string":
        return int(builder.CreateString(value))
    if field.type == "bytes":
        return int(builder.CreateByteVector(value))
    if field.element is not None:
        return _encode_vector(builder, field.element, value)
    return _encode_table(builder, field.type, value)


def _encode_vector(builder: Any, element: str, values: Sequence[Any]) -> int:
    if element in _NUMPY:
        return int(builder.CreateNumpyVector(np.asarray(values, _NUMPY[element])))
    offsets = [
        builder.CreateString(value) if element == "string" else _encode_table(builder, element, value)
        for value in values
    ]
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def decode(table: str, buffer: bytes | memoryview, *, where: str) -> dict[str, Any]:
    """The root table of a flatbuffer as a dictionary; absent scalars have their defaults, other absent fields no key.

    Byte vectors are views of the buffer, number vectors tuples.

    Raises:
        FormatError: An offset leads outside, a required field is absent, text is not UTF-8, or the buffer is built so
            that reading it would take far more work than its size.
    """
    reader = _Reader(memoryview(buffer), where)
    return reader.table(table, reader.offset(0))


class _Reader:
    def __init__(self, buffer: memoryview, where: str) -> None:
        self._buffer = buffer
        self._where = where
        self._budget = WORK_PER_BYTE * len(buffer) + 4096

    def _fail(self, what: str) -> FormatError:
        return FormatError(f"the flatbuffer is damaged: {what}", where=self._where)

    def _unpack(self, code: str, position: int) -> Any:
        try:
            return struct.unpack_from(code, self._buffer, position)[0]
        except struct.error:
            raise self._fail(f"nothing at byte {position}") from None

    def _span(self, position: int, length: int) -> memoryview:
        if position < 0 or length < 0 or position + length > len(self._buffer):
            raise self._fail(f"{length} bytes at byte {position} are outside")
        self._budget -= length + 4
        if self._budget < 0:
            raise self._fail("its offsets overlap")
        return self._buffer[position : position + length]

    def offset(self, position: int) -> int:
        """Target of the forward offset at ``position``."""
        if position < 0:
            raise self._fail("negative position")
        return position + int(self._unpack("<I", position))

    def table(self, name: str, position: int) -> dict[str, Any]:
        """Fields of the table at ``position``."""
        definition = TABLES[name]
        vtable = position - int(self._unpack("<i", position))
        if vtable < 0:
            raise self._fail("a vtable lies before the buffer")
        length = int(self._unpack("<H", vtable))
        self._span(vtable, max(length, 4))
        values: dict[str, Any] = {}
        for field in definition.fields:
            entry = 4 + 2 * field.slot
            relative = int(self._unpack("<H", vtable + entry)) if entry + 2 <= length else 0
            if relative:
                values[field.name] = self._field(field, position + relative)
            elif field.required:
                raise self._fail(f"{name}.{field.name} is missing")
            elif field.type in _SCALARS:
                values[field.name] = _ABSENT.get(field.type, int)(field.default)
        return values

    def _field(self, field: Field, position: int) -> Any:
        if field.type in _SCALARS:
            return self._unpack(_SCALARS[field.type][0], position)
        target = self.offset(position)
        if field.type == "string":
            return self._string(target)
        if field.type == "bytes":
            return self._span(target + 4, int(self._unpack("<I", target)))
        if field.element is not None:
            return self._vector(field.element, target)
        return self.table(field.type, target)

    def _string(self, position: int) -> str:
        raw = self._span(position + 4, int(self._unpack("<I", position)))
        try:
            return bytes(raw).decode("utf-8")
        except UnicodeDecodeError:
            raise self._fail(f"text at byte {position} is not UTF-8") from None

    def _vector(self, element: str, position: int) -> Any:
        count = int(self._unpack("<I", position))
        if element in _NUMPY:
            raw = self._span(position + 4, count * _SCALAR_SIZE[element])
            return tuple(np.frombuffer(raw, _NUMPY[element]).tolist())
        self._span(position + 4, 4 * count)
        targets = [self.offset(position + 4 + 4 * index) for index in range(count)]
        if element == "string":
            return [self._string(target) for target in targets]
        return [self.table(element, target) for target in targets]
