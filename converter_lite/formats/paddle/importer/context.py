"""State of one translation from a Paddle program to an ONNX graph with its plan.

Operator families of this package call the methods here. Names of Paddle variables may be assigned repeatedly (``opt`` reuses
them), so the order of operators decides what a name means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import MISFITS, ConverterError, ModelError
from converter_lite.formats.inference import OPSET, Inference
from converter_lite.formats.paddle.importer.contents import Numbers, follow, is_counting
from converter_lite.formats.paddle.importer.weights import are_finite, products
from converter_lite.formats.paddle.program import Operator, numpy_type
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.kernels.quantize import along_axis
from converter_lite.quantization.plan import Integers, NodeMode, NodePlan, QuantizedModel, QuantPlan

FILLED_LIMIT = 1 << 24
"""Most elements of all constants of which the file holds only one number."""

Array = NDArray[Any]

_ATTRIBUTES: dict[type, tuple[Callable[..., ir.Attr], Callable[..., ir.Attr]]] = {
    int: (ir.AttrInt64, ir.AttrInt64s),
    float: (ir.AttrFloat32, ir.AttrFloat32s),
    str: (ir.AttrString, ir.AttrStrings),
}
"""Kind of a value -> attribute with one, attribute with several."""


def _attribute(name: str, value: Any) -> ir.Attr:
    """An ONNX attribute by the kind of its value."""
    first = value[0] if isinstance(value, (list, tuple)) else value
    kind = next((kind for scalar, kind in _ATTRIBUTES.items() if isinstance(first, scalar)), None)
    if kind is None:
        return ir.convenience.convert_attribute(name, value)
    single, several = kind
    if isinstance(first, float):  # as the file will hold it
        value = np.asarray(value, np.float32).tolist()
    return several(name, value) if isinstance(value, (list, tuple)) else single(name, value)


@dataclass(slots=True)
class Importer:
    """One translation.

    Attributes:
        parameters: Constants of the program by variable name.
        target: Name of the plan's target.
        where: Name of the file for messages.
        dense_filters: What a sparse filter was made from -> the constant that it became.
        dense_left: Elements that further dense filters may have; ``None`` before the first.
        filled_left: Elements that further constants may have of which the file holds only one number.
        read: Variables that an operator reads, or that are outputs.
        contents: What is known of small tensors of integers that are computed at run time.
        has_scalars: Operators may make tensors without dimensions; older ones leave a dimension of size 1.
    """

    parameters: dict[str, Array]
    target: str
    where: str = ""
    nodes: list[ir.Node] = field(default_factory=list)
    plan: QuantPlan = field(init=False)
    q_weights: dict[str, Integers] = field(default_factory=dict)
    initializers: dict[str, ir.Value] = field(default_factory=dict)
    inputs: list[ir.Value] = field(default_factory=list)
    dense_filters: dict[tuple[object, ...], str] = field(default_factory=dict)
    dense_left: int | None = None
    filled_left: int = FILLED_LIMIT
    read: frozenset[str] = frozenset()
    has_scalars: bool = False
    contents: dict[ir.Value, Numbers] = field(default_factory=dict)
    written: set[ir.Value] = field(default_factory=set)
    _values: dict[str, ir.Value] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _scalars: dict[tuple[str, str, bytes], ir.Value] = field(default_factory=dict)
    _inference: Inference = field(default_factory=Inference)
    _dequantized: dict[str, ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan = QuantPlan(self.target)

    # Values.

    def fresh(self, hint: str) -> str:
        """A name that no value has yet."""
        hint = hint or "value"
        name, count = hint, self._counts.get(hint, 1)
        while name in self._taken:
            name, count = f"{hint}_{count}", count + 1
        self._taken.add(name)
        if count > 1:
            self._counts[hint] = count
        return name

    def reserve(self, names: Sequence[str]) -> None:
        """Keep names for the graph outputs."""
        self._taken.update(names)

    def add_input(self, name: str, dtype: int, dims: Sequence[int]) -> None:
        """A graph input; -1 becomes a symbol, one per dimension."""
        element = ir.DataType.from_numpy(numpy_type(dtype, where=self.where))
        symbols = [d if d > 0 else ir.SymbolicDim(f"{name}_{axis}") for axis, d in enumerate(dims)]
        self._taken.add(name)
        value = ir.Value(name=name, shape=ir.Shape(symbols), type=ir.TensorType(element))
        self.inputs.append(value)
        self._values[name] = value

    def value(self, name: str | None, what: str = "input") -> ir.Value:
        """The value that a variable holds now; parameters become initializers.

        Raises:
            ModelError: Nothing has written the variable.
        """
        if name is not None and name in self._values:
            return self._values[name]
        if name is None or name not in self.parameters:
            raise ModelError(f"its {what} {name or ''} is written by nothing before it")
        self._values[name] = self.initializer(name, self.parameters[name])
        return self._values[name]

    def array(self, name: str | None) -> Array | None:
        """The constant behind a variable, or ``None``."""
        if name is None:
            return None
        if name in self._values:
            tensor = self._values[name].const_value
            return None if tensor is None else tensor.numpy()
        return self.parameters.get(name)

    def initializer(self, hint: str, array: Array) -> ir.Value:
        """A constant of the graph under a fresh name."""
        native = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
        return self._initializer(hint, ir.Tensor(native))

    def _initializer(self, hint: str, tensor: ir.TensorProtocol) -> ir.Value:
        name = self.fresh(hint)
        tensor.name = name
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=name, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
        self.initializers[name] = value
        return value

    def add_constant(self, hint: str, values: object, dtype: type = np.int64) -> ir.Value:
        """A small constant (axes, shapes, bounds); one of a single number is kept once, however many operators have it."""
        array: Array = np.asarray(values, dtype)
        if array.shape:
            return self.initializer(hint, array)
        key = hint, array.dtype.str, array.tobytes()
        if key not in self._scalars:
            self._scalars[key] = self.initializer(hint, array)
        else:  # names of later constants do not depend on it
            self._counts[hint] = self._counts.get(hint, 1) + 1
        return self._scalars[key]

    def shape(self, value: ir.Value) -> list[int] | None:
        """Dimensions, -1 where unknown; ``None`` without a known rank."""
        return None if value.shape is None else [d if isinstance(d, int) else -1 for d in value.shape.dims]

    def rank(self, value: ir.Value) -> int:
        """Number of dimensions.

        Raises:
            ModelError: It is unknown.
        """
        if value.shape is None:
            raise ModelError(f"the rank of {value.name} is unknown")
        return len(value.shape)

    # Nodes.

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        *,
        names: Sequence[str],
    ) -> list[ir.Value]:
        """Append an ONNX node whose outputs get these names (or like ones); returns them with inferred types.

        Raises:
            ModelError: The inputs do not fit the operator.
        """
        outputs = [ir.Value(name=self.fresh(name)) for name in names]
        label = f"{op_type}_{len(self.nodes)}"
        given = [_attribute(key, value) for key, value in (attributes or {}).items() if value != []]
        made = ir.Node("", op_type, list(inputs), given, outputs=outputs, name=label)
        self.nodes.append(made)
        self._inference.infer(made, self._counted(made))
        follow(made, self.contents)
        return outputs

    def compute(self, op_type: str, *inputs: ir.Value | None, hint: str = "", **attributes: Any) -> ir.Value:
        """A node in the middle of a translation: one output with a name of our own."""
        name = hint or (inputs[0].name if inputs and inputs[0] is not None else "") or op_type
        return self.node(op_type, inputs, attributes, names=[f"{name}.{op_type.lower()}"])[0]

    def finish(self, name: str, op_type: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """A node whose output is what variable ``name`` holds from now on."""
        value = self.node(op_type, inputs, attributes, names=[name])[0]
        self._values[name] = value
        return value

    def bind(self, name: str, value: ir.Value) -> None:
        """Make variable ``name`` hold ``value`` from now on."""
        self._values[name] = value

    def _counted(self, node: ir.Node) -> dict[str, onnx.TensorProto]:
        """What is known of the integers that a node reads, by name."""
        data = {}
        for value in node.inputs:
            if value not in self.contents or value is None or value.const_value is not None or value.dtype is None:
                continue
            numbers = [number for number in self.contents[value] if isinstance(number, int)]
            if len(numbers) == len(self.contents[value]):
                shape = (len(numbers),) if self.rank(value) else ()
                data[str(value.name)] = onnx.helper.make_tensor(str(value.name), int(value.dtype), shape, numbers)
        return data

    # Quantization.

    def weight(self, op: Operator, slot: str, axis: int) -> ir.Value:
        """A constant input as floats; where the file has integers, the plan gets their scales.

        Args:
            op: Operator whose attributes explain the integers.
            slot: Input slot of the weight.
            axis: Channel axis of its scales.

        Raises:
            ModelError: Integers without scales, or with a different number of scales than channels.
        """
        name = op.input(slot)
        array = self.array(name)
        if name is None or array is None or array.dtype not in (np.int8, np.int16):
            return self.value(name, f"weight {slot}")
        if name not in self._dequantized:
            scales = op.get(f"{name}_quant_scale") or op.get(f"{slot}0_scale")
            if not scales:
                raise ModelError(f"its weight {name} has integers without a scale")
            self._dequantized[name] = self.quantized_weight(name, array, np.asarray(scales, np.float32), axis)
        return self._dequantized[name]

    def reals(self, name: str) -> Array | None:
        """A constant as floats, also where an operator before has its scales; ``None``: it is computed."""
        value = self._dequantized.get(name)
        return self.array(name) if value is None or value.const_value is None else value.const_value.numpy()

    def quantized_weight(self, name: str, array: Array, scales: NDArray[np.float32], axis: int) -> ir.Value:
        """A float initializer for stored integers, planned with their scales."""
        per_channel: int | None = axis
        if scales.size == 1 or np.all(scales == scales[0]):
            scales, per_channel = scales[:1].reshape(()), None
        elif array.ndim <= axis or scales.size != array.shape[axis]:
            raise ModelError(f"its weight {name} has {scales.size} scales for shape {list(array.shape)}")
        if not np.all(np.isfinite(scales)) or np.any(scales <= 0):
            raise ModelError(f"its weight {name} has a scale that is not finite and positive")
        bits = 8 * array.dtype.itemsize
        spec = QuantSpec(
            bits, signed=True, symmetric=True, narrow_range=bool(array.min() > -(2 ** (bits - 1))), axis=per_channel
        )
        factors = along_axis(scales, array.ndim, per_channel)
        if not are_finite(array, factors, per_channel):
            raise ModelError(f"its weight {name} has a scale that is too large")
        made = self._initializer(name, products(array, factors))
        key = str(made.name)
        self.plan.weights[key] = QuantParams(scales.copy(), np.zeros(scales.shape, np.int32), spec)
        self.q_weights[key] = array
        return made

    def activation(self, value: ir.Value, scale: float) -> None:
        """Plan a tensor as symmetric int8.

        Raises:
            ModelError: The scale is not finite and positive.
        """
        if not (math.isfinite(scale) and scale > 0):
            raise ModelError(f"the scale of {value.name} is {scale}")
        spec = QuantSpec(8, signed=True, symmetric=True, narrow_range=True)
        self.plan.activations[str(value.name)] = QuantParams(
            np.asarray(scale, np.float32), np.zeros((), np.int32), spec
        )

    def on_grid(self, value: ir.Value, scale: float) -> ir.Value:
        """The tensor, planned as symmetric int8 of this scale; a copy where it already has another one.

        Raises:
            ModelError: The scale is not finite and positive.
        """
        planned = self.plan.activations.get(str(value.name))
        if planned is not None and float(planned.scale) != float(np.float32(scale)):
            value = self.compute("Identity", value)
        self.activation(value, scale)
        return value

    def mark(self, op: Operator, slot: str, weight: ir.Value, data: ir.Value, output: ir.Value, *, out: str) -> None:
        """Plan the node that was appended last from the attributes of its operator.

        Args:
            op: The operator.
            slot: Slot of the data input, for the name of its scale.
            weight: Its weight.
            data: Its data input.
            output: What the operator writes, after a fused activation.
            out: Slot of the output.
        """
        if str(weight.name) not in self.plan.weights:
            return
        node = next(node for node in reversed(self.nodes) if weight in node.inputs)
        scale = op.get(f"{slot}0_scale")
        if op.get("enable_int8") and scale:
            self.plan.nodes[str(node.name)] = NodePlan(node.op_type, NodeMode.INTEGER)
            read = self.on_grid(data, float(scale[0]))
            if read is not data:
                self.nodes.insert(self.nodes.index(node), self.nodes.pop())
                node.replace_input_with(node.inputs.index(data), read)
            written = op.get(f"{out}0_scale")
            if written:
                self.activation(output, float(written[0]))
                self.written.add(output)
        else:
            self.plan.nodes[str(node.name)] = NodePlan(node.op_type, NodeMode.WEIGHT)

    # The result.

    def model(self, outputs: Sequence[str]) -> QuantizedModel:
        """The finished graph with its plan.

        Raises:
            ModelError: An output is written by nothing.
        """
        results = []
        for name in outputs:
            value = self.value(name, "graph output")
            if value.producer() is None or value in results or self._is_only_read_as_integers(value):
                value = self.node("Identity", [value], names=[f"{name}.output"])[0]
            self._rename(value, name)
            results.append(value)
        self._remove_counting(results)
        used = {value for node in self.nodes for value in node.inputs}
        kept = [value for value in self.initializers.values() if value in used]
        graph = ir.Graph(
            self.inputs, results, nodes=self.nodes, initializers=kept, opset_imports={"": OPSET}, name="paddle"
        )
        in_float: dict[tuple[str, tuple[int, ...]], NodePlan] = {}
        for node in self.nodes:
            if str(node.name) not in self.plan.nodes:
                grids = tuple(place for place, value in enumerate(node.inputs) if value in self.written)
                decision = NodePlan(node.op_type, NodeMode.FLOAT, "it is float in the file", grid_inputs=grids)
                self.plan.nodes[str(node.name)] = in_float.setdefault((node.op_type, grids), decision)
        names = {str(value.name) for value in kept}
        self.plan.weights = {name: params for name, params in self.plan.weights.items() if name in names}
        self.q_weights = {name: array for name, array in self.q_weights.items() if name in names}
        return QuantizedModel(ir.Model(graph, ir_version=9), self.plan, self.q_weights)

    def _is_only_read_as_integers(self, value: ir.Value) -> bool:
        """Whether an integer kernel gives floats, of which integers are made somewhere."""
        maker = value.producer()
        made = maker is not None and self.plan.mode(maker) is NodeMode.INTEGER
        return made and str(value.name) in self.plan.activations and value not in self.written

    def _remove_counting(self, results: Sequence[ir.Value]) -> None:
        """Remove the nodes of which only numbers were needed."""
        kept = []
        for node in reversed(self.nodes):
            if is_counting(node) and not any(value.uses() or value in results for value in node.outputs):
                for place in range(len(node.inputs)):
                    node.replace_input_with(place, None)
            else:
                kept.append(node)
        self.nodes[:] = reversed(kept)

    def _rename(self, value: ir.Value, name: str) -> None:
        old = str(value.name)
        value.name = name
        if old in self.plan.activations:
            self.plan.activations[name] = self.plan.activations.pop(old)


def output(op: Operator, slot: str = "Out") -> str:
    """Name of an operator's output.

    Raises:
        ModelError: It has none.
    """
    name = op.output(slot)
    if name is None:
        raise ModelError("it has no output")
    return name


Handler = Callable[[Importer, Operator], None]
"""Translates one Paddle operator; raises :class:`ModelError` without naming the operator."""


_BRANCHES = (
    "control flow depends on numbers that are known only at run time",
    "write it without `if` and `while` on tensors (paddle.where, a fixed number of steps), or export the branch that is used",
)

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("while", "conditional_block", "select_input", "select_output", "pd_op.if", "pd_op.while"), _BRANCHES
    ),
}
"""Operators of which more can be said than that they are unknown: reason and remedy."""


def step_names(name: str, *present: object) -> Iterator[str]:
    """Names for the nodes that one operator becomes: the last one that is present gets the variable's own name.

    Args:
        name: The variable.
        present: For each step behind the first, whether it is there.
    """
    count = 1 + sum(bool(step) for step in present)
    yield from (f"{name}.step{index}" for index in range(1, count))
    yield name


def run(importer: Importer, operators: list[Operator], handlers: Mapping[str, Handler]) -> None:
    """Translate operators in order; each leaves the list.

    Raises:
        ModelError: Operators are unknown: all are named, before anything is done; or the attributes or inputs of one make
            no sense.
    """
    _refuse_unknown(importer, operators, handlers)
    operators.reverse()
    for index in range(len(operators)):
        op = operators.pop()
        where = _place(importer, index, op)
        try:
            handlers[op.type](importer, op)
        except ConverterError as error:
            raise ModelError(error.message, where=where, hint=error.hint) from None
        except MISFITS as error:
            # Attributes of a damaged file can have any type and length.
            raise ModelError(f"its attributes or inputs make no sense: {error}", where=where) from None


def _place(importer: Importer, index: int, op: Operator) -> str:
    outputs = ", ".join(name for names in op.outputs.values() for name in names[:1])
    return f"{importer.where} operator {index} ({op.type} -> {outputs})".strip()


def _refuse_unknown(importer: Importer, operators: Sequence[Operator], handlers: Mapping[str, Handler]) -> None:
    unknown = {op.type: index for index, op in reversed(list(enumerate(operators))) if op.type not in handlers}
    if not unknown:
        return
    first = min(unknown.values())
    kind = operators[first].type
    others = ", ".join(sorted(unknown.keys() - {kind}))
    reason, hint = REFUSED.get(kind, ("this operator cannot be translated", ""))
    also = f"; nor can {others}" if others else ""
    raise ModelError(f"{reason}{also}", where=_place(importer, first, operators[first]), hint=hint)
