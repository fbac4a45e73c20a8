"""A program and its parameters as Paddle's own files: ``--optimize_out_type=protobuf``, and models for tests."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.inference_model.files import ATTRIBUTE_FIELDS, read_combined, read_program
from converter_lite.formats.paddle.inference_model.messages import message_class
from converter_lite.formats.paddle.program import (
    Attribute,
    AttrType,
    NbFile,
    Operator,
    Program,
    VarType,
    refuse_difference,
    var_type,
)


def program_bytes(program: Program) -> bytes:
    """A program file.

    Raises:
        FormatError: An attribute has a type that program files do not have.
    """
    message = message_class("Program")()
    message.version.version = program.version
    for block in program.blocks:
        made = message.blocks.add(idx=block.index, parent_idx=block.parent, forward_block_idx=block.forward)
        for variable in block.variables:
            item = made.vars.add(name=variable.name.encode(), persistable=variable.persistable)
            item.type.type = int(variable.kind)
            if variable.kind == VarType.LOD_TENSOR:
                item.type.lod_tensor.tensor.data_type = int(variable.dtype)
                item.type.lod_tensor.tensor.dims.extend(variable.dims)
        for operator in block.operators:
            _add_operator(made, operator)
    return bytes(message.SerializeToString(deterministic=True))


def _add_operator(block: Any, operator: Operator) -> None:
    made = block.ops.add(type=operator.type.encode())
    for slots, target in ((operator.inputs, made.inputs), (operator.outputs, made.outputs)):
        for slot, names in sorted(slots.items()):
            target.add(parameter=slot.encode(), arguments=[name.encode() for name in names])
    for name, value in sorted(operator.attributes.items()):
        _add_attribute(made, name, value)


def _add_attribute(operator: Any, name: str, value: Attribute) -> None:
    if value.type not in ATTRIBUTE_FIELDS:
        raise FormatError(f"attribute {name} of {operator.type.decode()} has type {value.type.name}")
    item = operator.attrs.add(name=name.encode(), type=int(value.type))
    field = ATTRIBUTE_FIELDS[value.type]
    if isinstance(value.value, tuple):
        encoded = (v.encode() if isinstance(v, str) else v for v in value.value)
        getattr(item, field).extend(encoded)
    else:
        setattr(item, field, value.value.encode() if value.type is AttrType.STRING else value.value)


def tensor_bytes(array: NDArray[Any]) -> bytes:
    """One saved tensor."""
    description = message_class("Tensor")(data_type=int(var_type(array.dtype)), dims=array.shape).SerializeToString()
    head = struct.pack("<IQIi", 0, 0, 0, len(description))
    little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return head + bytes(description) + little_endian.tobytes()


def parameter_bytes(parameters: Mapping[str, NDArray[Any]]) -> bytes:
    """A file with all parameters: ascending bytes of their names."""
    return b"".join(tensor_bytes(parameters[name]) for name in sorted(parameters, key=str.encode))


def protobuf_files(file: NbFile) -> list[bytes]:
    """Bytes of the program and of the parameters; they are read back and compared.

    Raises:
        FormatError: They cannot be expressed, or do not read back as they were.
    """
    made = [program_bytes(file.program), parameter_bytes(file.parameters)]
    program = read_program(made[0])
    refuse_difference(NbFile(program, read_combined(program, made[1])), file)
    return made
