"""MindIR files, looked through message by message: values of attributes are decoded when an operator asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.program import (
    MONAD,
    ExternalBytes,
    Graph,
    Node,
    Primitive,
    Program,
    Span,
    Tensor,
    Unknown,
)
from converter_lite.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, Wire
from converter_lite.system.encryption import is_encrypted

LEAST_NODES, BYTES_PER_NODE = 256, 96
"""A file may have so many nodes, and one more for so many of its bytes; those of MindSpore take 150 bytes and more."""

LEAST_NAMES, BYTES_PER_NAME = 4096, 12
"""The same for everything else that is noted: constants, inputs of nodes, attributes, weights."""

DEEPEST = 16
"""Tuples in tuples."""

LONGEST = 1 << 14
"""Numbers of an attribute."""

FUNCTION = 2
"""``PrimType`` of primitives whose arguments are all inputs."""

_INTEGERS = (2, 3, 4, 5, 6, 7, 12, 13)
FLOAT, STRING, BOOL, DOUBLE = 1, 8, 9, 11
TENSOR, TENSORS, TUPLE, LIST, NONE = 17, 19, 20, 21, 25
MONADS = (23, 24)
VALUE_KINDS = {
    18: "a graph",
    22: "a dictionary",
    26: "an operator",
    27: "a graph",
    28: "a partial call",
    29: "one of several graphs",
    30: "a sparse tensor",
    31: "a sparse tensor",
    32: "a sparse tensor",
    33: "a class",
    34: "a name space",
    35: "a symbol",
    37: "a hash table",
    38: "a functor",
    40: "a graph of scalars",
}
"""``AttributeProto.AttributeType`` of values that no operator here takes."""


class Reader:
    """One file.

    Args:
        data: Its bytes.
        where: Its name, for messages.

    Raises:
        ModelError: The file is encrypted.
    """

    def __init__(self, data: bytes, where: str = "") -> None:
        self.where = where
        if is_encrypted(data):
            raise ModelError("the file is encrypted", where=where, hint="give its key with --decryptKey")
        self._wire = Wire(data, self._damaged)
        self._nodes_left = LEAST_NODES + len(data) // BYTES_PER_NODE
        self._names_left = LEAST_NAMES + len(data) // BYTES_PER_NAME
        self._names: dict[str, str] = {}

    def program(self) -> Program:
        """The whole file, without the values of attributes.

        Raises:
            ModelError: It is no MindIR file, or it is damaged.
        """
        graph, functions, primitives = None, dict[str, Graph](), dict[str, Primitive]()
        producer, version, little_endian = ["", ""], 0, True
        for found in self._fields(0, len(self._wire.data)):
            field, kind, first, last = found
            if field == 7 and kind == BYTES:
                graph = self._graph(first, last)
            elif field == 8 and kind == BYTES:
                function = self._graph(first, last)
                functions[function.name] = function
            elif field == 12 and kind == BYTES:
                name, primitive = self._primitive(first, last)
                primitives[name] = primitive
            elif field in (2, 5) and kind == BYTES:
                producer[field == 5] = self._name(found)
            elif field in (10, 13) and kind == VARINT:
                number = self._wire.varint(first)[0]
                little_endian, version = (bool(number), version) if field == 10 else (little_endian, number)
        if graph is None:
            raise ModelError("the file holds no graph of MindSpore", where=self.where, hint="is it a MindIR file?")
        if not little_endian:
            raise ModelError("a file of a big-endian machine is not read", where=self.where)
        return Program(graph, functions, primitives, " ".join(filter(None, producer)), version, self.where)

    def value(self, span: Span, depth: int = 0) -> Any:
        """The value of an attribute: a number, text, ``None``, :class:`Tensor`, or a tuple of such.

        Raises:
            ModelError: It is damaged.
        """
        kind, scalars, several, tensors, text = 0, list[Any](), list[Any](), list[Tensor](), list[str]()
        is_boundless = False
        for found in self._fields(*span):
            field, wire, first, last = found
            if len(several) > LONGEST or (field in (8, 9, 10) and last - first > LONGEST):
                raise self._damaged(f"more than {LONGEST} numbers in an attribute", first)
            if field == 16 and wire == VARINT:
                kind = self._wire.varint(first)[0]
            elif field in (3, 10):
                scalars += self._wire.varints(found)
            elif field in (2, 4, 8, 9):
                scalars += self._reals(found, double=field in (4, 9))
            elif field in (5, 11) and wire == BYTES:
                text.append(self._wire.text(found))
            elif field in (6, 12) and wire == BYTES:
                tensors.append(self.tensor(first, last))
            elif field == 17 and wire == BYTES:
                if depth >= DEEPEST:
                    raise self._damaged(f"more than {DEEPEST} tuples in one another", first)
                several.append(self.value((first, last), depth + 1))
            elif field == 18 and wire == BYTES:
                is_boundless = any(f[0] == 1 and self._wire.varint(f[2])[0] for f in self._fields(first, last))
        return _value(kind, scalars, several, tensors, text, is_boundless=is_boundless)

    def tensor(self, start: int, end: int) -> Tensor:
        """A ``TensorProto``.

        Raises:
            ModelError: It is damaged.
        """
        names, kind, compression, quantized = {7: "", 13: ""}, 0, 0, False
        dims, data, apart = list[int](), None, None
        numbers = False
        for found in self._fields(start, end):
            field, wire, first, last = found
            if field == 1:
                dims += self._wire.varints(found)
                if len(dims) > 32:
                    raise self._damaged(f"a tensor of {len(dims)} dimensions", first)
            elif field in names and wire == BYTES:
                names[field] = self._name(found)
            elif field == 2 and wire == VARINT:
                kind = self._wire.varint(first)[0]
            elif field == 9 and wire == BYTES:
                data = self._wire.data[first:last]
            elif field == 12 and wire == BYTES:
                apart = self._apart(first, last)
            elif field == 16 and wire == VARINT:
                compression = self._wire.varint(first)[0]
            elif field == 17:
                quantized = True
            numbers = numbers or field in (3, 4, 5, 6, 10, 11)
        if numbers and data is None:
            raise ModelError(f"constant '{names[7]}' has its numbers one by one, not as raw_data", where=self.where)
        return Tensor(names[7], kind, tuple(dims), data, apart, names[13], compression, quantized)

    # Messages.

    def _graph(self, start: int, end: int) -> Graph:
        graph = Graph("")
        for found in self._fields(start, end):
            field, kind, first, last = found
            if kind != BYTES:
                continue
            if field == 1:
                graph.nodes.append(self._node(first, last))
            elif field == 2:
                graph.name = self._name(found)
            elif field == 3:
                graph.parameters.append(self._noted_tensor(first, last))
            elif field == 5:
                graph.inputs.append(self._input(first, last))
            elif field == 6:
                graph.outputs += [self._name(f) for f in self._fields(first, last) if f[0] == 1 and f[1] == BYTES]
            elif field == 10:
                raise ModelError("the model has hash tables (MapParameter), which are not read", where=self.where)
        return graph

    def _node(self, start: int, end: int) -> Node:
        node, outputs, own = Node("", [], "", "", {}), 0, ""
        for found in self._fields(start, end):
            field, kind, first, last = found
            if kind != BYTES:
                continue
            if field == 1:
                self._take_names(first)
                node.inputs.append(self._name(found))
            elif field == 2:
                node.output, outputs = self._name(found), outputs + 1
            elif field == 3:
                own = self._name(found)
            elif field == 4:
                node.operator = self._name(found)
            elif field == 5:
                name = self._attribute_name(first, last)
                node.attributes[name] = first, last
            elif field == 7:
                node.scope = self._name(found)
        if not node.operator or outputs != 1:
            raise self._damaged(f"a node with operator '{node.operator}' and {outputs} outputs", start)
        if node.operator == "Constant":
            self._take_names(start, 3)
        else:
            self._nodes_left -= 1
            if self._nodes_left < 0:
                raise self._damaged("it has far more nodes than bytes for them", start)
        node.scope = node.scope or own
        return node

    def _primitive(self, start: int, end: int) -> tuple[str, Primitive]:
        self._take_names(start)
        names, attributes, is_function = {1: "", 2: ""}, dict[str, Span](), False
        for found in self._fields(start, end):
            field, kind, first, last = found
            if field in names and kind == BYTES:
                names[field] = self._name(found)
            elif field == 3 and kind == BYTES:
                attributes[self._attribute_name(first, last)] = first, last
            elif field == 5 and kind == VARINT:
                is_function = self._wire.varint(first)[0] == FUNCTION
        return names[1], Primitive(names[2], attributes, is_function)

    def _input(self, start: int, end: int) -> Tensor:
        """An input with its type; what is no tensor has none."""
        self._take_names(start, 2)
        name, tensors, other = "", list[Tensor](), None
        for found in self._fields(start, end):
            field, kind, first, last = found
            if field == 1 and kind == BYTES:
                name = self._name(found)
            elif field == 2 and kind == BYTES:
                tensors.append(self._noted_tensor(first, last))
            elif field == 5 and kind == BYTES:
                other = first, last
        if len(tensors) != 1:
            described = self.value(other) if other is not None and not tensors else None
            if isinstance(described, Tensor):
                tensors = [described]
            else:
                return Tensor(name, 0, ())
        return Tensor(name, tensors[0].kind, tensors[0].dims)

    def _noted_tensor(self, start: int, end: int) -> Tensor:
        self._take_names(start, 2)
        return self.tensor(start, end)

    def _apart(self, start: int, end: int) -> ExternalBytes:
        location, numbers = "", {2: 0, 3: 0}
        for found in self._fields(start, end):
            field, kind, first, _ = found
            if field == 1 and kind == BYTES:
                location = self._wire.text(found)
            elif field in numbers and kind == VARINT:
                numbers[field] = self._wire.varint(first)[0]
        return ExternalBytes(location, numbers[2], numbers[3])

    def _attribute_name(self, start: int, end: int) -> str:
        self._take_names(start)
        return next((self._name(found) for found in self._fields(start, end) if found[0] == 1), "")

    # Parts of messages.

    def _fields(self, start: int, end: int) -> Iterator[Field]:
        return self._wire.fields(start, end)

    def _reals(self, found: Field, *, double: bool) -> list[float]:
        _, kind, first, last = found
        width = 8 if double else 4
        if kind not in (BYTES, FIXED64 if double else FIXED32) or (last - first) % width:
            raise self._damaged("a number has the wrong type", first)
        numbers = np.frombuffer(self._wire.data, "<f8" if double else "<f4", (last - first) // width, first)
        return [float(number) for number in numbers]

    def _name(self, found: Field) -> str:
        """A text of which the file has many copies."""
        text = self._wire.text(found)
        return self._names.setdefault(text, text)

    def _take_names(self, position: int, count: int = 1) -> None:
        """Allow for something that takes as much memory as so many names."""
        self._names_left -= count
        if self._names_left < 0:
            raise self._damaged("it has far more names than bytes for them", position)

    def _damaged(self, what: str, position: int) -> ModelError:
        return ModelError(
            f"this is no MindIR file, or it is damaged: {what} at byte {position}",
            where=self.where,
            hint="is it what mindspore.export(..., file_format='MINDIR') wrote?",
        )


def _value(
    kind: int, scalars: list[Any], several: list[Any], tensors: list[Tensor], text: list[str], *, is_boundless: bool
) -> Any:
    """The value of an ``AttributeProto`` of this type."""
    if kind in (TUPLE, LIST):
        return Unknown("a tuple of unknown length") if is_boundless else tuple(several)
    if kind == NONE:
        return None
    if kind in MONADS:
        return MONAD
    found: list[Any] = text if kind == STRING else tensors if kind in (TENSOR, TENSORS) else scalars
    if kind not in (*_INTEGERS, FLOAT, DOUBLE, BOOL, STRING, TENSOR, TENSORS):
        return Unknown(VALUE_KINDS.get(kind, f"a value of type {kind}"))
    if kind == BOOL:
        found = [bool(number) for number in scalars]
    elif kind in (FLOAT, DOUBLE):
        found = [float(number) for number in scalars]
    if not found and kind not in (STRING, TENSOR, TENSORS):
        found = [_ZEROS.get(kind, 0)]  # what protobuf leaves out
    return found[0] if len(found) == 1 else "" if kind == STRING and not found else tuple(found)


_ZEROS: dict[int, Any] = {FLOAT: 0.0, DOUBLE: 0.0, BOOL: False}
