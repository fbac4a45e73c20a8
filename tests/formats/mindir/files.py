"""Small MindIR files, written byte by byte from mind_ir.proto's field numbers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import ArrayLike, NDArray

from converter_lite.formats.mindir.source import read_source
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.runtime.engine import DEFAULT_ENGINE

Arrays = dict[str, NDArray[Any]]

KINDS = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}
"""Elements -> ``TensorProto.DataType``."""


def varint(number: int) -> bytes:
    """A whole number of the wire format."""
    number &= (1 << 64) - 1
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def chunk(number: int, content: bytes | str) -> bytes:
    """A field of bytes: a text, a message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def whole(number: int, value: int) -> bytes:
    """A field with a whole number."""
    return varint(number << 3) + varint(value)


@dataclass(frozen=True)
class Described:
    """A type and shape."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Type:
    """A type of elements as a value."""

    dtype: str


@dataclass(frozen=True)
class Name:
    """A value of the graph."""

    text: str


@dataclass(frozen=True)
class Weight:
    """A parameter of the graph."""

    array: NDArray[Any]


class Monad:
    """What orders side effects."""


def tensor(value: Described | NDArray[Any], name: str = "") -> bytes:
    """A TensorProto: numbers, or a type and shape alone."""
    dtype = value.dtype if isinstance(value, Described) else value.dtype.name
    made = b"".join(whole(1, size) for size in value.shape) + whole(2, KINDS[str(dtype)])
    if not isinstance(value, Described):
        made += chunk(9, np.ascontiguousarray(value).tobytes())
    return made + chunk(7, name)


def attribute(value: Any, name: str = "", *, single: bool = False) -> bytes:
    """An AttributeProto; ``single``: a number in a tuple, which lies in a list of one."""
    head = chunk(1, name)
    if isinstance(value, bool):
        return head + whole(10 if single else 3, value) + whole(16, 9)
    if isinstance(value, int):
        return head + whole(10 if single else 3, value) + whole(16, 7)
    if isinstance(value, float):
        return head + varint((8 if single else 2) << 3 | 5) + struct.pack("<f", value) + whole(16, 1)
    if isinstance(value, str):
        return head + chunk(11 if single else 5, value) + whole(16, 8)
    if value is None:
        return head + whole(16, 25)
    if isinstance(value, Monad):
        return head + whole(16, 23)
    if isinstance(value, Type):
        return head + chunk(12, whole(2, KINDS[value.dtype]) + chunk(7, "value0")) + whole(16, 19)
    if isinstance(value, Described | np.ndarray):
        return head + chunk(12, tensor(value, "value0")) + whole(16, 19)
    if isinstance(value, tuple | list):
        parts = b"".join(chunk(17, attribute(part, single=True)) for part in value)
        return head + parts + whole(16, 20 if isinstance(value, tuple) else 21)
    raise TypeError(value)


def attributes(number: int, values: Mapping[str, Any]) -> bytes:
    return b"".join(chunk(number, attribute(value, name)) for name, value in values.items())


@dataclass
class Program:
    """A file that is being written.

    Attributes:
        name: Of its graph.
        version: Of the format: 1 in files of MindSpore 2.0, 3 in those of 2.7.
    """

    name: str = "net"
    version: int = 3
    nodes: list[bytes] = field(default_factory=list)
    inputs: list[bytes] = field(default_factory=list)
    parameters: list[bytes] = field(default_factory=list)
    primitives: list[bytes] = field(default_factory=list)
    functions: list[bytes] = field(default_factory=list)
    count: int = 0

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Name:
        """An input of the graph."""
        full = f"{self.name}:{name}"
        self.inputs.append(chunk(1, full) + chunk(2, tensor(Described(dtype, tuple(shape)))))
        return Name(full)

    def weight(self, name: str, array: ArrayLike, *, apart: tuple[str, int, int] | None = None) -> Name:
        """A parameter; ``apart``: where it lies in another file."""
        numbers, full = np.asarray(array), f"{self.name}:{name}"
        if apart is None:
            content = tensor(numbers, full)
        else:
            place = chunk(1, apart[0]) + whole(2, apart[1]) + whole(3, apart[2])
            content = tensor(Described(numbers.dtype.name, numbers.shape), full) + chunk(12, place)
        self.parameters.append(content + chunk(13, name))
        return Name(full)

    def constant(self, value: Any) -> Name:
        """A constant node."""
        self.count += 1
        name = f"ValueNode_{self.count}"
        self.nodes.append(chunk(2, name) + chunk(3, name) + chunk(4, "Constant") + chunk(5, attribute(value, "value")))
        return Name(name)

    def load(self, weight: Name) -> Name:
        """A parameter as the graph reads it."""
        return self.node("Load", weight, Monad())

    def node(
        self, operator: str, *given: Any, own: Mapping[str, Any] | None = None, declared: Any = None, scope: str = ""
    ) -> Name:
        """A call of an operator with arguments and attributes of its primitive; what is no name becomes a constant."""
        names = []
        for part in given:
            if isinstance(part, Weight):
                part = self.load(self.weight(f"weight{len(self.parameters)}", part.array))
            names.append(part if isinstance(part, Name) else self.constant(part))
        self.count += 1
        primitive, output = f"{operator}:{self.count}", f"{self.name}:CNode_{self.count}"
        kind = whole(5, 2 if self.version > 1 else 1)
        self.primitives.append(chunk(1, primitive) + chunk(2, operator) + attributes(3, own or {}) + kind)
        self._add(f"REF::{primitive}", names, output, scope or f"Default/{operator}-op{self.count}", declared)
        return Name(output)

    def call(self, function: str, *given: Any) -> Name:
        """A call of a function."""
        names = [part if isinstance(part, Name) else self.constant(part) for part in given]
        self.count += 1
        output = f"{self.name}:CNode_{self.count}"
        self._add(f"REF::{function}", names, output, f"Default/call-op{self.count}", None)
        return Name(output)

    def _add(self, operator: str, names: Sequence[Name], output: str, scope: str, declared: Any) -> None:
        made = (
            b"".join(chunk(1, name.text) for name in names) + chunk(2, output) + chunk(3, output) + chunk(4, operator)
        )
        if declared is not None:
            made += chunk(5, attribute(declared, "shape"))
        self.nodes.append(made + chunk(7, scope))

    def graph(self, *outputs: Name) -> bytes:
        """A GraphProto."""
        parts = [chunk(1, node) for node in self.nodes]
        parts += [chunk(2, self.name), *(chunk(3, weight) for weight in self.parameters)]
        parts += [chunk(5, given) for given in self.inputs]
        parts += [chunk(6, chunk(1, output.text)) for output in outputs]
        return b"".join(parts)

    def function(self, function: Program, *outputs: Name) -> None:
        """Add another graph, with the primitives that it uses."""
        self.functions.append(function.graph(*outputs))
        self.primitives += function.primitives

    def file(self, *outputs: Name) -> bytes:
        """The whole file."""
        head = chunk(1, "0.1.1") + chunk(2, "MindSpore") + chunk(5, "2.7.1" if self.version > 1 else "2.0.0")
        parts = [head, chunk(7, self.graph(*outputs)), *(chunk(8, function) for function in self.functions)]
        return b"".join([*parts, whole(10, 1), *(chunk(12, p) for p in self.primitives), whole(13, self.version)])


def save(folder: Path, content: bytes, name: str = "net.mindir") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path


def read(path: Path, *, confined: bool = True, **shapes: Sequence[int]) -> Source:
    return read_source(ModelFiles(path, None, shapes, confined=confined))


def run(model: ir.Model, feed: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    """Outputs of a valid graph, in order."""
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    found = DEFAULT_ENGINE.session(proto.SerializeToString(), threads=1, optimize=False).run(dict(feed))
    return [found[str(value.name)] for value in model.graph.outputs]
