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
from numpy.typing import NDArray

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.constants import Stored
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator, Subgraph, Tensor, TfliteModel
from converter_lite.formats.tflite.enums import NUMPY_TYPES, TensorType
from converter_lite.formats.tflite.importer import folding
from converter_lite.formats.tflite.importer.builder import FLOAT_REASON, UNNAMED, Builder, array_of
from converter_lite.formats.tflite.orders import Order, channels_first, keeps_elements, moved, natural, step
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.plan import NodeMode

PICTURE = 4
"""Axes of a tensor of pictures."""

_SUFFIXES: dict[Order, str] = {(0, 3, 1, 2): "nchw", (0, 2, 3, 1): "nhwc"}
"""Transpose of pictures -> how its result is called."""

MOST_MADE = 1 << 16
"""Most elements of a constant that a translation makes: sizes of a file could ask for any number."""

DEEPEST = 32
"""Most subgraphs inside of one another."""

INSIDE_OTHER = "part of a node that computes with floats"
"""Why a node is float that stands beside one with integer weights."""


class Importer:
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
        self.file = file
        self.graph = graph
        self.builder = builder
        self.where = where
        self.callers: tuple[int, ...] = (0,)
        self._translate = translate
        self.operators = list(graph.operators)
        self._forms: list[dict[Order, ir.Value]] = [{} for _ in graph.tensors]
        self._stored: dict[int, Stored] = {}
        self._params: dict[int, QuantParams | None] = {}

    # Questions about tensors

    def tensor(self, index: int) -> Tensor:
        """What the file says of a tensor."""
        if index == NOT_GIVEN:
            raise ModelError("an input that it needs is left out")
        return self.graph.tensors[index]

    def is_constant(self, index: int) -> bool:
        """Whether the value of a tensor is known."""
        forms = self._forms[index] if index != NOT_GIVEN else {}
        return self._is_stored(index) or (() in forms and forms[()].const_value is not None)

    def stored(self, index: int) -> Stored:
        """The constant in the file behind a tensor.

        Raises:
            ModelError: It is computed.
        """
        tensor = self.tensor(index)
        if index not in self._stored and not self._is_stored(index):
            raise ModelError(f"{tensor.name} is computed, and only a constant can be translated there")
        if index not in self._stored:
            data = tensor.data if tensor.data is not None else np.zeros(0, np.uint8)
            self._stored[index] = constants.load(tensor, data)
        return self._stored[index]

    def _is_stored(self, index: int) -> bool:
        """Whether the file holds the value; a tensor without elements needs no bytes."""
        if index == NOT_GIVEN or self._forms[index]:
            return False
        if index in self._stored:
            return True
        tensor = self.graph.tensors[index]
        return not tensor.is_variable and (tensor.data is not None or 0 in tensor.shape)

    def store(self, index: int, stored: Stored) -> None:
        """Make a tensor a constant."""
        self._stored[index] = stored

    def array(self, index: int) -> NDArray[Any]:
        """The value of a constant, in real numbers.

        Raises:
            ModelError: It is computed.
        """
        found = self.constant_or_none(index)
        if found is None:
            raise ModelError(f"{self.tensor(index).name} is computed, and only a constant can be translated there")
        return found

    def constant_or_none(self, index: int) -> NDArray[Any] | None:
        """The value of a constant, in real numbers; ``None`` for what is computed."""
        if index == NOT_GIVEN:
            return None
        if self._is_stored(index):
            return constants.reals(self.stored(index))
        return array_of(self._forms[index][()]) if self.is_constant(index) else None

    def ints(self, index: int) -> list[int]:
        """The numbers of a constant, such as axes.

        Raises:
            ModelError: They are computed, or no whole numbers.
        """
        found = self.array(index)
        if found.dtype.kind not in "iu":
            raise ModelError(f"{self.tensor(index).name} must hold whole numbers")
        return [int(number) for number in found.reshape(-1)]

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

    def order(self, index: int) -> Order:
        """The first order of axes that a tensor was made in; ``()`` for that of the file."""
        return next(iter(self._forms[index]), ())

    def orders(self, index: int) -> list[Order]:
        """All orders of axes in which a tensor exists."""
        return list(self._forms[index])

    def params(self, index: int) -> QuantParams | None:
        """Parameters of integers that stand for real numbers; ``None`` for others."""
        if index not in self._params:
            self._params[index] = constants.activation_params(self.tensor(index))
        return self._params[index]

    def element_type(self, index: int) -> ir.DataType:
        """Type of a tensor in the graph.

        Raises:
            ModelError: Such elements are not read.
        """
        tensor = self.tensor(index)
        if self.params(index) is not None:
            return ir.DataType.FLOAT
        if tensor.type not in NUMPY_TYPES or tensor.type is TensorType.INT4:
            raise ModelError(f"{tensor.name} has elements of type {tensor.type.name}, which are not read")
        return ir.DataType.from_numpy(NUMPY_TYPES[tensor.type].newbyteorder("="))

    def check_same_grid(self, op: Operator, *positions: int) -> None:
        """Refuse an operator that moves integers from one grid to another without converting them.

        Raises:
            ModelError: Parameters of inputs and outputs differ.
        """
        moved_from = [op.inputs[p] for p in positions or range(len(op.inputs)) if op.has(p)]
        grids = [g for g in map(self.params, (*moved_from, *op.outputs)) if g is not None]
        if any(not same_grid(grids[0], grid) for grid in grids[1:]):
            raise ModelError(
                "it moves integers between tensors of different scales or zero points",
                hint="convert the model again; the converter of TensorFlow gives both the same ones",
            )

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

    def value(self, index: int, order: Order | None = None) -> ir.Value:
        """A tensor with its axes in an order, by default that of the file.

        Raises:
            FormatError: No operator has made the tensor yet.
        """
        if self._is_stored(index):
            return self.constant(index, order or natural(len(self.stored(index).dims)))
        tensor, forms, key = self.tensor(index), self._forms[index], _key(order)
        if not forms and tensor.is_variable:
            raise ModelError(f"{tensor.name} keeps a state between runs, which an ONNX graph has not")
        if not forms:
            raise FormatError(f"{tensor.name} is used before it is made")
        if key not in forms:
            before, value = next(iter(forms.items()))
            rank = rank_of(value)
            if len(key or before) != rank:
                raise ModelError(f"{tensor.name} has {rank} axes, which does not fit")
            forms[key] = self._turned(index, value, step(before or natural(rank), key or natural(rank)))
        return forms[key]

    def _turned(self, index: int, value: ir.Value, permutation: Order) -> ir.Value:
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
        return self.value(index, channels_first(self.rank(index)))

    def bind(self, index: int, value: ir.Value, order: Order | None = None) -> None:
        """Make a tensor out of a value.

        Args:
            index: The tensor.
            value: Its value, in the order.
            order: Of its axes, by default that of the file.
        """
        if index == NOT_GIVEN:
            return
        tensor = self.tensor(index)
        if self._is_stored(index) or self._forms[index]:
            raise FormatError(f"the file is damaged: {tensor.name} is made twice")
        if value.type is None:
            value.type = ir.TensorType(self.element_type(index))
            self.builder.forget_type(value)
        if UNNAMED in value.meta:
            self.builder.rename(value, tensor.name)
        self._forms[index] = {_key(order): value}
        self._take_params(index, value)

    def bind_picture(self, index: int, value: ir.Value) -> None:
        """Make a tensor out of a value in the order of ONNX."""
        self.bind(index, value, channels_first(rank_of(value)))

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
            _key(moved(order or natural(rank), permutation)): value for order, value in self._forms[source].items()
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

    def constant(self, index: int, order: Order) -> ir.Value:
        """A constant in another order of axes, behind axes of length 1 where the order has more.

        Its integers are in the plan where the current operator computes with them.
        """
        stored = self.stored(index)
        axis = None if stored.axis is None else order.index(stored.axis + len(order) - len(stored.dims))
        return self._planned(index, stored, axis, order, None, planned=self.is_integer)

    def weight(
        self, index: int, order: Order, *, shape: tuple[int, ...] | None = None, axis: int | None = None
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
        order: Order,
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
        if order and not keeps_elements(shape_of(value), step(order, natural(len(order)))):
            value = self.value(index)
        numbers = _constant_shape(value, sizes)
        return self.add("Reshape", [value, self.int64(numbers, "shape") if numbers is not None else computed()])


def _constant_shape(value: ir.Value, sizes: Sequence[folding.Size]) -> list[int] | None:
    """Sizes as Reshape takes them: 0 is that of the input at the same place, -1 the one that is left."""
    given = [size if isinstance(size, int) else size.value for size in value.shape] if value.shape is not None else []
    found: list[int | None] = []
    for place, size in enumerate(sizes):
        is_kept = isinstance(size, str) and place < len(given) and given[place] == size
        found.append(size if isinstance(size, int) else 0 if is_kept else None)
    if found.count(None) + found.count(-1) > 1:
        return None
    return [-1 if size is None else size for size in found]


Translate = Callable[["Importer"], None]
"""Translates all operators of a subgraph."""

Binding = Stored | dict[Order, ir.Value]
"""What a tensor is: a constant of the file, or values by their order of axes."""

Handler = Callable[[Importer, Operator], None]
"""Translates an operator; raises :class:`ModelError` without naming it."""


def _key(order: Order | None) -> Order:
    """Orders as keys: that of the file is ``()``, whatever the rank."""
    return () if order is None or order == natural(len(order)) else order


def check_count(count: int) -> int:
    """So many elements of a constant, if they are not too many.

    Raises:
        ModelError: They are.
    """
    if not 0 <= count <= MOST_MADE:
        raise ModelError(f"it needs a constant of {count} elements, more than {MOST_MADE}")
    return count


def rank_of(value: ir.Value) -> int:
    """Number of axes of a value.

    Raises:
        ModelError: It is unknown.
    """
    if value.shape is None:
        raise ModelError(f"the number of axes of {value.name} is unknown")
    return len(value.shape)


def shape_of(value: ir.Value) -> list[int]:
    """Sizes of a value, -1 where they are open."""
    rank_of(value)
    assert value.shape is not None
    return [size if isinstance(size, int) else -1 for size in value.shape]


def same_grid(first: QuantParams, second: QuantParams) -> bool:
    """Whether integers of both stand for the same real numbers, counted from the lowest one."""
    a, b = first.spec, second.spec
    shift = int(first.zero_point) - a.qmin == int(second.zero_point) - b.qmin
    return a.bits == b.bits and shift and float(first.scale) == float(second.scale)
