"""State of one translation from a MindIR program to an ONNX graph.

A name of the program stands for a tensor, or for what lives only while the program is built: a number, a text, a tuple of
such, the monad that orders side effects. Tensors become values of the graph, the rest arguments of translations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.inference import OPSET, Inference
from converter_lite.formats.mindir.program import DTYPES, TYPE_IDS, Tensor, Unknown, shape_text, type_name

MOST_ELEMENTS = (1 << 31) - 1
"""Elements of a tensor."""

FILLED_LIMIT = 1 << 24
"""Elements of all constants that the program asks for and no file holds."""

LONGEST_ARGUMENT = 1024
"""Elements of a constant that is taken for an argument: a shape, axes, sizes."""

Array = NDArray[Any]
Held = Any
"""What a name stands for: ``ir.Value``, a number, text, ``None``, a tuple of such, a type, ``MONAD``."""


class Missing:
    """No argument of this name, and no default for it."""


MISSING = Missing()


@dataclass(slots=True)
class Importer:
    """One translation.

    Attributes:
        nodes: Nodes so far.
        inputs: Inputs of the graph.
        held: What the names of the program stand for.
        filled_left: Elements that further constants may have which are in no file.
        checks_shapes: The shapes in the file are those of the graph; not if the inputs were given others.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    inputs: list[ir.Value] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    filled_left: int = FILLED_LIMIT
    checks_shapes: bool = True
    _taken: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _inference: Inference = field(default_factory=Inference)

    # Values.

    def add_input(self, name: str, kind: np.dtype[Any], dims: Sequence[int]) -> ir.Value:
        """An input of the graph; each open size becomes a symbol."""
        sizes = [size if size >= 0 else ir.SymbolicDim(f"{name}_{axis}") for axis, size in enumerate(dims)]
        element = ir.TensorType(ir.DataType.from_numpy(kind))
        value = ir.Value(name=self.fresh(name), shape=ir.Shape(sizes), type=element)
        _check_size(value)
        self.inputs.append(value)
        return value

    def constant(self, hint: str, array: Array) -> ir.Value:
        """A constant of the graph, as it is: weights stay views of the file."""
        name = self.fresh(hint)
        tensor = ir.Tensor(np.asarray(array, order="C"), name=name)
        return ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)

    def take(self, elements: int) -> None:
        """Allow for constants that are in no file.

        Raises:
            ModelError: All of them together have too many elements.
        """
        self.filled_left -= elements
        if self.filled_left < 0:
            raise ModelError(f"{elements} numbers that are in no file: more than a network has")

    def fresh(self, hint: str) -> str:
        """A name that no value has."""
        return _fresh(hint or "value", self._taken)

    def label(self, hint: str) -> str:
        """A name that no node has."""
        return _fresh(hint, self._labels)

    # Nodes.

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        names: Sequence[str],
        label: str,
        attributes: Mapping[str, Any],
    ) -> list[ir.Value]:
        """Append a node whose outputs have these names; returns them with their types.

        Raises:
            ModelError: The inputs do not fit the operator.
        """
        outputs = [ir.Value(name=name) for name in names]
        given = [ir.convenience.convert_attribute(key, value) for key, value in attributes.items() if value is not None]
        made = ir.Node("", op_type, list(inputs), given, outputs=outputs, name=label)
        self._inference.infer(made)
        for value in outputs:
            _check_size(value)
        self.nodes.append(made)
        return outputs

    def agree(self, value: ir.Value, declared: Held) -> None:
        """Compare a result with the type and shape that the file gives for it, and add what only the file knows.

        Raises:
            ModelError: They differ: the file means something else than what was made.
        """
        if not isinstance(declared, Tensor) or not self.checks_shapes or value.dtype is None:
            return
        kind = DTYPES.get(declared.kind)
        if kind is not None and ir.DataType.from_numpy(kind) != value.dtype:
            raise ModelError(f"its result is {numpy_type(value)}, and {type_name(declared.kind)} in the file")
        if any(size < -1 for size in declared.dims):
            return
        sizes = [None if size < 0 else size for size in declared.dims]
        if value.shape is None:
            value.shape = ir.Shape(sizes)
            return
        found = [size if isinstance(size, int) else None for size in value.shape]
        if len(found) != len(sizes) or any(a != b for a, b in zip(found, sizes, strict=True) if None not in (a, b)):
            shown = shape_text([-1 if size is None else size for size in found])
            raise ModelError(f"its result has the shape {shown}, and {shape_text(declared.dims)} in the file")
        value.shape = ir.Shape(
            [
                size if isinstance(size, int) or known is None else known
                for size, known in zip(value.shape, sizes, strict=True)
            ]
        )

    # The result.

    def model(self, results: Sequence[ir.Value], title: str) -> ir.Model:
        """The finished graph with these outputs; what none of them needs is left out."""
        outputs: list[ir.Value] = []
        for value in results:
            if value.producer() is None or value in outputs:
                name = f"{value.name}.output"
                value = self.node("Identity", [value], [self.fresh(name)], self.label(name), {})[0]
            outputs.append(value)
        needed, kept, constants = set(outputs), list[ir.Node](), dict[ir.Value, None]()
        for node in reversed(self.nodes):
            if needed.isdisjoint(node.outputs):
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
                continue
            kept.append(node)
            needed.update(value for value in node.inputs if value is not None)
        for node in reversed(kept):
            constants.update(
                {value: None for value in node.inputs if value is not None and value.const_value is not None}
            )
        graph = ir.Graph(
            self.inputs,
            outputs,
            nodes=list(reversed(kept)),
            initializers=list(constants),
            opset_imports={"": OPSET},
            name=title or "mindir",
        )
        return ir.Model(graph, ir_version=9)


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
        return placed(self.integer(name, default), rank)

    def axes(self, name: str, rank: int, default: Held = ()) -> list[int]:
        """An argument with axes of so many, counted from the front.

        Raises:
            ModelError: There is one that is not.
        """
        return [
            placed(axis, rank) for axis in ([] if self.get(name, default) is None else self.integers(name, default))
        ]

    def declared_element(self, place: int | None, default: ir.DataType) -> ir.DataType:
        """The type of the elements of the result, or of a part of it, as the file has it."""
        described = self.declared
        if place is not None:
            described = described[place] if isinstance(described, tuple) and place < len(described) else None
        if isinstance(described, Tensor) and described.kind in DTYPES:
            return ir.DataType.from_numpy(DTYPES[described.kind])
        return default

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


def agree(importer: Importer, held: Held, declared: Held) -> None:
    """Compare a result with what the file says of it, part by part."""
    if isinstance(held, ir.Value):
        importer.agree(held, declared)
    elif isinstance(held, tuple) and isinstance(declared, tuple) and len(held) == len(declared):
        for part, described in zip(held, declared, strict=True):
            agree(importer, part, described)


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


def placed(axis: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        ModelError: There is none such.
    """
    if not -rank <= axis < rank:
        raise ModelError(f"it names axis {axis} of {rank}")
    return axis % rank


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value.

    Raises:
        ModelError: It is known at run time only.
    """
    if value.shape is None or not value.shape.is_static():
        raise ModelError(f"the shape of '{value.name}' is known at run time only")
    return value.shape.numpy()


def rank_of(value: ir.Value) -> int:
    """How many dimensions a value has.

    Raises:
        ModelError: It is known at run time only.
    """
    if value.shape is None:
        raise ModelError(f"the number of dimensions of '{value.name}' is known at run time only")
    return len(value.shape)


def is_real(value: ir.Value) -> bool:
    """Whether the elements are floating-point numbers."""
    return value.dtype is not None and value.dtype.is_floating_point()


def numpy_type(value: ir.Value) -> np.dtype[Any]:
    """The type of the elements."""
    assert value.dtype is not None
    return value.dtype.numpy()


def _is_one_number(held: Held) -> bool:
    return isinstance(held, ir.Value) and held.const_value is not None and held.const_value.size == 1


def _check_size(value: ir.Value) -> None:
    if value.shape is not None and value.shape.is_static() and math.prod(value.shape.numpy()) > MOST_ELEMENTS:
        raise ModelError(
            f"'{value.name}' has the shape {list(value.shape.numpy())}: more elements than a tensor can have"
        )


def _fresh(hint: str, taken: dict[str, int]) -> str:
    """``hint``, with a number behind it if it is taken; ``taken`` holds the next number of each."""
    name = hint
    while name in taken:
        name, taken[hint] = f"{hint}_{taken[hint]}", taken[hint] + 1
    taken[name] = 1
    return name


@dataclass(frozen=True, slots=True)
class Kind:
    """How nodes of one operator are translated.

    Attributes:
        translate: Adds the nodes.
        arguments: Names of its inputs in order; in older files the last of them are attributes.
        becomes: ONNX operators, for the documentation.
        attributes: Names of other attributes that are taken into account.
    """

    translate: Callable[[Step], None]
    arguments: str
    becomes: str
    attributes: str = ""
