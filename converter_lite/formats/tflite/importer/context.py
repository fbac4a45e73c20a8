"""One subgraph of a TensorFlow Lite file on its way into an ONNX graph.

A tensor of the file may exist as several ONNX values, one for each order of axes: operators on pictures make the order that ONNX
wants, others take what there is, and a Transpose is made only where the wanted order does not exist. Conversions between integers
and reals are no nodes where parameters in the plan say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.graph_builder import rank_of
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.constants import Stored
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator, Subgraph, TfliteModel
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer import folding
from converter_lite.formats.tflite.importer.builder import FLOAT_REASON, UNNAMED, Builder
from converter_lite.formats.tflite.importer.tensors import Tensors
from converter_lite.formats.tflite.importer.values import constant_shape, shape_of
from converter_lite.quantization.plan import NodeMode

PICTURE = 4
"""Axes of a tensor of pictures."""

_SUFFIXES: dict[Perm, str] = {(0, 3, 1, 2): "nchw", (0, 2, 3, 1): "nhwc"}
"""Transpose of pictures -> how its result is called."""

DEEPEST = 32
"""Most subgraphs inside of one another."""

INSIDE_OTHER = "part of a node that computes with floats"
"""Why a node is float that stands beside one with integer weights."""


class Importer(Tensors):
    """Translates the operators of one subgraph.

    Args:
        file: The whole file.
        graph: The subgraph.
        builder: Makes the nodes.
        translate: Translates all operators of a subgraph.
        where: Name of the file, for messages.
    """

    def __init__(
        self, file: TfliteModel, graph: Subgraph, builder: Builder, translate: Translate, where: str = ""
    ) -> None:
        super().__init__(graph)
        self.file = file
        self.builder = builder
        self.where = where
        self.callers: tuple[int, ...] = (0,)
        self._translate = translate
        self.operators = list(graph.operators)

    def sizes(self, index: int) -> list[folding.Size] | None:
        """Numbers of a tensor, or what is known of them; nothing at all where even their count is unknown."""
        known = folding.known(self.value(index))
        return None if known is None else known.reshape(-1).tolist()

    def rank(self, index: int) -> int:
        """Number of axes.

        Raises:
            ModelError: It is unknown.
        """
        if self._is_stored(index):
            return len(self.stored(index).dims)
        return rank_of(self.any_value(index))

    def shape(self, index: int) -> list[int]:
        """Sizes in the order of the file, -1 where they are open.

        Raises:
            ModelError: Even the rank is unknown.
        """
        if self._is_stored(index):
            return list(self.stored(index).dims)
        order = self.order(index)
        found = shape_of(self.any_value(index))
        return [found[order.index(axis)] for axis in range(len(found))] if order else found

    # Using and making values

    def start(self, op: Operator) -> None:
        """Set what the following nodes belong to."""
        builder = self.builder
        first = op.outputs[0] if op.outputs else None
        builder.name = self.graph.tensors[first].name if first is not None and first != NOT_GIVEN else op.kind
        quantized = any(self.params(index) is not None for index in op.outputs if index != NOT_GIVEN)
        builder.mode = NodeMode.INTEGER if quantized else NodeMode.FLOAT
        builder.reason = FLOAT_REASON

    @property
    def is_integer(self) -> bool:
        """Whether the current operator gives integers that stand for real numbers."""
        return self.builder.mode is NodeMode.INTEGER

    def any_value(self, index: int) -> ir.Value:
        """A tensor in whatever order it exists."""
        return self.value(index, self.order(index) or None)

    def value(self, index: int, order: Perm | None = None) -> ir.Value:
        """A tensor with its axes in an order, by default that of the file.

        Raises:
            FormatError: No operator has made the tensor yet.
        """
        if self._is_stored(index):
            return self.constant(index, order or pm.identity(len(self.stored(index).dims)))
        tensor, forms, key = self.tensor(index), self._forms[index], _key(order)
        if not forms and tensor.is_variable:
            raise ModelError(f"{tensor.name} keeps a state between runs, which an ONNX graph has not")
        if not forms and tensor.type is TensorType.RESOURCE:
            raise ModelError(f"the variable {tensor.name} is handed over to another graph or operator")
        if not forms:
            raise FormatError(f"{tensor.name} is used before it is made")
        if key not in forms:
            before, value = next(iter(forms.items()))
            rank = rank_of(value)
            if len(key or before) != rank:
                raise ModelError(f"{tensor.name} has {rank} axes, which does not fit")
            forms[key] = self._turned(index, value, pm.between(before or pm.identity(rank), key or pm.identity(rank)))
        return forms[key]

    def _turned(self, index: int, value: ir.Value, permutation: Perm) -> ir.Value:
        base = str(value.name)
        mode = NodeMode.INTEGER if base in self.builder.plan.activations else NodeMode.FLOAT
        if value.const_value is not None:
            return self.builder.constant(np.transpose(value.const_value.numpy(), permutation), None, base)
        suffix = _SUFFIXES.get(permutation, "transposed")
        (turned,) = self.builder.add(
            "Transpose", [value], name=f"{base}_{suffix}", decision=mode, perm=list(permutation)
        )
        self.builder.rename(turned, f"{base}_{suffix}")
        self._take_params(index, turned)
        return turned

    def picture(self, index: int) -> ir.Value:
        """A tensor whose last axis has the channels, in the order of ONNX."""
        return self.value(index, pm.channels_first(self.rank(index)))

    def bind(self, index: int, value: ir.Value, order: Perm | None = None) -> None:
        """Make a tensor out of a value.

        Args:
            index: The tensor.
            value: Its value, in the order.
            order: Of its axes, by default that of the file.
        """
        if index == NOT_GIVEN:
            return
        tensor = self.tensor(index)
        if (self._is_stored(index) and tensor.data is not None) or self._forms[index]:
            raise FormatError(f"the file is damaged: {tensor.name} is made twice")
        if value.type is None:
            value.type = ir.TensorType(self.element_type(index))
            self.builder.inference.forget(value)
        if UNNAMED in value.meta:
            self.builder.rename(value, tensor.name)
        self._forms[index] = {_key(order): value}
        self._take_params(index, value)

    def bind_picture(self, index: int, value: ir.Value) -> None:
        """Make a tensor out of a value in the order of ONNX."""
        self.bind(index, value, pm.channels_first(rank_of(value)))

    def same(self, index: int, source: int) -> None:
        """Make a tensor that is another one."""
        value = self.any_value(source)
        if self._is_stored(source):
            self.bind(index, value)
            return
        self._forms[index] = dict(self._forms[source])
        for value in self._forms[index].values():
            self._take_params(index, value)

    def reorder(self, index: int, source: int, permutation: Sequence[int]) -> None:
        """Make a tensor that is ``transpose(source, permutation)``."""
        if self.is_constant(source):
            turned = np.transpose(self.array(source), permutation)
            self.bind(index, self.builder.initializer(ir.Tensor(np.ascontiguousarray(turned)), self.tensor(index).name))
            return
        value = self.any_value(source)
        rank = rank_of(value)
        if sorted(permutation) != list(range(rank)):
            raise ModelError(f"{list(permutation)} is no order of {rank} axes")
        self._forms[index] = {
            _key(pm.between(tuple(permutation), order or pm.identity(rank))): value
            for order, value in self._forms[source].items()
        }
        for each in self._forms[index].values():
            self._take_params(index, each)

    def _take_params(self, index: int, value: ir.Value) -> None:
        params = self.params(index)
        if params is not None and value.const_value is None and value.name:
            self.builder.plan.activations.setdefault(value.name, params)

    # Other subgraphs

    def inlined(self, number: int, inputs: Sequence[Binding]) -> Importer:
        """Another subgraph with these inputs, in the place of the current operator.

        Raises:
            ModelError: It does not exist, calls itself, or has other inputs.
        """
        if not 0 <= number < len(self.file.subgraphs):
            raise ModelError(f"there is no graph {number}")
        if number in self.callers or len(self.callers) > DEEPEST:
            raise ModelError("a graph that calls itself")
        graph = self.file.subgraphs[number]
        if len(graph.inputs) != len(inputs):
            raise ModelError(f"graph {number} has {len(graph.inputs)} inputs, not {len(inputs)}")
        self.builder.count(len(graph.operators))
        inner = Importer(self.file, graph, self.builder, self._translate)
        inner.callers = (*self.callers, number)
        for index, given in zip(graph.inputs, inputs, strict=True):
            inner.bring(index, given)
        state = self.builder.name, self.builder.mode, self.builder.reason
        self._translate(inner)
        self.builder.name, self.builder.mode, self.builder.reason = state
        return inner

    def binding(self, index: int) -> Binding:
        """What a tensor is, for another subgraph."""
        if self._is_stored(index):
            return self.stored(index)
        self.any_value(index)
        return dict(self._forms[index])

    def bring(self, index: int, given: Binding) -> None:
        """Make a tensor what one of another subgraph is."""
        if isinstance(given, Stored):
            self.store(index, given)
        else:
            self._forms[index] = dict(given)

    # Constants

    def constant(self, index: int, order: Perm) -> ir.Value:
        """A constant in another order of axes, behind axes of length 1 where the order has more.

        Its integers are in the plan where the current operator computes with them.
        """
        stored = self.stored(index)
        axis = None if stored.axis is None else order.index(stored.axis + len(order) - len(stored.dims))
        return self._planned(index, stored, axis, order, None, planned=self.is_integer)

    def weight(
        self, index: int, order: Perm, *, shape: tuple[int, ...] | None = None, axis: int | None = None
    ) -> ir.Value:
        """A weight, with its integers and parameters in the plan if it has such.

        Args:
            index: The tensor.
            order: Of its axes in ONNX.
            shape: What it is reshaped to in the end.
            axis: Of its channels in the end; by default found from the order.
        """
        stored = self.stored(index)
        if stored.axis is None:
            axis = None
        elif axis is None:
            axis = order.index(stored.axis)
        return self._planned(index, stored, axis, order, shape, planned=True)

    def _planned(
        self,
        index: int,
        stored: Stored,
        axis: int | None,
        order: Perm,
        shape: tuple[int, ...] | None,
        *,
        planned: bool,
    ) -> ir.Value:
        builder = self.builder
        params = constants.weight_params(stored, axis) if planned else None
        key = (id(self.graph), index, order, shape, params is not None)
        value = builder.initializer(constants.in_order(stored, order, shape=shape), stored.name, key=key)
        if params is not None and value.name not in builder.plan.weights:
            builder.plan.weights[str(value.name)] = params
            builder.q_weights[str(value.name)] = constants.integers_in_order(stored, order, shape=shape)
        return value

    def is_planned(self, value: ir.Value) -> bool:
        """Whether a constant has integers in the plan."""
        return value.name in self.builder.plan.weights

    def int64(self, numbers: Sequence[int], name: str = "") -> ir.Value:
        """A vector of sizes, axes or the like."""
        return self.builder.constant([int(n) for n in numbers], np.int64, name)

    def as_int64(self, index: int) -> ir.Value:
        """A shape or the like, constant or computed."""
        return self.add("Cast", [self.value(index)], to=ir.DataType.INT64.value)

    def number(self, value: float, name: str = "") -> ir.Value:
        """A float32 scalar."""
        return self.builder.constant(value, np.float32, name)

    # Nodes

    def add(self, op_type: str, inputs: Sequence[ir.Value | None], **keywords: Any) -> ir.Value:
        """A node with one output; see :meth:`Builder.add`."""
        return self.builder.add(op_type, inputs, **keywords)[0]

    def add_many(self, op_type: str, inputs: Sequence[ir.Value | None], count: int, **keywords: Any) -> list[ir.Value]:
        """A node with several outputs; see :meth:`Builder.add`."""
        return self.builder.add(op_type, inputs, count, **keywords)

    def takes(self, value: ir.Value, index: int) -> ir.Value:
        """A value on the grid of a tensor, between the parts of an operator."""
        self._take_params(index, value)
        return value

    def flattened(self, index: int, sizes: Sequence[folding.Size], computed: Callable[[], ir.Value]) -> ir.Value:
        """A tensor with its elements in the order of the file, reshaped; axes of size 1 need no Transpose to get there.

        Args:
            index: The tensor.
            sizes: Of the new axes; -1 is what is left.
            computed: Gives them where a constant cannot say them.
        """
        order, value = self.order(index), self.any_value(index)
        if order and not pm.keeps_order(shape_of(value), pm.between(order, pm.identity(len(order)))):
            value = self.value(index)
        numbers = constant_shape(value, sizes)
        return self.add("Reshape", [value, self.int64(numbers, "shape") if numbers is not None else computed()])


Translate = Callable[["Importer"], None]
"""Translates all operators of a subgraph."""

Binding = Stored | dict[Perm, ir.Value]
"""What a tensor is: a constant of the file, or values by their order of axes."""

Handler = Callable[[Importer, Operator], None]
"""Translates an operator; raises :class:`ModelError` without naming it."""


def _key(order: Perm | None) -> Perm:
    """Orders as keys: that of the file is ``()``, whatever the rank."""
    return () if order is None or order == pm.identity(len(order)) else order
