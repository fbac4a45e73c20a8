"""State of one translation from an ONNX graph to a Paddle program: variables, parameters, operators, integer tensors.

Modules with operators call the methods here; they decide which Paddle operators an ONNX node becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import FormatError, TargetError
from converter_lite.formats.paddle.exporter.weights import StoredWeight, Transform, store_weight
from converter_lite.formats.paddle.kernels import KERNEL_ATTRIBUTE, Target, choose
from converter_lite.formats.paddle.program import (
    Attribute,
    Block,
    Operator,
    Program,
    Variable,
    VarType,
    attr,
    longs,
    var_type,
)
from converter_lite.quantization.plan import NodeMode, QuantizedModel

STORED_BLOCK = 256
"""Elements up to which a repeated number or row is stored; an operator that repeats it takes as much space."""

RESERVED = ("feed", "fetch")
"""Variables that every file has; tensors of these names are renamed, inputs and outputs refused."""


class Unsupported(Exception):
    """A node that the target cannot express: the reason, and what would help."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


@dataclass(slots=True)
class Lowering:
    """One translation.

    Attributes:
        quantized: Graph and plan.
        target: Processor family.
        operators: Operators so far, in running order.
        parameters: Stored arrays by variable name.
        done: Nodes that an earlier node already does (fused activations, biases).
    """

    quantized: QuantizedModel
    target: Target
    operators: list[Operator] = field(default_factory=list)
    parameters: dict[str, NDArray[Any]] = field(default_factory=dict)
    done: set[ir.Node] = field(default_factory=set)
    _variables: dict[str, Variable] = field(default_factory=dict)
    _names: dict[ir.Value, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=lambda: set(RESERVED))
    _weights: dict[tuple[Any, ...], StoredWeight] = field(default_factory=dict)
    _integers: dict[ir.Value, str] = field(default_factory=dict)
    _calibrated: dict[tuple[ir.Value, float], str] = field(default_factory=dict)

    @property
    def graph(self) -> ir.Graph:
        """The ONNX graph."""
        return self.quantized.model.graph

    @property
    def runtime(self) -> str:
        """Name of the library that the file is for."""
        return "Paddle-Lite"

    @property
    def absorbs(self) -> bool:
        """Whether operators take biases, functions and integers, as those of Paddle-Lite do."""
        return True

    @property
    def is_arm(self) -> bool:
        """Whether the file is for ARM."""
        return self.target is Target.ARM

    def mode(self, node: ir.Node) -> NodeMode:
        """What the plan says about a node."""
        return self.quantized.plan.mode(node)

    # Names and variables.

    def fresh(self, hint: str) -> str:
        """A variable name that nothing has yet."""
        return g.unique_among(hint, self._taken)

    def reserve(self, values: Iterable[ir.Value]) -> None:
        """Give these values their own names before any other variable can take them."""
        for value in values:
            self.result(value)

    def result(self, value: ir.Value, *, dtype: VarType | None = None) -> str:
        """Variable that a node writes for ``value``; declared with its type and shape."""
        if value not in self._names:
            name = self.fresh(str(value.name))
            self._names[value] = name
            self._declare(name, dtype if dtype is not None else element_type(value), dims(value))
        elif dtype is not None:
            self._variables[self._names[value]].dtype = dtype
        return self._names[value]

    def alias(self, value: ir.Value, of: ir.Value) -> None:
        """Make ``value`` another name of ``of``'s variable; only for values that are not graph outputs."""
        self._names[value] = self.tensor(of)
        if of in self._integers:
            self._integers[value] = self._integers[of]

    def temporary(self, hint: str, shape: Iterable[int] = (), *, dtype: int = VarType.FP32) -> str:
        """A declared intermediate variable."""
        name = self.fresh(hint)
        self._declare(name, dtype, tuple(shape))
        return name

    def like(self, name: str, word: str = "before", *, order: Sequence[int] = (), dtype: int | None = None) -> str:
        """A declared intermediate variable of the shape of variable ``name``, with its axes in another order, and of its type."""
        known = self._variables[name]
        size = tuple(known.dims[axis] for axis in order) if len(order) == len(known.dims) else known.dims
        return self.temporary(f"{name}.{word}", size, dtype=known.dtype if dtype is None else dtype)

    def _declare(self, name: str, dtype: int, shape: tuple[int, ...], *, persistable: bool = False) -> None:
        self._variables[name] = Variable(name, VarType.LOD_TENSOR, dtype, shape, persistable)

    def tensor(self, value: ir.Value | None) -> str:
        """Variable that holds ``value``; constants become parameters.

        Raises:
            Unsupported: The value does not exist, or nothing has computed it.
        """
        if value is None:
            raise Unsupported("a required input is missing")
        if value in self._names:
            return self._names[value]
        array = g.constant(value)
        if array is None:
            raise Unsupported(f"input {value.name} is computed by nothing that can be written")
        self._names[value] = self.parameter(str(value.name), array)
        return self._names[value]

    def parameter(self, hint: str, array: NDArray[Any]) -> str:
        """Store a constant under a fresh name; float16 and float64 become float32, a scalar gets one dimension."""
        if array.dtype in (np.float16, np.float64):
            array = array.astype(np.float32)
        array = array.reshape(array.shape or (1,))
        name = self.fresh(hint)
        self.parameters[name] = array
        self._declare(name, var_type(array.dtype), array.shape, persistable=True)
        return name

    def filled(self, hint: str, shape: tuple[int, ...], number: float) -> str:
        """A tensor of one float number: stored where it is small, otherwise made by the runtime."""
        if math.prod(shape) <= STORED_BLOCK:
            return self.parameter(hint, np.full(shape, number, np.float32))
        name = self.temporary(hint, shape)
        attributes = {
            "shape": longs(shape),
            "dtype": attr(int(VarType.FP32)),
            "value": attr(number),
            "str_value": attr(repr(number)),
            "force_cpu": attr(False),
        }
        self.emit("fill_constant", {}, {"Out": [name]}, attributes)
        return name

    # Weights.

    def weight(self, node: ir.Node, value: ir.Value | None, transform: Transform) -> StoredWeight:
        """A weight in the precision that the plan gives the node; stored once per tensor and transformation."""
        if value is None or not g.is_constant(value):
            raise Unsupported("its weight is not a constant", "fold constants first")
        mode = self.mode(node)
        key = (value.name, transform.name, transform.factor, transform.added, mode)
        if key in self._weights:
            return self._weights[key].again()
        name = self.fresh(str(value.name) if transform.name == "as is" else f"{value.name}.{transform.name}")
        stored, array = store_weight(self.quantized, value, transform, mode=mode, name=name)
        self.parameters[name] = array
        self._declare(name, VarType.FP32, array.shape, persistable=True)
        self._weights[key] = stored
        return stored

    # Integer activations.

    def int8_input(self, value: ir.Value) -> tuple[str, float]:
        """Variable that holds ``value`` in int8, and its scale; a ``calib`` operator computes it where needed.

        Raises:
            Unsupported: The plan has no symmetric 8-bit parameters for the tensor.
        """
        scale = self.activation_scale(value)
        if value in self._integers:
            return self._integers[value], scale
        key = (value, scale)
        if key not in self._calibrated:
            name = self.temporary(f"{value.name}.int8", dims(value), dtype=VarType.INT8)
            self.emit(
                "calib",
                {"Input": [self.tensor(value)]},
                {"Out": [name]},
                {"scale": attr(scale)},
                alias="fp32_to_int8",
            )
            self._calibrated[key] = name
        return self._calibrated[key], scale

    def activation_scale(self, value: ir.Value) -> float:
        """Scale of a planned activation.

        Raises:
            Unsupported: It has none, or one that is not symmetric int8 per tensor.
        """
        params = self.quantized.plan.activations.get(str(value.name))
        if params is None:
            raise Unsupported(f"the plan has no scale for {value.name}")
        if params.is_per_channel or params.spec.bits > 8 or not params.spec.signed or np.any(params.zero_point):
            raise Unsupported(f"{value.name} is not planned as symmetric int8 with one scale")
        return float(params.scale)

    def int8_output(self, value: ir.Value) -> bool:
        """Whether ``value`` can be written as int8: every reader is an integer node that takes it as its data input."""
        if value.is_graph_output() or str(value.name) not in self.quantized.plan.activations or not value.uses():
            return False
        return all(use.idx == 0 and self.mode(use.node) is NodeMode.INTEGER for use in value.uses())

    def write_int8(self, value: ir.Value) -> str:
        """Variable for a result that exists only as int8."""
        name = self.result(value, dtype=VarType.INT8)
        self._integers[value] = name
        return name

    # Operators.

    def emit(
        self,
        operator: str,
        inputs: Mapping[str, list[str]],
        outputs: Mapping[str, list[str]],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        dtype: str = "float32",
        alias: str | None = None,
    ) -> Operator:
        """Append an operator with the kernel for its data type.

        Raises:
            Unsupported: No kernel of the target computes it.
        """
        kernel = choose(operator, self.target, dtype=dtype, alias=alias)
        if kernel is None:
            data = "" if dtype == "float32" else f" on {dtype} data"
            raise Unsupported(f"Paddle-Lite has no kernel for {operator}{data} on {self.target.name.lower()}")
        made = Operator(operator, dict(inputs), dict(outputs), dict(attributes or {}))
        made.attributes[KERNEL_ATTRIBUTE] = attr(kernel.key(operator))
        self.operators.append(made)
        return made

    def program(self) -> Program:
        """The finished program, with its feed and fetch operators."""
        inputs = list(self.graph.inputs)
        feeds = [self._border("feed", "feed", self.result(value), column) for column, value in enumerate(inputs)]
        fetches = [
            self._border("fetch", self.tensor(value), "fetch", column)
            for column, value in enumerate(self.graph.outputs)
        ]
        borders = [
            Variable("feed", VarType.FEED_MINIBATCH, persistable=True),
            Variable("fetch", VarType.FETCH_LIST, persistable=True),
        ]
        block = Block(variables=borders + list(self._variables.values()), operators=feeds + self.operators + fetches)
        return Program([block])

    def _border(self, kind: str, source: str, sink: str, column: int) -> Operator:
        attributes = {"col": attr(column), KERNEL_ATTRIBUTE: attr(f"{kind}/def/1/4/2")}
        return Operator(kind, {"X": [source]}, {"Out": [sink]}, attributes)


Handler = Callable[[Lowering, ir.Node], None]
"""Writes one ONNX node; raises :class:`Unsupported`."""


def element_type(value: ir.Value) -> VarType:
    """Tensor type of an ONNX value; float32 where it is unknown.

    Raises:
        TargetError: Paddle has no such type.
    """
    if value.dtype is None or value.dtype in (ir.DataType.FLOAT16, ir.DataType.DOUBLE):
        return VarType.FP32
    try:
        return var_type(value.dtype.numpy())
    except FormatError:
        raise TargetError(f"Paddle has no tensors of type {value.dtype.name.lower()}, as {value.name!r} is") from None


def dtype_name(value: ir.Value | None) -> str:
    """NumPy name of the element type of a value as the file stores it; ``float32`` where it is unknown."""
    if value is None or value.dtype is None or value.dtype in (ir.DataType.FLOAT16, ir.DataType.DOUBLE):
        return "float32"
    return str(value.dtype.numpy())


def dims(value: ir.Value | None) -> tuple[int, ...]:
    """Declared dimensions: -1 where they are dynamic, empty where the rank is unknown; a scalar has one dimension.

    Raises:
        Unsupported: The value does not exist.
    """
    if value is None:
        raise Unsupported("a required input is missing")
    if value.shape is None:
        return ()
    return tuple(d if isinstance(d, int) else -1 for d in value.shape.dims) or (1,)


def rank(value: ir.Value | None) -> int:
    """Number of dimensions.

    Raises:
        Unsupported: It is unknown.
    """
    array = g.constant(value)
    if array is not None:
        return array.ndim
    if value is None or value.shape is None:
        raise Unsupported("the rank of its input is unknown", "run shape inference, or give --inputShape")
    return len(value.shape)


def shape(value: ir.Value | None) -> tuple[int, ...]:
    """The static shape.

    Raises:
        Unsupported: A dimension is unknown.
    """
    array = g.constant(value)
    known = array.shape if array is not None else g.static_shape(value)
    if known is None:
        name = "" if value is None else f" of {value.name}"
        raise Unsupported(f"the shape{name} is not fixed", "give --inputShape")
    return tuple(known)


def integers(value: ir.Value | None) -> list[int] | None:
    """A constant list of integers, or ``None`` when there is no such input.

    Raises:
        Unsupported: The input is computed at run time.
    """
    array = integers_or_floats(value, "give --inputShape, so that it can be folded")
    return None if array is None else [int(v) for v in array.reshape(-1)]


def number(value: ir.Value | None, default: float) -> float:
    """A constant scalar, or ``default`` when the input is absent.

    Raises:
        Unsupported: The input is computed at run time.
    """
    found = integers_or_floats(value)
    return default if found is None else float(found.reshape(-1)[0])


def integers_or_floats(value: ir.Value | None, hint: str = "") -> NDArray[Any] | None:
    """A constant array, or ``None`` when there is no such input.

    Raises:
        Unsupported: The input is computed at run time.
    """
    if value is None:
        return None
    array = g.constant(value)
    if array is None:
        raise Unsupported(f"{value.name} is computed at run time", hint)
    return array
