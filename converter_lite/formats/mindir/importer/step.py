"""The translation of one node of a MindIR program: its arguments, and the nodes that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of, rank_of, shape_of
from converter_lite.formats.mindir.importer.context import MISSING, Held, Importer, agree
from converter_lite.formats.mindir.program import DTYPES, TYPE_IDS, Tensor, Unknown, type_name

LONGEST_ARGUMENT = 1024
"""Elements of a constant that is taken for an argument: a shape, axes, sizes."""


@dataclass(frozen=True, slots=True)
class Step:
    """The translation of one node.

    Attributes:
        importer: The whole translation.
        kind: How nodes of this operator are translated.
        operator: The operator.
        name: Full name of the node, that of the value that it gives.
        output: What the program calls the result.
        given: Its inputs.
        attribute: Gives the value of an attribute of its primitive or of the node, ``MISSING`` if there is none.
        declared: The type and shape of the result in the file: a tensor, or a tuple of such.
    """

    importer: Importer
    kind: Kind
    operator: str
    name: str
    output: str
    given: tuple[Held, ...]
    attribute: Callable[[str], Held]
    declared: Held = None

    # Arguments.

    def get(self, name: str, default: Held = MISSING) -> Held:
        """An argument: an input of the node, or an attribute in older files.

        Raises:
            ModelError: The node has none of this name, and there is no default.
        """
        names = self.kind.arguments.split()
        place = names.index(name) if name in names else len(self.given)
        found = self.given[place] if place < len(self.given) else self.attribute(name)
        if found is MISSING:
            found = default
        if found is MISSING:
            raise ModelError(f"it has no argument '{name}'")
        if isinstance(found, Unknown):
            raise ModelError(f"its argument '{name}' is {found.kind}")
        return found

    def has(self, name: str) -> bool:
        """Whether an argument is there and is not ``None``."""
        return self.get(name, None) is not None

    def tensor(self, name: str, like: ir.Value | None = None) -> ir.Value:
        """An argument as a tensor; a number becomes one of the type of another tensor.

        Raises:
            ModelError: It is something else.
        """
        return self.as_tensor(self.get(name), name, like)

    def as_tensor(self, held: Held, name: str, like: ir.Value | None = None) -> ir.Value:
        """See :meth:`tensor`."""
        if isinstance(held, ir.Value):
            return held
        numbers = held if isinstance(held, tuple) else (held,)
        if any(isinstance(part, ir.Value) for part in numbers):
            return self._stacked(numbers, name)
        if not all(isinstance(number, int | float) for number in numbers):
            raise ModelError(f"its argument '{name}' is no tensor")
        kind = np.asarray(held).dtype.type if like is None or like.dtype is None else like.dtype.numpy().type
        return self.constant(name, held, {np.float64: np.float32}.get(kind, kind) if like is None else kind)

    def _stacked(self, parts: tuple[Held, ...], name: str) -> ir.Value:
        """Numbers of which some are known at run time only, as one tensor of int64."""
        axis, made = self.constant("axis", [0], np.int64), list[ir.Value | None]()
        for part in parts:
            value = self.emit("Cast", self.as_tensor(part, name), to=int(ir.DataType.INT64))
            made.append(self.emit("Unsqueeze", value, axis) if len(shape_of(value)) == 0 else value)
        return self.emit("Concat", *made, axis=0)

    def tensors(self, name: str) -> list[ir.Value]:
        """An argument that is a tuple of tensors.

        Raises:
            ModelError: It is none.
        """
        held = self.get(name)
        if not isinstance(held, tuple):
            raise ModelError(f"its argument '{name}' is no tuple")
        return [self.as_tensor(part, name) for part in held]

    def integer(self, name: str, default: Held = MISSING) -> int:
        """An argument that is a whole number.

        Raises:
            ModelError: It is none, or it is known at run time only.
        """
        numbers = self.integers(name, default)
        if len(numbers) != 1:
            raise ModelError(f"its argument '{name}' is {list(numbers)}, no single number")
        return numbers[0]

    def integers(self, name: str, default: Held = MISSING) -> tuple[int, ...]:
        """An argument that is a whole number, or several.

        Raises:
            ModelError: It is neither, or it is known at run time only.
        """
        return tuple(int(number) for number in self._numbers(name, default, (int, bool)))

    def number(self, name: str, default: Held = MISSING) -> float:
        """An argument that is a number.

        Raises:
            ModelError: It is none, or it is known at run time only.
        """
        numbers = self._numbers(name, default, (int, float))
        if len(numbers) != 1:
            raise ModelError(f"its argument '{name}' is {list(numbers)}, no single number")
        return float(numbers[0])

    def flag(self, name: str, default: Held = MISSING) -> bool:
        """An argument that is true or false."""
        return bool(self.integer(name, default))

    def word(self, name: str, default: Held = MISSING, words: Sequence[str] = ()) -> str:
        """An argument that is a text, in lower case; newer files have its place among ``words``.

        Raises:
            ModelError: It is none.
        """
        held = self.get(name, default)
        if isinstance(held, int) and 0 <= held < len(words):
            return words[held]
        if not isinstance(held, str):
            raise ModelError(f"its argument '{name}' is no text")
        return held.lower()

    def _numbers(self, name: str, default: Held, kinds: tuple[type, ...]) -> tuple[Any, ...]:
        held = self.get(name, default)
        if isinstance(held, ir.Value):
            if held.const_value is None or held.const_value.size > LONGEST_ARGUMENT:
                raise ModelError(f"its argument '{name}' is known at run time only")
            held = tuple(held.const_value.numpy().reshape(-1).tolist())
        parts = held if isinstance(held, tuple) else (held,)
        if any(isinstance(part, ir.Value) for part in parts):
            parts = tuple(part.const_value.numpy().item() if _is_one_number(part) else part for part in parts)
        if any(isinstance(part, ir.Value) for part in parts):
            raise ModelError(f"its argument '{name}' is known at run time only")
        if not all(isinstance(part, kinds) for part in parts):
            raise ModelError(f"its argument '{name}' is {held!r:.60}")
        return parts

    def element(self, name: str) -> ir.DataType:
        """An argument that names a type of elements.

        Raises:
            ModelError: There is none such.
        """
        return element_type(self.get(name))

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of an argument.

        Raises:
            ModelError: They are known at run time only.
        """
        return shape_of(self.tensor(name))

    def rank(self, name: str) -> int:
        """Dimensions of an argument.

        Raises:
            ModelError: Their number is known at run time only.
        """
        return rank_of(self.tensor(name))

    def axis(self, name: str, rank: int, default: Held = MISSING) -> int:
        """An argument that is an axis of so many, counted from the front.

        Raises:
            ModelError: There is none such.
        """
        return axis_of(self.integer(name, default), rank)

    def axes(self, name: str, rank: int, default: Held = ()) -> list[int]:
        """An argument with axes of so many, counted from the front.

        Raises:
            ModelError: There is one that is not.
        """
        return [
            axis_of(axis, rank) for axis in ([] if self.get(name, default) is None else self.integers(name, default))
        ]

    def declared_element(self, place: int | None) -> ir.DataType:
        """The type of the elements of the result, or of a part of it, as the file has it."""
        described = self.declared
        if place is not None:
            described = described[place] if isinstance(described, tuple) and place < len(described) else None
        if isinstance(described, Tensor) and described.kind in DTYPES:
            return ir.DataType.from_numpy(DTYPES[described.kind])
        return ir.DataType.INT32

    # Results.

    def constant(self, what: str, values: object, dtype: type[np.generic] | np.dtype[Any]) -> ir.Value:
        """A constant that is named after the node."""
        return self.importer.constant(f"{self.name}.{what}", np.asarray(values, dtype))

    def ints(self, what: str, values: object) -> ir.Value:
        """A constant of int64: axes, sizes, places."""
        return self.constant(what, values, np.int64)

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """A node in the middle of a translation."""
        return self.emit_many(op_type, inputs, 1, **attributes)[0]

    def converted(self, value: ir.Value, to: ir.DataType) -> ir.Value:
        """A value with elements of a type."""
        return value if value.dtype == to else self.emit("Cast", value, to=int(to))

    def emit_many(
        self, op_type: str, inputs: Sequence[ir.Value | None], count: int, **attributes: Any
    ) -> list[ir.Value]:
        """A node in the middle of a translation, with several outputs."""
        importer, hint = self.importer, f"{self.name}.{op_type.lower()}"
        names = [importer.fresh(hint) for _ in range(count)]
        return importer.node(op_type, inputs, names, importer.label(f"{self.name}.{op_type}"), attributes)

    def finish(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """The node that gives the result."""
        importer = self.importer
        name, label = importer.fresh(self.name), importer.label(self.name)
        value = importer.node(op_type, inputs, [name], label, attributes)[0]
        self.give(value)
        return value

    def finish_many(self, op_type: str, inputs: Sequence[ir.Value | None], count: int, **attributes: Any) -> None:
        """The node whose outputs are the tuple that results."""
        importer = self.importer
        names = [importer.fresh(f"{self.name}_{index}") for index in range(count)]
        self.give(tuple(importer.node(op_type, inputs, names, importer.label(self.name), attributes)))

    def give_first(self, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """The node that gives the first part of the tuple that results; the other parts cannot be read."""
        importer = self.importer
        name, label = importer.fresh(f"{self.name}_0"), importer.label(self.name)
        value = importer.node(op_type, inputs, [name], label, attributes)[0]
        count = len(self.declared) if isinstance(self.declared, tuple) else 1
        rest = Unknown(f"a part of the result of {self.operator} that is not translated")
        self.give((value, *(rest,) * (count - 1)) if isinstance(self.declared, tuple) else value)
        return value

    def give(self, held: Held) -> None:
        """Let something be the result.

        Raises:
            ModelError: The file has another type or shape for it.
        """
        agree(self.importer, held, self.declared)
        self.importer.held[self.output] = held


Translate = Callable[[Step], None]
"""Adds the nodes that a node becomes."""


def element_type(held: Held) -> ir.DataType:
    """A type of elements: a number of MindSpore's, or a tensor that only has a type.

    Raises:
        ModelError: There is none such.
    """
    if isinstance(held, Tensor) and held.data is None and held.kind in DTYPES:
        return ir.DataType.from_numpy(DTYPES[held.kind])
    if isinstance(held, int) and held in TYPE_IDS:
        return ir.DataType.from_numpy(TYPE_IDS[held])
    named = type_name(held.kind) if isinstance(held, Tensor) else repr(held)
    raise ModelError(f"it names the type {named:.60}, which is not read")


def _is_one_number(held: Held) -> bool:
    return isinstance(held, ir.Value) and held.const_value is not None and held.const_value.size == 1


@dataclass(frozen=True, slots=True)
class Kind:
    """How nodes of one operator are translated.

    Attributes:
        translate: Adds the nodes.
        arguments: Names of its inputs in order; in older files the last of them are attributes.
        becomes: ONNX operators, for the documentation.
        attributes: Names of other attributes that are taken into account.
    """

    translate: Translate
    arguments: str
    becomes: str
    attributes: str = ""
