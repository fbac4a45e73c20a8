"""A Paddle program as plain data: what both a ``.nb`` file and a Paddle inference model hold.

Numbers of the enums are those of the files (docs/formats/paddle_nb.md).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import FormatError


class VarType(enum.IntEnum):
    """Kind of a variable, or element type of a tensor."""

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    TUPLE = 18
    SIZE_T = 19
    UINT8 = 20
    INT8 = 21


class AttrType(enum.IntEnum):
    """Type of an operator attribute; the runtime asks for exactly this type."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    FLOAT64S = 12
    VAR = 13
    VARS = 14
    FLOAT64 = 15
    SCALAR = 16
    SCALARS = 17


_NUMPY: dict[VarType, type[np.generic]] = {
    VarType.BOOL: np.bool_,
    VarType.INT16: np.int16,
    VarType.INT32: np.int32,
    VarType.INT64: np.int64,
    VarType.FP16: np.float16,
    VarType.FP32: np.float32,
    VarType.FP64: np.float64,
    VarType.UINT8: np.uint8,
    VarType.INT8: np.int8,
}
_FLOAT = struct.Struct("<f")
_FROM_NUMPY = {np.dtype(scalar): kind for kind, scalar in _NUMPY.items()}


def numpy_type(kind: int, *, where: str = "") -> np.dtype[Any]:
    """NumPy element type of a tensor type.

    Raises:
        FormatError: The number is not an element type of tensors.
    """
    try:
        return np.dtype(_NUMPY[VarType(kind)])
    except (KeyError, ValueError):
        raise FormatError(f"element type {kind} is not one of a tensor", where=where) from None


def var_type(dtype: np.dtype[Any]) -> VarType:
    """Tensor type of a NumPy element type.

    Raises:
        FormatError: Paddle has no such type (unsigned integers above 8 bits, complex numbers, strings).
    """
    try:
        return _FROM_NUMPY[dtype.newbyteorder("=")]
    except KeyError:
        raise FormatError(f"Paddle has no tensors of {dtype}") from None


@dataclass(frozen=True, slots=True)
class Attribute:
    """A typed attribute value; lists are tuples."""

    type: AttrType
    value: Any


def attr(value: bool | int | float | str) -> Attribute:
    """Attribute of a scalar: BOOLEAN, INT, FLOAT (as float32 holds it) or STRING by the Python type."""
    if isinstance(value, bool):
        return Attribute(AttrType.BOOLEAN, value)
    if isinstance(value, int):
        return Attribute(AttrType.INT, value)
    if isinstance(value, float):
        return Attribute(AttrType.FLOAT, _FLOAT.unpack(_FLOAT.pack(value))[0])
    return Attribute(AttrType.STRING, value)


def ints(values: Sequence[int]) -> Attribute:
    """INTS attribute."""
    return Attribute(AttrType.INTS, tuple(int(v) for v in values))


def long(value: int) -> Attribute:
    """LONG attribute."""
    return Attribute(AttrType.LONG, int(value))


def longs(values: Sequence[int]) -> Attribute:
    """LONGS attribute."""
    return Attribute(AttrType.LONGS, tuple(int(v) for v in values))


def floats(values: Sequence[float] | NDArray[np.floating]) -> Attribute:
    """FLOATS attribute, each value as float32 holds it."""
    return Attribute(AttrType.FLOATS, tuple(np.asarray(values, np.float32).tolist()))


@dataclass(slots=True)
class Variable:
    """A declared variable; ``dims`` is empty for kinds without a tensor."""

    name: str
    kind: int = VarType.LOD_TENSOR
    dtype: int = VarType.FP32
    dims: tuple[int, ...] = ()
    persistable: bool = False


@dataclass(slots=True)
class Operator:
    """One operator: slots hold lists of variable names."""

    type: str
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Value of an attribute, or ``default`` when it is absent."""
        found = self.attributes.get(name)
        return default if found is None else found.value

    def input(self, slot: str) -> str | None:
        """First variable of an input slot, or ``None``."""
        names = self.inputs.get(slot)
        return names[0] if names else None

    def output(self, slot: str) -> str | None:
        """First variable of an output slot, or ``None``."""
        names = self.outputs.get(slot)
        return names[0] if names else None


@dataclass(slots=True)
class Block:
    """Variables and operators in running order."""

    index: int = 0
    parent: int = -1
    variables: list[Variable] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    forward: int = -1


FIRST_SCALARS = 2_005_000
"""Version of the framework from which reductions and slices may leave no dimension; before, they leave one of size 1."""


@dataclass(slots=True)
class Program:
    """Blocks; the first is the main one. ``version`` is that of the framework (2.6.2 is 2006002), 0 when unknown."""

    blocks: list[Block] = field(default_factory=list)
    version: int = 0

    def copy(self) -> Program:
        """Another program with the same variables and operators."""
        return Program(
            [replace(b, variables=[*b.variables], operators=[*b.operators]) for b in self.blocks], self.version
        )

    @property
    def has_scalars(self) -> bool:
        """Whether its operators make tensors without dimensions."""
        return self.version >= FIRST_SCALARS

    @property
    def main(self) -> Block:
        """The main block.

        Raises:
            FormatError: The program is empty.
        """
        if not self.blocks:
            raise FormatError("the program has no block")
        return self.blocks[0]


@dataclass(slots=True)
class NbFile:
    """Everything that a ``.nb`` file holds.

    Attributes:
        program: The topology.
        parameters: Name -> array in its stored element type.
        meta_version: Layout of the file, 1 or 2.
        opt_version: Release that the file names as its writer.
    """

    program: Program
    parameters: dict[str, NDArray[Any]]
    meta_version: int = 2
    opt_version: str = "v2.12"


def refuse_difference(again: NbFile, file: NbFile) -> None:
    """Refuse a file whose content, read back, differs from what was written.

    Raises:
        FormatError: It does.
    """
    if again.program != file.program:
        raise FormatError("the written file does not read back as the program that it was made from")
    changed = [name for name in file.parameters if not _same(again.parameters.get(name), file.parameters[name])]
    if changed or len(again.parameters) != len(file.parameters):
        raise FormatError(f"parameters do not read back as they were: {', '.join(changed[:5])}")


def _same(first: NDArray[Any] | None, second: NDArray[Any]) -> bool:
    """Equal type, shape and bytes."""
    if first is None or first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool(
        np.array_equal(first.reshape(-1).view(np.uint8), np.ascontiguousarray(second).reshape(-1).view(np.uint8))
    )
