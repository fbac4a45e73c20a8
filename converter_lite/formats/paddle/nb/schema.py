"""Field tables of the flatbuffers inside a ``.nb`` file: slot numbers, types, which fields must be there.

Source: docs/formats/paddle_nb.md. A field's type is a scalar name, ``string``, ``bytes``, the name of another table, or
one of these in brackets for a vector.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a table.

    Attributes:
        slot: Number in the vtable.
        name: Key in the dictionaries that stand for tables.
        type: ``int32``, ``string``, ``[Var]``, ``VarType`` …
        required: Readers demand it.
        default: Value of an absent scalar.
    """

    slot: int
    name: str
    type: str
    required: bool = False
    default: int | float | bool = 0

    @property
    def element(self) -> str | None:
        """Element type of a vector, ``None`` for other fields."""
        return self.type[1:-1] if self.type.startswith("[") else None


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its number of slots and its fields."""

    slots: int
    fields: tuple[Field, ...]


TABLES: dict[str, Table] = {
    "ProgramDesc": Table(3, (Field(0, "blocks", "[BlockDesc]"), Field(1, "version", "Version"))),
    "Version": Table(1, (Field(0, "version", "int64"),)),
    "BlockDesc": Table(
        5,
        (
            Field(0, "idx", "int32"),
            Field(1, "parent_idx", "int32"),
            Field(2, "vars", "[VarDesc]"),
            Field(3, "ops", "[OpDesc]"),
            Field(4, "forward_block_idx", "int32", default=-1),
        ),
    ),
    "VarDesc": Table(
        4,
        (
            Field(0, "name", "string", required=True),
            Field(1, "type", "VarType", required=True),
            Field(2, "persistable", "bool"),
            Field(3, "need_check_feed", "bool"),
        ),
    ),
    "VarType": Table(6, (Field(0, "type", "int32"), Field(2, "lod_tensor", "LoDTensorDesc"))),
    "LoDTensorDesc": Table(2, (Field(0, "tensor", "TensorDesc", required=True), Field(1, "lod_level", "int32"))),
    "TensorDesc": Table(2, (Field(0, "data_type", "int32"), Field(1, "dims", "[int64]"))),
    "OpDesc": Table(
        5,
        (
            Field(0, "type", "string", required=True),
            Field(1, "inputs", "[Var]"),
            Field(2, "outputs", "[Var]"),
            Field(3, "attrs", "[Attr]"),
            Field(4, "is_target", "bool"),
        ),
    ),
    "Var": Table(2, (Field(0, "parameter", "string", required=True), Field(1, "arguments", "[string]"))),
    "Attr": Table(
        16,
        (
            Field(0, "name", "string", required=True),
            Field(1, "type", "int32"),
            Field(2, "i", "int32"),
            Field(3, "f", "float32"),
            Field(4, "s", "string"),
            Field(5, "ints", "[int32]"),
            Field(6, "floats", "[float32]"),
            Field(7, "strings", "[string]"),
            Field(8, "b", "bool"),
            Field(9, "bools", "[bool]"),
            Field(10, "block_idx", "int32"),
            Field(11, "l", "int64"),
            Field(12, "blocks_idx", "[int32]"),
            Field(13, "longs", "[int64]"),
            Field(14, "float64", "float64"),
            Field(15, "float64s", "[float64]"),
        ),
    ),
    "ParamDesc": Table(
        4,
        (
            Field(1, "name", "string", required=True),
            Field(2, "variable_type", "uint8"),
            Field(3, "variable", "ParamTensor"),
        ),
    ),
    "ParamTensor": Table(
        5,
        (
            Field(0, "lod_level", "int32"),
            Field(1, "lod", "[int64]"),
            Field(2, "dim", "[int64]", required=True),
            Field(3, "data_type", "int32"),
            Field(4, "data", "bytes", required=True),
        ),
    ),
    "CombinedParamsDesc": Table(1, (Field(0, "params", "[ParamDesc]"),)),
}

PARAM_LOD_TENSOR = 1
"""Union tag of ``ParamDesc.variable``: the only kind that exists."""

ATTRIBUTE_FIELDS = ("i", "f", "s", "ints", "floats", "strings", "b", "bools", "block_idx", "l", "blocks_idx", "longs")
"""Field of table ``Attr`` that holds the value, by attribute type 0 to 11."""
