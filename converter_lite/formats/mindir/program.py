"""A MindIR file as it lies on disk: graphs of nodes that name each other, primitives that nodes refer to, constants in place.

Source: ``mind_ir.proto`` of MindSpore (field numbers and enumerations), and files that MindSpore 2.0 to 2.7 wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Span = tuple[int, int]
"""Where a message begins and ends in the file."""

DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    10: np.dtype("<f2"),
    11: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
    17: np.dtype("<f8"),
}
"""``TensorProto.DataType`` -> elements."""

TYPE_NAMES = {0: "undefined", 8: "string", 14: "complex64", 15: "complex128", 16: "bfloat16", 18: "qint4x2"}
"""The other ones."""

TYPE_IDS: dict[int, np.dtype[Any]] = {
    30: np.dtype("?"),
    32: np.dtype("i1"),
    33: np.dtype("<i2"),
    34: np.dtype("<i4"),
    35: np.dtype("<i8"),
    37: np.dtype("u1"),
    38: np.dtype("<u2"),
    39: np.dtype("<u4"),
    40: np.dtype("<u8"),
    42: np.dtype("<f2"),
    43: np.dtype("<f4"),
    44: np.dtype("<f8"),
}
"""Numbers of MindSpore's ``TypeId``, by which operators of newer files name a type -> elements."""


@dataclass(frozen=True, slots=True)
class ExternalBytes:
    """Where a weight lies that is not in the file itself: bytes ``offset`` to ``offset + length`` of ``location``."""

    location: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A constant, or only its type and shape.

    Attributes:
        name: Its name, that of a weight as ``graph:weight``.
        kind: ``TensorProto.DataType``.
        dims: Sizes; -1: open, -2: not even their number is known.
        data: Its bytes in the file; ``None``: there are none here.
        apart: Its place in another file.
        key: The name of a weight in the program that exported it.
        compression: ``CompressionType``; 0: none.
        is_quantized: It has quantization parameters.
    """

    name: str
    kind: int
    dims: tuple[int, ...]
    data: memoryview | None = None
    apart: ExternalBytes | None = None
    key: str = ""
    compression: int = 0
    is_quantized: bool = False


class Monad:
    """The value that orders side effects; it holds nothing."""


MONAD = Monad()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value of a kind that no operator here takes.

    Attributes:
        kind: Its name.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class Primitive:
    """An operator with its attributes, for all nodes that refer to it.

    Attributes:
        operator: Its type.
        attributes: Name -> where the value lies.
        is_function: All of its arguments are inputs of nodes.
    """

    operator: str
    attributes: dict[str, Span]
    is_function: bool = False


@dataclass(slots=True)
class Node:
    """One call of an operator, or a constant.

    Attributes:
        operator: Type, ``REF::`` with the name of a primitive or graph, or ``Constant``.
        inputs: What it reads.
        output: The name of what it gives.
        scope: Its full name in the program, ``Default/fc-Dense/MatMul-op3``.
        attributes: Name -> where the value lies.
    """

    operator: str
    inputs: list[str]
    output: str
    scope: str
    attributes: dict[str, Span]


@dataclass(slots=True)
class Graph:
    """A function.

    Attributes:
        name: Its name, which is the first part of those in it.
        nodes: In the order in which they run.
        inputs: Name and type of each.
        outputs: What it gives: one value, or a tuple.
        parameters: Weights.
    """

    name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    parameters: list[Tensor] = field(default_factory=list)

    def short(self, name: str) -> str:
        """A name in this graph without that of the graph."""
        return name.removeprefix(f"{self.name}:")


@dataclass(slots=True)
class Program:
    """A file.

    Attributes:
        graph: Where it begins.
        functions: Other graphs by name.
        primitives: By name.
        producer: Program and version that wrote it.
        version: Of the format.
        where: The file, for messages.
    """

    graph: Graph
    functions: dict[str, Graph]
    primitives: dict[str, Primitive]
    producer: str
    version: int
    where: str


def type_name(kind: int) -> str:
    """A ``TensorProto.DataType`` in words."""
    return str(DTYPES[kind].newbyteorder("=")) if kind in DTYPES else TYPE_NAMES.get(kind, f"type {kind}")


def shape_text(dims: Sequence[int]) -> str:
    """Sizes as ``1x3x224x224``."""
    return "x".join("?" if size < 0 else str(size) for size in dims) or "scalar"
