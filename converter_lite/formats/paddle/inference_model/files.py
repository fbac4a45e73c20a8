"""Paddle inference models on disk: which files belong together, the program, the parameters. Paddle is not needed."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from converter_lite.errors import FormatError, ModelError, UsageError
from converter_lite.formats.paddle.inference_model.messages import message_class
from converter_lite.formats.paddle.program import (
    Attribute,
    AttrType,
    Block,
    Operator,
    Program,
    Variable,
    VarType,
    numpy_type,
)
from converter_lite.system.confinement import is_inside

PROGRAM_NAMES = ("__model__", "model", "model.pdmodel", "inference.pdmodel", "inference.json", "model.json")
"""Program files that a model directory may have, in the order in which they are looked for."""

PARAMETER_NAMES = ("params", "weights", "model.pdiparams", "inference.pdiparams", "__params__")
"""Files with all parameters, likewise."""

PROGRAM_SUFFIXES = (".pdmodel", ".json")
"""Ends of the names of program files whose parameters have the same name with another end."""

NO_PARAMETER = (VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.RAW)

ATTRIBUTE_FIELDS = {
    AttrType.INT: "i",
    AttrType.FLOAT: "f",
    AttrType.STRING: "s",
    AttrType.INTS: "ints",
    AttrType.FLOATS: "floats",
    AttrType.STRINGS: "strings",
    AttrType.BOOLEAN: "b",
    AttrType.BOOLEANS: "bools",
    AttrType.BLOCK: "block_idx",
    AttrType.LONG: "l",
    AttrType.BLOCKS: "blocks_idx",
    AttrType.LONGS: "longs",
    AttrType.FLOAT64S: "float64s",
    AttrType.FLOAT64: "float64",
}

SCALAR_FIELDS = {1: "b", 2: "i", 3: "r"}
"""Type of a number with its own type -> its field; complex ones are not read."""


def find_files(directory: Path) -> tuple[Path, Path | None]:
    """Program file of a model directory, and the file with all parameters (``None``: one file per variable).

    A program with another name is found if it is the only one that has its parameters beside it.

    Raises:
        UsageError: The directory does not exist, or holds no Paddle model, or several.
    """
    if not directory.is_dir():
        raise UsageError("the model directory does not exist", where=str(directory))
    program = next((directory / name for name in PROGRAM_NAMES if (directory / name).is_file()), None)
    if program is None:
        program = _only_program(directory)
    return program, find_parameters(program)


def _only_program(directory: Path) -> Path:
    found: dict[str, Path] = {}
    paths = sorted(directory.iterdir())  # unlike glob, it says what is not permitted
    for suffix in PROGRAM_SUFFIXES:
        for path in paths:
            if path.suffix == suffix and path.is_file() and path.with_suffix(".pdiparams").is_file():
                found.setdefault(path.stem, path)
    if not found:
        raise UsageError(
            "there is no Paddle model in this directory",
            where=str(directory),
            hint=f"a program file is called {', '.join(PROGRAM_NAMES)}, or has a .pdiparams file beside it",
        )
    if len(found) > 1:
        raise UsageError(
            f"there are {len(found)} Paddle models in this directory: {', '.join(sorted(found)[:5])}",
            where=str(directory),
            hint="give the program file itself: --modelFile of converter_lite, --model_file of opt",
        )
    return next(iter(found.values()))


def find_parameters(program: Path) -> Path | None:
    """The file with all parameters beside a program; ``None``: one file per variable."""
    named = [program.with_suffix(".pdiparams")] if program.suffix in PROGRAM_SUFFIXES else []
    usual = [program.with_name(name) for name in PARAMETER_NAMES] if program.name in PROGRAM_NAMES else []
    return next((path for path in (*named, *usual) if path != program and path.is_file()), None)


def read_program(data: bytes, *, where: str = "") -> Program:
    """The program in a ``__model__`` or ``.pdmodel`` file.

    Raises:
        ModelError: It is not a Paddle program, or a damaged one.
    """
    message = message_class("Program")()
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError) as error:
        raise ModelError("this is not a Paddle program, or it is damaged", where=where, hint=str(error)) from None
    if not message.blocks:
        raise ModelError("this is not a Paddle program, or it is damaged: it has no block", where=where)
    try:
        program = Program([_block(block) for block in message.blocks], int(message.version.version))
    except (UnicodeDecodeError, FormatError) as error:
        raise ModelError(f"the Paddle program is damaged: {error}", where=where) from None
    _check_interface(program, where)
    return program


def _check_interface(program: Program, where: str) -> None:
    kinds = {operator.type for operator in program.main.operators}
    missing = [kind for kind in ("feed", "fetch") if kind not in kinds]
    if missing:
        raise ModelError(
            f"the program has no {' and no '.join(missing)} operator; the file is truncated or not an inference model",
            where=where,
            hint="save it with paddle.static.save_inference_model or paddle.jit.save",
        )


def _block(message: Any) -> Block:
    forward = message.forward_block_idx if message.HasField("forward_block_idx") else -1
    return Block(
        message.idx,
        message.parent_idx,
        [_variable(item) for item in message.vars],
        [_operator(item) for item in message.ops],
        forward,
    )


def _variable(message: Any) -> Variable:
    variable = Variable(message.name.decode(), message.type.type, persistable=bool(message.persistable))
    if message.type.HasField("lod_tensor"):
        tensor = message.type.lod_tensor.tensor
        variable.dtype, variable.dims = tensor.data_type, tuple(tensor.dims)
    return variable


def _operator(message: Any) -> Operator:
    attributes: dict[str, Attribute] = {}
    for item in message.attrs:
        found = _attribute(item)
        if found is not None:
            attributes[item.name.decode()] = found
    return Operator(message.type.decode(), _slots(message.inputs), _slots(message.outputs), attributes)


def _slots(messages: Iterable[Any]) -> dict[str, list[str]]:
    return {item.parameter.decode(): [name.decode() for name in item.arguments] for item in messages}


def _attribute(message: Any) -> Attribute | None:
    """``None`` for kinds that name variables; no inference operator needs them."""
    try:
        kind = AttrType(message.type)
    except ValueError:
        raise FormatError(f"attribute {message.name!r} has unknown type {message.type}") from None
    if kind is AttrType.SCALAR:
        return Attribute(kind, _scalar(message.scalar))
    if kind is AttrType.SCALARS:
        return Attribute(kind, tuple(_scalar(item) for item in message.scalars))
    if kind not in ATTRIBUTE_FIELDS:
        return None
    value = getattr(message, ATTRIBUTE_FIELDS[kind])
    if kind is AttrType.STRING:
        return Attribute(kind, value.decode("utf-8", "replace"))
    if kind is AttrType.STRINGS:
        return Attribute(kind, tuple(text.decode("utf-8", "replace") for text in value))
    if kind in (AttrType.INT, AttrType.FLOAT, AttrType.BOOLEAN, AttrType.BLOCK, AttrType.LONG, AttrType.FLOAT64):
        return Attribute(kind, value)
    return Attribute(kind, tuple(value))


def _scalar(message: Any) -> bool | int | float:
    if message.type not in SCALAR_FIELDS:
        raise FormatError(f"a number has unknown type {message.type}")
    value: bool | int | float = getattr(message, SCALAR_FIELDS[message.type])
    return value


def parameter_names(program: Program) -> list[str]:
    """Parameters of a program in the order of a combined file: ascending bytes of their names."""
    names = {v.name for v in program.main.variables if v.persistable and v.kind not in NO_PARAMETER}
    return sorted(names, key=str.encode)


def read_combined(program: Program, data: bytes, *, where: str = "") -> dict[str, NDArray[Any]]:
    """Parameters in one file without names.

    Raises:
        ModelError: The file is damaged, or holds another number of parameters than the program declares.
    """
    reader = _Records(data, where)
    parameters = {name: reader.tensor(name) for name in parameter_names(program)}
    if reader.left:
        raise ModelError(
            f"{reader.left} bytes are left behind the last of {len(parameters)} parameters",
            where=where,
            hint="the program and the parameters are not of the same model, or one of them is damaged",
        )
    _check_shapes(program, parameters, where)
    return parameters


def read_separate(program: Program, directory: Path, *, confined: bool = True) -> dict[str, NDArray[Any]]:
    """Parameters in one file per variable.

    Args:
        program: The program; the files have the names of its variables.
        directory: Where they are.
        confined: Refuse files outside the directory.

    Raises:
        ModelError: A file is missing, damaged or outside; all missing ones are named.
    """
    names = parameter_names(program)
    if confined:
        _refuse_outside(names, directory)
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise ModelError(
            f"{len(missing)} of {len(names)} parameters have no file: {', '.join(missing[:5])}",
            where=str(directory),
            hint=f"one file with all parameters is called {', '.join(PARAMETER_NAMES)}",
        )
    parameters: dict[str, NDArray[Any]] = {}
    for name in names:
        reader = _Records((directory / name).read_bytes(), str(directory / name))
        parameters[name] = reader.tensor(name)
        if reader.left:
            raise ModelError(f"{reader.left} bytes are left behind the parameter", where=str(directory / name))
    _check_shapes(program, parameters, str(directory))
    return parameters


def _refuse_outside(names: Iterable[str], directory: Path) -> None:
    outside = [name for name in names if not is_inside(directory / name, directory)]
    if outside:
        raise ModelError(
            f"the file of parameter '{outside[0]}' is outside the model's folder",
            where=str(directory),
            hint="--allowExternalPaths of converter_lite reads it all the same, if you trust the model",
        )


def _check_shapes(program: Program, parameters: dict[str, NDArray[Any]], where: str) -> None:
    for variable in program.main.variables:
        array = parameters.get(variable.name)
        if array is None or not variable.dims or -1 in variable.dims:
            continue
        if math.prod(variable.dims) != array.size:
            raise ModelError(
                f"parameter {variable.name} has shape {list(array.shape)}, the program says {list(variable.dims)}",
                where=where,
                hint="the program and the parameters are not of the same model",
            )


class _Records:
    """Saved tensors, one after another."""

    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where, self._position = memoryview(data), where, 0

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._position

    def _take(self, length: int, name: str) -> memoryview:
        if length < 0 or length > self.left:
            raise ModelError(
                f"the file ends within parameter {name}",
                where=self._where,
                hint="it is truncated, or it belongs to another program",
            )
        start, self._position = self._position, self._position + length
        return self._data[start : self._position]

    def _number(self, code: str, name: str) -> int:
        return int(struct.unpack(code, self._take(struct.calcsize(code), name))[0])

    def tensor(self, name: str) -> NDArray[Any]:
        """The next tensor; ``name`` is for messages."""
        versions = [self._number("<I", name)]
        for _ in range(self._number("<Q", name)):
            self._take(self._number("<Q", name), name)
        versions.append(self._number("<I", name))
        if any(versions):
            raise ModelError(f"parameter {name} is damaged: its version is not 0", where=self._where)
        description = message_class("Tensor")()
        try:
            description.ParseFromString(bytes(self._take(self._number("<i", name), name)))
            dtype = numpy_type(description.data_type)
        except (DecodeError, FormatError) as error:
            raise ModelError(f"parameter {name} is damaged: {error}", where=self._where) from None
        shape = tuple(description.dims)
        if any(size < 0 for size in shape):
            raise ModelError(f"parameter {name} is damaged: shape {list(shape)}", where=self._where)
        raw = self._take(math.prod(shape) * dtype.itemsize, name)
        return np.frombuffer(raw, dtype.newbyteorder("<")).reshape(shape)
