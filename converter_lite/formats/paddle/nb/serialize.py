"""Bytes of a ``.nb`` file from its structure. The same structure gives the same bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats.paddle.nb.schema import ATTRIBUTE_FIELDS, PARAM_LOD_TENSOR, SCHEMA
from converter_lite.formats.paddle.program import (
    Attribute,
    AttrType,
    Block,
    NbFile,
    Operator,
    Program,
    Variable,
    VarType,
    var_type,
)

MAX_PARAMETERS = 65535
"""The header counts parameters in 16 bits."""

MAX_PARAMETER_BYTES = 2**31 - 65536
"""FlatBuffers and the 32-bit sizes of the file end here."""


def serialize(file: NbFile) -> bytes:
    """The whole file.

    Raises:
        FormatError: It cannot be expressed: too many parameters, a parameter too large, an unknown meta version.
    """
    if file.meta_version not in (1, 2):
        raise FormatError(f"meta_version {file.meta_version} cannot be written", hint="use 1 or 2")
    topology = SCHEMA.encode("ProgramDesc", program_dict(file.program))
    name = file.opt_version.encode("ascii", "replace")[:15].ljust(16, b"\0")
    parts = [struct.pack("<H16sQ", file.meta_version, name, len(topology)), topology]
    ordered = sorted(file.parameters.items(), key=lambda item: item[0].encode())
    if len(ordered) > MAX_PARAMETERS:
        raise FormatError(f"{len(ordered)} parameters are too many for a .nb file ({MAX_PARAMETERS})")
    parts.extend(_parameter_stream(ordered) if file.meta_version == 2 else [_combined(ordered)])
    return b"".join(parts)


def _parameter_stream(parameters: list[tuple[str, NDArray[Any]]]) -> Iterable[bytes]:
    largest = max((array.nbytes for _, array in parameters), default=0)
    yield struct.pack("<HHHHI", 0, 0, 6, len(parameters), largest)
    for name, array in parameters:
        data = SCHEMA.encode("ParamDesc", _parameter_dict(name, array))
        yield struct.pack("<II", 4 + len(data), 4)
        yield data


def _combined(parameters: list[tuple[str, NDArray[Any]]]) -> bytes:
    total = sum(array.nbytes + 1024 for _, array in parameters)
    if total > MAX_PARAMETER_BYTES:
        raise FormatError("the parameters are too large for meta_version 1", hint="use meta_version 2")
    return SCHEMA.encode("CombinedParamsDesc", {"params": [_parameter_dict(*item) for item in parameters]})


def _parameter_dict(name: str, array: NDArray[Any]) -> dict[str, Any]:
    if array.nbytes > MAX_PARAMETER_BYTES:
        raise FormatError(f"parameter {name} has {array.nbytes} bytes, more than a .nb file can hold in one")
    little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return {
        "name": name,
        "variable_type": PARAM_LOD_TENSOR,
        "variable": {
            "dim": array.shape,
            "data_type": var_type(array.dtype),
            "data": little_endian.tobytes(),
        },
    }


def program_dict(program: Program) -> dict[str, Any]:
    """A program as the dictionary of its flatbuffer; keys that the runtime searches are sorted by bytes."""
    return {
        "version": {"version": program.version},
        "blocks": [_block_dict(block) for block in program.blocks],
    }


def _block_dict(block: Block) -> dict[str, Any]:
    return {
        "idx": block.index,
        "parent_idx": block.parent,
        "vars": [_variable_dict(variable) for variable in block.variables],
        "ops": [_operator_dict(operator) for operator in block.operators],
        "forward_block_idx": block.forward,
    }


def _variable_dict(variable: Variable) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": variable.kind}
    if variable.kind == VarType.LOD_TENSOR:
        kind["lod_tensor"] = {"tensor": {"data_type": variable.dtype, "dims": variable.dims}}
    return {"name": variable.name, "type": kind, "persistable": variable.persistable}


def _operator_dict(operator: Operator) -> dict[str, Any]:
    return {
        "type": operator.type,
        "inputs": _slots(operator.inputs),
        "outputs": _slots(operator.outputs),
        "attrs": [
            _attribute_dict(name, value)
            for name, value in sorted(operator.attributes.items(), key=lambda item: item[0].encode())
        ],
    }


def _slots(slots: dict[str, list[str]]) -> list[dict[str, Any]]:
    ordered = sorted(slots.items(), key=lambda item: item[0].encode())
    return [{"parameter": slot, "arguments": names} for slot, names in ordered]


def _attribute_dict(name: str, attribute: Attribute) -> dict[str, Any]:
    if attribute.type > AttrType.LONGS:
        raise FormatError(f"attribute {name} has type {attribute.type.name}, which released runtimes do not know")
    return {"name": name, "type": attribute.type, ATTRIBUTE_FIELDS[attribute.type]: attribute.value}
