"""FlatBuffer reader driven by the field tables; every offset is checked, so that damaged files end in a FormatError.

Vectors are views of the file. The bytes reached through all tables together are bounded by a multiple of the file, so
that tables which point at each other's children cannot multiply the work.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.encode import COLUMN_TYPES, VECTOR_TYPES
from converter_lite.formats.mindspore_lite.schema import IDENTIFIER, OPERATORS, Field, fields

_SCALARS = {"bool": "<?", "byte": "<b", "int": "<i", "uint": "<I", "long": "<q", "float": "<f", "double": "<d"}
_MAX_STRING = 1 << 16
_BUDGET_FACTOR = 4
_BUDGET_BASE = 1 << 16
_COLUMNS = ("scale", "zeroPoint", "numBits", "varCorr", "meanCorr")
"""Fields of the parameters that are read."""
_COLUMNS_WIDTH = sum(
    np.dtype(COLUMN_TYPES[field.kind]).itemsize for field in fields("QuantParam") if field.name in _COLUMNS
)


def decode_root(data: bytes, table: str) -> dict[str, Any]:
    """Values of the root table: nested dictionaries, absent vectors and tables are missing, scalars always there.

    Raises:
        FormatError: The identifier is wrong, or an offset, length or number is outside of what the format allows.
    """
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise FormatError("this is not a MindSpore Lite model file", hint="the bytes 4 to 8 must read MSL2")
    return _Decoder(data).table(table, *struct.unpack_from("<I", data, 0))


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._array: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._budget = _BUDGET_FACTOR * len(data) + _BUDGET_BASE

    def table(self, table: str, position: int) -> dict[str, Any]:
        places = self._places(position, table)
        value: dict[str, Any] = {}
        for index, field in enumerate(fields(table)):
            if field.kind == "union":
                value[field.name] = self._union(position, places, table)
                continue
            place = places[index] if index < len(places) else 0
            if field.kind in _SCALARS:
                value[field.name] = self._scalar(field.kind, position + place) if place else _default(field)
            elif place:
                value[field.name] = self._child(field.kind, self._follow(position + place))
        return value

    def _places(self, position: int, table: str) -> tuple[int, ...]:
        """Offsets of the fields inside the table, by id."""
        self._spend(4, table)
        vtable = position - self._scalar("int", position)
        size = self._unpack("<H", vtable)
        if size < 4 or size % 2 or vtable + size > len(self._data) or vtable < 0:
            raise FormatError(f"a {table} table has a damaged field layout", where=f"byte {position}")
        self._spend(size, table)
        return struct.unpack_from(f"<{size // 2 - 2}H", self._data, vtable + 4)

    def _child(self, kind: str, position: int) -> Any:
        if kind.startswith("["):
            offsets = self._vector(position, "<u4")
            starts = position + 4 + 4 * np.arange(len(offsets), dtype=np.int64) + offsets
            return [self.table(kind[1:-1], int(start)) for start in starts]
        if kind == "string":
            return self._string(position)
        if kind == "bytes":
            return self._vector(position, "<u1")
        if kind in VECTOR_TYPES:
            return self._vector(position, VECTOR_TYPES[kind])
        if kind == "columns":
            return self._columns(position)
        return self.table(kind, position)

    def _union(self, position: int, places: tuple[int, ...], table: str) -> tuple[str, dict[str, Any]]:
        if len(places) < 2 or not places[0] or not places[1]:
            raise FormatError(f"a {table} table names no operator", where=f"byte {position}")
        number = self._unpack("<B", position + places[0])
        if not 0 < number < len(OPERATORS):
            raise FormatError(f"operator number {number} is unknown", where=f"byte {position}")
        return OPERATORS[number], self.table(OPERATORS[number], self._follow(position + places[1]))

    def _string(self, position: int) -> str:
        raw = self._vector(position, "<u1")
        if len(raw) > _MAX_STRING:
            raise FormatError(f"a string has {len(raw)} bytes", where=f"byte {position}")
        return raw.tobytes().decode("utf-8", "replace")

    def _vector(self, position: int, dtype: str) -> NDArray[Any]:
        count = self._unpack("<I", position)
        size = count * np.dtype(dtype).itemsize
        if position + 4 + size > len(self._data):
            raise FormatError(f"a vector of {count} entries runs over the end of the file", where=f"byte {position}")
        self._spend(size, "vector")
        return np.frombuffer(self._data, dtype, count, position + 4)

    def _columns(self, position: int) -> dict[str, NDArray[Any]]:
        """A vector of flat tables as one array per field."""
        offsets = self._vector(position, "<u4").astype(np.int64)
        starts = position + 4 + 4 * np.arange(len(offsets), dtype=np.int64) + offsets
        vtables = starts - self._gather(starts, "<i4")
        layout = fields("QuantParam")
        self._spend(_COLUMNS_WIDTH * len(starts), "QuantParam")
        columns = {f.name: np.full(len(starts), f.default, COLUMN_TYPES[f.kind]) for f in layout if f.name in _COLUMNS}
        order = np.argsort(
            vtables, kind="stable"
        )  # not a search per layout: a damaged file may have as many as entries
        for rows in np.split(order, np.flatnonzero(np.diff(vtables[order])) + 1) if len(starts) else ():
            places = self._places_at(int(vtables[rows[0]]))
            for index, field in enumerate(layout[: len(places)]):
                if places[index] and field.name in columns:
                    columns[field.name][rows] = self._gather(starts[rows] + places[index], COLUMN_TYPES[field.kind])
        return columns

    def _places_at(self, vtable: int) -> tuple[int, ...]:
        size = self._unpack("<H", vtable)
        if size < 4 or size % 2 or vtable + size > len(self._data):
            raise FormatError("a QuantParam table has a damaged field layout", where=f"byte {vtable}")
        self._spend(size, "QuantParam")
        return struct.unpack_from(f"<{size // 2 - 2}H", self._data, vtable + 4)

    def _gather(self, positions: NDArray[np.int64], dtype: str) -> NDArray[Any]:
        width = np.dtype(dtype).itemsize
        if positions.size and (positions.min() < 0 or positions.max() + width > len(self._data)):
            raise FormatError("a QuantParam table lies outside of the file")
        rows = np.empty((len(positions), width), np.uint8)
        for place in range(width):
            rows[:, place] = self._array[positions + place]
        return rows.reshape(-1).view(dtype)

    def _follow(self, position: int) -> int:
        return position + int(self._unpack("<I", position))

    def _scalar(self, kind: str, position: int) -> Any:
        return self._unpack(_SCALARS[kind], position)

    def _unpack(self, code: str, position: int) -> Any:
        if position < 0 or position + struct.calcsize(code) > len(self._data):
            raise FormatError("an offset points outside of the file", where=f"byte {position}")
        return struct.unpack_from(code, self._data, position)[0]

    def _spend(self, count: int, what: str) -> None:
        self._budget -= count
        if self._budget < 0:
            raise FormatError(f"the {what} tables of the file overlap", hint="the file is damaged")


def _default(field: Field) -> Any:
    return field.default if field.kind in ("float", "double") else int(field.default)
