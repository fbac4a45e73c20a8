"""FlatBuffers from and to dictionaries, driven by field tables of each format; no generated code.

A table is a line of ``name:kind[=default][!]`` items; the position is the field id, ``-`` skips one, ``!`` marks a required
field. Kinds are

* scalars: ``bool byte ubyte ushort int uint long float double``, and vectors of them (``ints`` and so on), which are NumPy
  arrays;
* ``bytes`` (an array of uint8), ``string``, ``strings``;
* ``Table`` and ``[Table]`` for tables and vectors of them; ``{Table}`` for a vector of tables of scalars that is held as columns,
  one array per field, since a model has thousands;
* ``union``, a type and a table in two ids: a pair of the table's name and its dictionary; ``<Name>`` is one of several
  unions, whose field has no key where the file leaves it empty, and an empty name where its type is newer than the schema.

Fields that equal their default are not written. Equal texts, short vectors of numbers, and tables of kinds that the schema
names are written once: thousands of nodes have the same attributes and shapes. Texts in vectors are
not: Paddle-Lite's library for ARM64 ends with ``std::length_error`` where operators of a file with integer weights share the text
of an argument's name. Otherwise the bytes are those of the builder of the ``flatbuffers`` package, which takes twice the time.

Reading checks every offset, and its work is bounded by the size of the buffer, because offsets of a hostile file may point at the
same bytes over and over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError

_SCALARS = {
    kind: (struct.Struct(f"<{code}"), dtype)
    for kind, code, dtype in (
        *(("bool", "?", "<u1"), ("byte", "b", "<i1"), ("ubyte", "B", "<u1"), ("ushort", "H", "<u2")),
        *(("int", "i", "<i4"), ("uint", "I", "<u4"), ("long", "q", "<i8")),
        *(("float", "f", "<f4"), ("double", "d", "<f8")),
    )
}
"""Kind -> layout, NumPy type."""

_BYTE, _OFFSET, _BACKWARD, _LAYOUT = (struct.Struct(code) for code in ("<B", "<I", "<i", "<H"))
"""Type of a union; forward offset, or count of a vector; from a table to its field layout; entry of a field layout."""

LARGEST = 2**31 - 1
"""Bytes of the largest FlatBuffer."""

LARGEST_SHARED = 256
"""Bytes up to which equal vectors of numbers are written once; looking for equals of larger ones would keep them in memory."""

_VECTORS = {f"{kind}s": dtype for kind, (_, dtype) in _SCALARS.items()}

WORK_PER_BYTE = 16
"""Bytes that reading may visit per byte of buffer; valid files need more than one because of shared strings and vtables."""

LEAST_WORK = 1 << 16
"""The least total that reading may visit, for small files."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        slot: Its id; a union has the next one, too.
        name: Its name.
        kind: Its kind.
        default: The number that files leave out.
        required: Whether files must have it.
        scalar: How a number is stored; ``None`` for other kinds.
        union: Tables that it may hold, by type; ``None`` for other kinds.
    """

    slot: int
    name: str
    kind: str
    default: Any
    required: bool
    scalar: struct.Struct | None
    union: tuple[str, ...] | None


class Schema:
    """The tables of a format.

    Args:
        tables: Name -> line of fields; a table that is not listed has none.
        identifier: Bytes 4 to 8 of a file, empty without them.
        unions: Names of the tables that a union may hold, by its name (``union`` for the kind of that name); the index is the
            type.
        byte_alignment: Alignment of vectors of bytes.
        replaces: Text that is not UTF-8 is read with replacement characters instead of being refused.
        shared: Tables of which equal ones are written once.
    """

    def __init__(
        self,
        tables: Mapping[str, str],
        *,
        identifier: bytes = b"",
        unions: Mapping[str, Sequence[str]] = MappingProxyType({}),
        byte_alignment: int = 1,
        replaces: bool = False,
        shared: Collection[str] = (),
    ) -> None:
        self.shared = frozenset(shared)
        self.identifier = identifier
        self.unions = {name: tuple(tables) for name, tables in unions.items()}
        self.byte_alignment = byte_alignment
        self.replaces = replaces
        self._lines = tables
        self._fields: dict[str, tuple[Field, ...]] = {}

    def fields(self, table: str) -> tuple[Field, ...]:
        """Fields of a table, by id."""
        if table not in self._fields:
            found, slot = [], 0
            for item in self._lines.get(table, "").split():
                if item != "-":
                    found.append(self._field(item, slot))
                slot += 2 if item.endswith((":union", ">")) else 1
            self._fields[table] = tuple(found)
        return self._fields[table]

    def _field(self, item: str, slot: int) -> Field:
        declaration, _, default = item.rstrip("!").partition("=")
        name, kind = declaration.split(":")
        number = float(default or 0)
        value = number if kind in ("float", "double") else bool(number) if kind == "bool" else int(number)
        scalar = _SCALARS[kind][0] if kind in _SCALARS else None
        union = self.unions[kind.strip("<>")] if kind == "union" or kind.startswith("<") else None
        return Field(slot, name, kind, value, item.endswith("!"), scalar, union)

    def encode(self, table: str, value: Mapping[str, Any]) -> bytes:
        """A FlatBuffer whose root is ``value``; absent keys and ``None`` are left out.

        Raises:
            KeyError: A table has no such field.
            FormatError: The values take more than :data:`LARGEST` bytes, or a number does not fit its field.
        """
        encoder = _Encoder(self)
        try:
            return encoder.finish(encoder.table(table, value))
        except (struct.error, OverflowError) as error:
            raise FormatError(f"{table}: a number does not fit its field ({error})") from None

    def decode(self, table: str, data: bytes | memoryview, *, where: str = "") -> dict[str, Any]:
        """The root table; absent scalars have their defaults, other absent fields no key. Vectors are views of the data.

        Raises:
            FormatError: An offset points outside, a required field is absent, or reading the data would take far more work than
                their size warrants.
        """
        decoder = _Decoder(self, data, where)
        return decoder.table(table, decoder.follow(0))


class _Encoder:
    """Writes from the end to the start, since offsets point forward: a place is counted in bytes from the end.

    Args:
        schema: The tables.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._parts: list[Any] = []
        self._size = 0
        self._alignment = 1
        self._layouts: dict[bytes, int] = {}
        self._shared: dict[Hashable, int] = {}

    def finish(self, root: int) -> bytes:
        """The bytes, with the offset of the root table and the identifier in front."""
        identifier = self._schema.identifier
        self._align(self._alignment, _OFFSET.size + len(identifier))
        self._put(identifier)
        self._put(_OFFSET.pack(self._size + _OFFSET.size - root))
        if self._size > LARGEST:
            raise FormatError(f"the content takes {self._size} bytes, more than a FlatBuffer holds (2 GiB)")
        return b"".join(reversed(self._parts))

    def table(self, table: str, value: Mapping[str, Any]) -> int:
        """Write a table and what it refers to; returns its place."""
        layout = self._schema.fields(table)
        unknown = value.keys() - {field.name for field in layout}
        if unknown:
            raise KeyError(f"{table} has no field {sorted(unknown)}")
        present = [field for field in layout if value.get(field.name) is not None]
        children = {f.slot: self._child(f, value[f.name]) for f in present if f.scalar is None}
        end, places = self._size, [0] * (present[-1].slot + 2 if present else 0)
        for field in present:
            slot = field.slot
            if field.scalar is not None:
                number = value[field.name]
                plain = number if isinstance(number, float) else int(number)
                if plain != field.default:
                    places[slot] = self._scalar(field.scalar, plain)
                continue
            if field.union is not None:
                kind = field.union.index(value[field.name][0])
                places[slot] = self._scalar(_BYTE, kind) if kind else 0
                slot += 1
            self._align(_OFFSET.size)
            places[slot] = self._put(_OFFSET.pack(self._size + _OFFSET.size - children[field.slot]))
        return self._with_layout(places, end)

    def _with_layout(self, places: list[int], end: int) -> int:
        """Finish a table with the offset of its field layout; layouts that are equal are written once."""
        self._align(_BACKWARD.size)
        start = self._size + _BACKWARD.size
        while places and not places[-1]:
            places.pop()
        entries = [2 * (len(places) + 2), start - end, *(start - place if place else 0 for place in places)]
        layout = struct.pack(f"<{len(entries)}H", *entries)
        known = self._layouts.get(layout)
        self._put(_BACKWARD.pack(len(layout) if known is None else known - start))
        if known is None:
            self._layouts[layout] = self._put(layout)
        return start

    def _child(self, field: Field, value: Any) -> int:
        kind = field.kind
        if kind == "bytes":
            view = value if isinstance(value, bytes) else memoryview(value).cast("B")
            return self._vector(view, 1, self._schema.byte_alignment)
        if kind == "string":
            return self._once((kind, value), lambda: self._string(value))
        if kind in _VECTORS:
            array = np.asarray(value, _VECTORS[kind])
            data = array.tobytes()
            if len(data) > LARGEST_SHARED:
                return self._vector(data, array.itemsize, array.itemsize)
            return self._once((kind, data), lambda: self._vector(data, array.itemsize, array.itemsize))
        if kind == "strings":
            return self._references([self._string(item) for item in value])
        if field.union is not None:
            return self.table(*value)
        if kind.startswith("["):
            return self._references([self._table(kind[1:-1], item) for item in value])
        if kind.startswith("{"):
            return self._columns(kind[1:-1], value)
        return self._table(kind, value)

    def _table(self, table: str, value: Mapping[str, Any]) -> int:
        """A table, one for all equal ones where the schema shares them."""
        if table not in self._schema.shared:
            return self.table(table, value)
        return self._once((table, _frozen(value)), lambda: self.table(table, value))

    def _once(self, key: Hashable, write: Callable[[], int]) -> int:
        """The place of what is written once for all that refer to it."""
        if key not in self._shared:
            self._shared[key] = write()
        return self._shared[key]

    def _put(self, data: Any) -> int:
        """Write bytes in front of what is written; returns their place."""
        self._parts.append(data)
        self._size += len(data)
        return self._size

    def _align(self, width: int, following: int = 0) -> None:
        """Pad so that what is written after ``following`` bytes lies at a multiple of ``width``."""
        self._alignment = max(self._alignment, width)
        padding = -(self._size + following) % width
        if padding:
            self._put(bytes(padding))

    def _scalar(self, layout: struct.Struct, number: float) -> int:
        self._align(layout.size)
        return self._put(layout.pack(number))

    def _string(self, text: str) -> int:
        data = text.encode() + b"\0"
        self._align(_OFFSET.size, len(data))
        self._put(data)
        return self._put(_OFFSET.pack(len(data) - 1))

    def _vector(self, data: Any, width: int, alignment: int) -> int:
        self._align(_OFFSET.size, len(data))
        self._align(alignment, len(data))
        self._put(data)
        return self._put(_OFFSET.pack(len(data) // width))

    def _references(self, targets: Sequence[int]) -> int:
        count = len(targets)
        self._align(_OFFSET.size)
        first = self._size + 4 * count
        self._put(struct.pack(f"<{count}I", *(first - 4 * i - target for i, target in enumerate(targets))))
        return self._put(_OFFSET.pack(count))

    def _columns(self, table: str, columns: Mapping[str, NDArray[Any]]) -> int:
        """Tables from arrays of equal length, all with one shared field layout: wide fields behind 32-bit integers."""
        layout = self._schema.fields(table)
        count = len(next(iter(columns.values())))
        kept = [
            (field, np.dtype(_SCALARS[field.kind][1]))
            for field in layout
            if field.name in columns and np.any(np.asarray(columns[field.name]) != field.default)
        ]
        kept.sort(key=lambda item: (item[1].str != "<i4", -item[1].itemsize))
        row, places = _row_type(kept)
        rows = np.zeros(count, row)
        for field, _ in kept:
            rows[field.name] = columns[field.name]
        vtable = np.zeros(2 + len(layout), "<u2")
        vtable[:2] = vtable.nbytes, row.itemsize
        for slot, place in places.items():
            vtable[2 + slot] = place
        lead = -(-vtable.nbytes // 8) * 8
        self._align(8, lead + rows.nbytes)
        rows["vtable"] = lead + row.itemsize * np.arange(count)
        start = self._put(vtable.tobytes().ljust(lead, b"\0") + rows.tobytes())
        return self._references((start - lead - row.itemsize * np.arange(count)).tolist())


def _row_type(kept: Sequence[tuple[Field, np.dtype[Any]]]) -> tuple[np.dtype[Any], dict[int, int]]:
    """Structured type of one table: the offset of its field layout, then the fields, aligned; and their places by id."""
    names, types, places, position = ["vtable"], ["<i4"], [0], 4
    by_id: dict[int, int] = {}
    for field, kind in kept:
        position = -(-position // kind.itemsize) * kind.itemsize
        names.append(field.name)
        types.append(kind.str)
        places.append(position)
        by_id[field.slot] = position
        position += kind.itemsize
    size = -(-position // 8) * 8
    return np.dtype({"names": names, "formats": types, "offsets": places, "itemsize": size}), by_id


def _frozen(value: Any) -> Hashable:
    """A table's content as a key: equal keys are written with equal bytes."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(item)) for name, item in sorted(value.items()))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return type(value).__name__, value.hex() if isinstance(value, float) else value


class _Decoder:
    def __init__(self, schema: Schema, data: bytes | memoryview, where: str) -> None:
        self._schema = schema
        self._data = data
        self._where = where
        self._array: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        self._budget = WORK_PER_BYTE * len(data) + LEAST_WORK

    def table(self, table: str, position: int) -> dict[str, Any]:
        places = self._places(table, position - int(self._unpack(_BACKWARD, position)))
        value: dict[str, Any] = {}
        for field in self._schema.fields(table):
            place = places[field.slot] if field.slot < len(places) else 0
            if field.scalar is not None:
                value[field.name] = self._unpack(field.scalar, position + place) if place else field.default
            elif field.union is not None:
                found = self._one_of(field, position, places[field.slot : field.slot + 2])
                value.update({field.name: found} if found is not None else {})
            elif place:
                value[field.name] = self._child(field.kind, self.follow(position + place))
            elif field.required:
                raise self._damaged(f"{table}.{field.name} is missing", position)
        return value

    def follow(self, position: int) -> int:
        """Target of the forward offset at a position."""
        return position + int(self._unpack(_OFFSET, position))

    def _places(self, table: str, vtable: int) -> tuple[int, ...]:
        """Offsets of the fields inside a table, by id."""
        size = self._unpack(_LAYOUT, vtable)
        if size < 4 or size % 2 or vtable + size > len(self._data):
            raise self._damaged(f"a {table} table has no field layout", vtable)
        self._spend(size + 4, table)
        return struct.unpack_from(f"<{size // 2 - 2}H", self._data, vtable + 4)

    def _child(self, kind: str, position: int) -> Any:
        if kind == "string":
            return self._string(position)
        if kind == "bytes":
            return self._vector(position, "<u1")
        if kind in _VECTORS:
            return self._vector(position, _VECTORS[kind])
        if kind == "strings":
            return [self._string(target) for target in self._targets(position)]
        if kind.startswith("["):
            return [self.table(kind[1:-1], target) for target in self._targets(position)]
        if kind.startswith("{"):
            return self._columns(kind[1:-1], position)
        return self.table(kind, position)

    def _one_of(self, field: Field, position: int, places: Sequence[int]) -> tuple[str, dict[str, Any]] | None:
        """What a union holds; of one with a name ``None`` without a table, and an empty name for an unknown one."""
        tables, is_known = field.union or (), field.kind == "union"
        number = self._unpack(_BYTE, position + places[0]) if len(places) == 2 and all(places) else 0
        if 0 < number < len(tables):
            return tables[number], self.table(tables[number], self.follow(position + places[1]))
        if is_known and number:
            raise FormatError(f"operator number {number} is unknown", where=self._place(position))
        if is_known:
            raise self._damaged(f"a table without {field.name}", position)
        return ("", {}) if number else None

    def _string(self, position: int) -> str:
        count = self._count(position, 1)
        raw = bytes(self._data[position + 4 : position + 4 + count])
        try:
            return raw.decode("utf-8", "replace" if self._schema.replaces else "strict")
        except UnicodeDecodeError:
            raise self._damaged("a text is not UTF-8", position) from None

    def _count(self, position: int, width: int) -> int:
        """Entries of a vector, all of which the data hold."""
        count = int(self._unpack(_OFFSET, position))
        if position + 4 + count * width > len(self._data):
            raise self._damaged(f"a vector of {count} entries runs over the end", position)
        self._spend(count * width + 4, "vector")
        return count

    def _vector(self, position: int, dtype: str) -> NDArray[Any]:
        return np.frombuffer(self._data, dtype, self._count(position, np.dtype(dtype).itemsize), position + 4)

    def _targets(self, position: int) -> list[int]:
        count = self._count(position, 4)
        offsets = struct.unpack_from(f"<{count}I", self._data, position + 4)
        return [position + 4 + 4 * index + offset for index, offset in enumerate(offsets)]

    def _columns(self, table: str, position: int) -> dict[str, NDArray[Any]]:
        starts, layout = np.array(self._targets(position), np.int64), self._schema.fields(table)
        types = [np.dtype(_SCALARS[field.kind][1]) for field in layout]
        self._spend(sum(dtype.itemsize for dtype in types) * len(starts), table)
        columns = {f.name: np.full(len(starts), f.default, dtype) for f, dtype in zip(layout, types, strict=True)}
        vtables = starts - self._gather(starts, np.dtype("<i4"))
        # not a search per layout: a damaged file may have as many as entries
        order = np.argsort(vtables, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(vtables[order])) + 1) if len(starts) else ():
            places = self._places(table, int(vtables[rows[0]]))
            for field, dtype in zip(layout[: len(places)], types, strict=False):
                if places[field.slot]:
                    columns[field.name][rows] = self._gather(starts[rows] + places[field.slot], dtype)
        return columns

    def _gather(self, positions: NDArray[np.int64], dtype: np.dtype[Any]) -> NDArray[Any]:
        width = dtype.itemsize
        if positions.size and (positions.min() < 0 or positions.max() + width > len(self._data)):
            raise self._damaged("a table lies outside", int(positions.min()))
        rows = np.empty((len(positions), width), np.uint8)
        for place in range(width):
            rows[:, place] = self._array[positions + place]
        return rows.reshape(-1).view(dtype)

    def _unpack(self, layout: struct.Struct, position: int) -> Any:
        if position < 0 or position + layout.size > len(self._data):
            raise self._damaged("an offset leads outside", position)
        return layout.unpack_from(self._data, position)[0]

    def _spend(self, count: int, what: str) -> None:
        self._budget -= count
        if self._budget < 0:
            raise FormatError(f"the file is damaged: its {what} tables overlap", where=self._where)

    def _damaged(self, what: str, position: int) -> FormatError:
        return FormatError(f"the file is damaged: {what}", where=self._place(position))

    def _place(self, position: int) -> str:
        return f"{self._where} byte {position}".strip()
