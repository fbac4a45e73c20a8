"""FlatBuffer writer driven by the field tables of :mod:`schema`; no generated code.

A table value is a mapping of field name to Python value; fields that equal their default are left out, as every
FlatBuffers writer does. Quantization parameters come as columns (one array per field), since a model has thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from converter_lite.formats.mindspore_lite.schema import IDENTIFIER, OPERATORS, Field, fields

TableValue = Mapping[str, Any]
Columns = Mapping[str, NDArray[Any]]

VECTOR_TYPES = {"ints": "<i4", "uints": "<u4", "longs": "<i8", "floats": "<f4"}
COLUMN_TYPES = {"bool": "<u1", "int": "<i4", "float": "<f4", "double": "<f8"}

_SLOTS: dict[str, Callable[[flatbuffers.Builder], Callable[[int, Any, Any], None]]] = {
    "bool": lambda b: b.PrependBoolSlot,
    "byte": lambda b: b.PrependInt8Slot,
    "int": lambda b: b.PrependInt32Slot,
    "uint": lambda b: b.PrependUint32Slot,
    "long": lambda b: b.PrependInt64Slot,
    "float": lambda b: b.PrependFloat32Slot,
    "double": lambda b: b.PrependFloat64Slot,
}


def encode_root(table: str, value: TableValue, *, size_hint: int = 0) -> bytes:
    """Serialize a root table with the file identifier.

    Args:
        table: Name in the schema.
        value: Field values.
        size_hint: Expected bytes; saves the growing of the buffer.
    """
    builder = flatbuffers.Builder(max(1024, size_hint))
    root = _table(builder, table, value)
    builder.Finish(root, file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def _table(builder: flatbuffers.Builder, table: str, value: TableValue) -> int:
    layout = fields(table)
    unknown = set(value) - {f.name for f in layout}
    if unknown:
        raise KeyError(f"{table} has no field {sorted(unknown)}")
    offsets = {f.name: _child(builder, f, value[f.name]) for f in layout if _is_child(f) and _present(value, f)}
    builder.StartObject(len(layout) + (table == "Primitive"))
    for index, field in enumerate(layout):
        if not _present(value, field):
            continue
        if field.kind == "union":
            builder.PrependUint8Slot(0, OPERATORS.index(value[field.name][0]), 0)
            builder.PrependUOffsetTRelativeSlot(1, offsets[field.name], 0)
        elif field.name in offsets:
            builder.PrependUOffsetTRelativeSlot(index, offsets[field.name], 0)
        else:
            default = field.default if field.kind in ("float", "double") else int(field.default)
            number = value[field.name]
            _SLOTS[field.kind](builder)(index, number if isinstance(number, float) else int(number), default)
    return int(builder.EndObject())


def _present(value: TableValue, field: Field) -> bool:
    return value.get(field.name) is not None


def _is_child(field: Field) -> bool:
    return field.kind not in _SLOTS


def _child(builder: flatbuffers.Builder, field: Field, value: Any) -> int:
    kind = field.kind
    if kind == "string":
        return int(builder.CreateString(value))
    if kind == "bytes":
        return _bytes(builder, value)
    if kind in VECTOR_TYPES:
        return _vector(builder, np.asarray(value, VECTOR_TYPES[kind]))
    if kind == "columns":
        return encode_columns(builder, value)
    if kind == "union":
        return _table(builder, value[0], value[1])
    if kind.startswith("["):
        offsets = [_table(builder, kind[1:-1], item) for item in value]
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())
    return _table(builder, kind, value)


def _bytes(builder: flatbuffers.Builder, data: Any) -> int:
    view = memoryview(data).cast("B") if not isinstance(data, bytes) else data
    builder.StartVector(1, len(view), 16)
    _prepend(builder, view)
    return int(builder.EndVector())


def _vector(builder: flatbuffers.Builder, array: NDArray[Any]) -> int:
    builder.StartVector(array.itemsize, array.size, array.itemsize)
    _prepend(builder, array.tobytes())
    return int(builder.EndVector())


def _prepend(builder: flatbuffers.Builder, data: Any) -> None:
    """Copy bytes in front of what is written; the caller has aligned and reserved."""
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data


def encode_columns(builder: flatbuffers.Builder, columns: Columns) -> int:
    """Write a vector of QuantParam tables from arrays of equal length, all with one shared field layout.

    Bytes per entry: 16 with scale and zero point, 24 with the two corrections, plus 4 in the vector.
    """
    layout = fields("QuantParam")
    count = len(next(iter(columns.values())))
    kept = [
        (index, f, np.asarray(columns[f.name]))
        for index, f in enumerate(layout)
        if f.name in columns and np.any(np.asarray(columns[f.name]) != f.default)
    ]
    kept.sort(key=lambda item: (COLUMN_TYPES[item[1].kind] != "<i4", -np.dtype(COLUMN_TYPES[item[1].kind]).itemsize))
    row, places = _row_type(kept)
    rows = np.zeros(count, row)
    for _, field, values in kept:
        rows[field.name] = values
    vtable = np.zeros(2 + len(layout), "<u2")
    vtable[:2] = vtable.nbytes, row.itemsize
    for index, place in places.items():
        vtable[2 + index] = place
    lead = -(-vtable.nbytes // 8) * 8
    total = lead + rows.nbytes
    builder.Prep(8, total)
    rows["vtable"] = lead + row.itemsize * np.arange(count)
    _prepend(builder, vtable.tobytes().ljust(lead, b"\0") + rows.tobytes())
    tables = builder.Offset() - lead - row.itemsize * np.arange(count, dtype=np.int64)
    builder.StartVector(4, count, 4)
    entries = builder.Offset() + 4 * count - 4 * np.arange(count, dtype=np.int64)
    _prepend(builder, (entries - tables).astype("<u4").tobytes())
    return int(builder.EndVector())


def _row_type(kept: list[tuple[int, Field, NDArray[Any]]]) -> tuple[np.dtype[Any], dict[int, int]]:
    """Structured type of one table: the offset of its field layout, then the fields, aligned; and their places."""
    names, types, places, position = ["vtable"], ["<i4"], [0], 4
    by_id: dict[int, int] = {}
    for index, field, _ in kept:
        kind = np.dtype(COLUMN_TYPES[field.kind])
        position = -(-position // kind.itemsize) * kind.itemsize
        names.append(field.name)
        types.append(kind.str)
        places.append(position)
        by_id[index] = position
        position += kind.itemsize
    size = -(-position // 8) * 8
    return np.dtype({"names": names, "formats": types, "offsets": places, "itemsize": size}), by_id
