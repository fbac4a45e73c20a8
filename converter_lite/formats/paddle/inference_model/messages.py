"""Message classes of Paddle's program files, built from a field table; no generated code.

Source: docs/formats/paddle_nb.md, Paddle's own models. Enums are declared as int32, so that unknown values survive.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "converter_lite.paddle"

_TYPES = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "float": descriptor_pb2.FieldDescriptorProto.TYPE_FLOAT,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    # Text is read as bytes: a damaged name must be a clear error of ours, not one of the protobuf library.
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}

MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    "Program": ((1, "blocks", "[Block]"), (4, "version", "Version")),
    "Version": ((1, "version", "int64"),),
    "Block": (
        (1, "idx", "int32"),
        (2, "parent_idx", "int32"),
        (3, "vars", "[Variable]"),
        (4, "ops", "[Operator]"),
        (5, "forward_block_idx", "int32"),
    ),
    "Variable": ((1, "name", "string"), (2, "type", "VarType"), (3, "persistable", "bool")),
    "VarType": ((1, "type", "int32"), (3, "lod_tensor", "LoDTensor")),
    "LoDTensor": ((1, "tensor", "Tensor"), (2, "lod_level", "int32")),
    "Tensor": ((1, "data_type", "int32"), (2, "dims", "[int64]")),
    "Operator": (
        (1, "inputs", "[Slot]"),
        (2, "outputs", "[Slot]"),
        (3, "type", "string"),
        (4, "attrs", "[Attribute]"),
    ),
    "Slot": ((1, "parameter", "string"), (2, "arguments", "[string]")),
    "Attribute": (
        (1, "name", "string"),
        (2, "type", "int32"),
        (3, "i", "int32"),
        (4, "f", "float"),
        (5, "s", "string"),
        (6, "ints", "[int32]"),
        (7, "floats", "[float]"),
        (8, "strings", "[string]"),
        (10, "b", "bool"),
        (11, "bools", "[bool]"),
        (12, "block_idx", "int32"),
        (13, "l", "int64"),
        (14, "blocks_idx", "[int32]"),
        (15, "longs", "[int64]"),
        (16, "float64s", "[double]"),
        (19, "float64", "double"),
        (20, "scalar", "Scalar"),
        (21, "scalars", "[Scalar]"),
    ),
    "Scalar": ((1, "type", "int32"), (2, "b", "bool"), (3, "i", "int64"), (4, "r", "double")),
}
"""Message -> (field number, name, type); brackets mean repeated."""


@cache
def message_class(name: str) -> Any:
    """Class of one of :data:`MESSAGES`."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    return pool


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="paddle_program.proto", package=_PACKAGE, syntax="proto2")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, field_name, kind in fields:
            repeated = kind.startswith("[")
            kind = kind.strip("[]")
            field = message.field.add(name=field_name, number=number)
            field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in _TYPES:
                field.type = _TYPES[kind]
            else:
                field.type = field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file
