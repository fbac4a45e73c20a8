"""Structure of a ``.nb`` file from its bytes; written by this program or by any ``opt`` from 2.7 on."""

from __future__ import annotations

import math
import struct
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
    numpy_type,
)

HEADER = struct.Struct("<H16sQ")


def parse(data: bytes, *, where: str = "") -> NbFile:
    """Read a whole file.

    Args:
        data: Its bytes. Parameters are read-only views of them.
        where: Name of the file for messages.

    Raises:
        FormatError: It is not a ``.nb`` file, of an unknown or too old layout, or damaged.
    """
    meta, version, topology_size = _header(data, where=where)
    if meta == 0:
        raise FormatError(
            "this file has the layout of Paddle-Lite before 2.7 (meta_version 0)",
            where=where,
            hint="convert the Paddle model again with a newer opt",
        )
    view = memoryview(data)
    end = HEADER.size + topology_size
    program = _program(SCHEMA.decode("ProgramDesc", view[HEADER.size : end], where=f"{where} topology".strip()), where)
    parameters = _stream(view[end:], where) if meta == 2 else _combined(view[end:], where)
    return NbFile(program, parameters, meta, version)


def _header(data: bytes, *, where: str) -> tuple[int, str, int]:
    if len(data) < HEADER.size:
        raise FormatError("this is not a .nb file: it is too short", where=where)
    meta, raw, topology_size = HEADER.unpack_from(data)
    version = raw.split(b"\0", 1)[0]
    if meta > 2 or not version or not all(32 < byte < 127 for byte in version):
        raise FormatError("this is not a .nb file", where=where)
    if HEADER.size + topology_size > len(data):
        raise FormatError("the file is truncated: its topology is incomplete", where=where)
    return meta, version.decode("ascii"), topology_size


def _stream(view: memoryview, where: str) -> dict[str, NDArray[Any]]:
    cursor = _Cursor(view, where)
    version, meta_size = cursor.take("<HH")
    if version != 0:
        raise FormatError(f"parameters of version {version} are unknown", where=where)
    cursor.skip(meta_size)
    (header_size,) = cursor.take("<H")
    if header_size < 6:
        raise FormatError(f"the parameter header has {header_size} bytes, fewer than 6", where=where)
    count, _ = cursor.take("<HI")
    cursor.skip(header_size - 6)
    parameters: dict[str, NDArray[Any]] = {}
    for _ in range(count):
        total, offset = cursor.take("<II")
        if offset < 4 or total < offset:
            raise FormatError("the size of a parameter makes no sense", where=where)
        cursor.skip(offset - 4)
        name, array = _parameter(SCHEMA.decode("ParamDesc", cursor.span(total - offset), where=where), where)
        parameters[name] = array
    return parameters


class _Cursor:
    def __init__(self, view: memoryview, where: str) -> None:
        self._view, self._where, self._position = view, where, 0

    def span(self, length: int) -> memoryview:
        start, self._position = self._position, self._position + length
        if self._position > len(self._view):
            raise FormatError("the file is truncated: parameters are incomplete", where=self._where)
        return self._view[start : self._position]

    def skip(self, length: int) -> None:
        self.span(length)

    def take(self, code: str) -> tuple[int, ...]:
        return struct.unpack(code, self.span(struct.calcsize(code)))


def _combined(view: memoryview, where: str) -> dict[str, NDArray[Any]]:
    root = SCHEMA.decode("CombinedParamsDesc", view, where=where)
    return dict(_parameter(item, where) for item in root.get("params", ()))


def _parameter(table: dict[str, Any], where: str) -> tuple[str, NDArray[Any]]:
    name = str(table["name"])
    tensor = table.get("variable")
    if table["variable_type"] != PARAM_LOD_TENSOR or tensor is None:
        raise FormatError(f"parameter {name} is not a tensor", where=where)
    dtype = numpy_type(tensor["data_type"], where=f"{where} parameter {name}".strip())
    dims, data = tuple(tensor["dim"].tolist()), tensor["data"]
    if any(d < 0 for d in dims) or math.prod(dims) * dtype.itemsize != len(data):
        raise FormatError(f"parameter {name} has {len(data)} bytes, not those of shape {list(dims)}", where=where)
    return name, np.frombuffer(data, dtype.newbyteorder("<")).reshape(dims)


def _program(table: dict[str, Any], where: str) -> Program:
    blocks = [_block(item, where) for item in table.get("blocks", ())]
    if not blocks:
        raise FormatError("the topology has no block", where=where)
    return Program(blocks, int(table.get("version", {}).get("version", 0)))


def _block(table: dict[str, Any], where: str) -> Block:
    return Block(
        index=table["idx"],
        parent=table["parent_idx"],
        variables=[_variable(item) for item in table.get("vars", ())],
        operators=[_operator(item, where) for item in table.get("ops", ())],
        forward=table["forward_block_idx"],
    )


def _variable(table: dict[str, Any]) -> Variable:
    kind = table["type"]
    variable = Variable(table["name"], kind["type"], persistable=table["persistable"])
    if "lod_tensor" in kind:
        tensor = kind["lod_tensor"]["tensor"]
        variable.dtype, variable.dims = tensor["data_type"], _numbers(tensor.get("dims", ()))
    return variable


def _operator(table: dict[str, Any], where: str) -> Operator:
    place = f"{where} operator {table['type']}".strip()
    return Operator(
        table["type"],
        _slots(table.get("inputs", ())),
        _slots(table.get("outputs", ())),
        {item["name"]: _attribute(item, place) for item in table.get("attrs", ())},
    )


def _slots(tables: Any) -> dict[str, list[str]]:
    return {item["parameter"]: list(item.get("arguments", ())) for item in tables}


def _attribute(table: dict[str, Any], where: str) -> Attribute:
    try:
        kind = AttrType(table["type"])
    except ValueError:
        raise FormatError(f"attribute {table['name']} has unknown type {table['type']}", where=where) from None
    if kind is AttrType.FLOAT64:
        return Attribute(kind, table["float64"])
    if kind is AttrType.FLOAT64S:
        return Attribute(kind, _numbers(table.get("float64s", ())))
    if kind > AttrType.LONGS:
        return Attribute(kind, ())
    value = table.get(ATTRIBUTE_FIELDS[kind], "" if kind is AttrType.STRING else ())
    if kind is AttrType.BOOLEANS:
        value = tuple(bool(v) for v in value)
    return Attribute(kind, value if isinstance(value, (str, bool, int, float)) else _numbers(value))


def _numbers(values: Any) -> tuple[Any, ...]:
    return tuple(values.tolist() if isinstance(values, np.ndarray) else values)
