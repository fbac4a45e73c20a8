"""The state of a conversion from a ``.ms`` graph to an ONNX graph: the mirror image of :mod:`lowering`.

A ``.ms`` tensor may exist as several ONNX values, one per axis order; an operator asks for the order that ONNX wants,
and a Transpose is made only where that order does not exist. Casts between int8 and float are not nodes here: they are
parameters in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import FormatError
from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.channels import parameter_axis
from converter_lite.formats.mindspore_lite.container import MsModel, MsNode
from converter_lite.formats.mindspore_lite.enums import DataType, QuantType
from converter_lite.formats.mindspore_lite.importer.constants import (
    activation_params,
    constant_tensor,
    integers,
    reals,
    to_float32,
    weight_params,
)
from converter_lite.formats.mindspore_lite.importer.stored import ElementBudget, Stored, load
from converter_lite.formats.permutation import Perm
from converter_lite.graph import unique_among
from converter_lite.quantization.plan import Integers, NodeMode, NodePlan, QuantizedModel, QuantPlan

OPSET = 20

ONNX_TYPES = {
    DataType.BOOL: ir.DataType.BOOL,
    DataType.INT8: ir.DataType.INT8,
    DataType.INT16: ir.DataType.INT16,
    DataType.INT32: ir.DataType.INT32,
    DataType.INT64: ir.DataType.INT64,
    DataType.UINT8: ir.DataType.UINT8,
    DataType.FLOAT16: ir.DataType.FLOAT,
    DataType.FLOAT32: ir.DataType.FLOAT,
}

_MODES = {
    QuantType.WEIGHT: NodeMode.WEIGHT,
    QuantType.ALL: NodeMode.INTEGER,
    QuantType.DYNAMIC: NodeMode.DYNAMIC,
}


_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Gather", "LSTM")


class Importer:
    """Builds a :class:`QuantizedModel` from a ``.ms`` model, one node after the other."""

    def __init__(self, ms: MsModel, *, file_size: int) -> None:
        self.ms = ms
        self.plan = QuantPlan("ms")
        self.q_weights: dict[str, Integers] = {}
        self.nodes: list[ir.Node] = []
        self.inputs: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}
        self._forms: list[dict[Perm, ir.Value]] = [{} for _ in ms.tensors]
        self._stored: dict[int, Stored] = {}
        self._constants: dict[tuple[Any, ...], ir.Value] = {}
        self._names: set[str] = set()
        self._node_names: set[str] = set()
        self._room = ElementBudget.of(file_size)
        self._node = MsNode("", "", [], [])
        self._reason = "float in the file"

    # Questions about tensors

    def stored(self, index: int) -> Stored:
        """The decoded constant behind a tensor.

        Raises:
            FormatError: It is not a constant, or its data are damaged.
        """
        tensor = self.ms.tensors[index]
        if tensor.data is None:
            raise FormatError(f"{tensor.name or index} must be constant", where=self.where)
        if index not in self._stored:
            self._stored[index] = load(tensor, self._room)
        return self._stored[index]

    def is_constant(self, index: int) -> bool:
        """Whether the file holds the tensor's value."""
        return self.ms.tensors[index].is_constant

    def array(self, index: int) -> NDArray[Any]:
        """A constant as numbers; a quantized one as the reals that it represents."""
        return reals(self.stored(index), self._weight_axis(index))

    def ints(self, index: int) -> list[int]:
        """A constant vector of integers."""
        return [int(i) for i in self.stored(index).array.reshape(-1)]

    def rank(self, index: int) -> int | None:
        """Number of axes, where it is known."""
        tensor = self.ms.tensors[index]
        known = [len(order) for order in self._forms[index] if order]
        return known[0] if known else len(tensor.dims) or (0 if tensor.is_constant else None)

    def orders(self, index: int) -> list[Perm]:
        """Axis orders in which a tensor exists; ``()`` is the order of the file, whatever the rank."""
        return list(self._forms[index])

    @property
    def where(self) -> str:
        """The current node, for messages."""
        return f"{self._node.name} ({self._node.op})"

    # Using and making values

    def start(self, node: MsNode) -> None:
        """Set the current node."""
        self._node = node
        self._reason = "" if node.quant_type in _MODES else "float in the file"

    def value(self, index: int, perm: Perm | None = None) -> ir.Value:
        """The ONNX value that is ``transpose(tensor, perm)``.

        Raises:
            FormatError: No node has made the tensor yet.
        """
        if self.is_constant(index):
            return self.constant(index, perm or pm.identity(len(self.ms.tensors[index].dims)))
        forms = self._forms[index]
        if not forms:
            raise FormatError(f"{self.ms.tensors[index].name or index} is used before it is made", where=self.where)
        order = _normal(perm)
        if order not in forms:
            source, value = next(iter(forms.items()))
            if source and order and len(source) != len(order):
                raise FormatError(f"{self.ms.tensors[index].name or index} has another rank", where=self.where)
            step = pm.between(source, order or pm.identity(len(source))) if source else order
            name = f"{value.name}_{''.join(map(str, step))}"
            moved = self.add("Transpose", [value], name=name, perm=list(step))
            forms[order] = moved
            self._take_params(index, moved)
        return forms[order]

    def bind(self, index: int, value: ir.Value, perm: Perm | None = None) -> None:
        """Register an ONNX value as ``transpose(tensor, perm)``."""
        tensor, order = self.ms.tensors[index], _normal(perm)
        if value.name and value.producer() is not None:
            self._rename(value, f"{tensor.name}_onnx" if order else tensor.name)
        self._forms[index] = {order: value}
        self._take_params(index, value)

    def same(self, index: int, source: int) -> None:
        """Register two tensors as the same value (casts between int8 and float)."""
        self._forms[index] = self._forms[source]
        for value in self._forms[index].values():
            self._take_params(index, value)

    def reorder(self, index: int, source: int, perm: Perm) -> None:
        """Register a tensor as ``transpose(source, perm)``."""
        if self.is_constant(source):
            self.bind(index, self.value(source, perm))
            return
        self.value(source)
        back = pm.invert(perm)
        self._forms[index] = {
            _normal(pm.compose(back, order) if order else back): value for order, value in self._forms[source].items()
        }
        for value in self._forms[index].values():
            self._take_params(index, value)

    def quant(self, index: int) -> tuple[float, int] | None:
        """Scale and zero point of an activation."""
        quant = self.ms.tensors[index].quant
        return None if quant is None else (float(quant.scale[0]), int(quant.zero_point[0]))

    def add(self, op: str, inputs: Sequence[ir.Value | None], *, name: str = "", **attributes: Any) -> ir.Value:
        """A node with one output."""
        return self.add_many(op, inputs, 1, name=name, **attributes)[0]

    def add_many(
        self, op: str, inputs: Sequence[ir.Value | None], count: int, *, name: str = "", **attributes: Any
    ) -> list[ir.Value]:
        """A node with several outputs; it is named after the current node unless a name is given."""
        node_name = unique_among(name or self._node.name or op, self._node_names)
        outputs = [ir.Value(name=self._unique(f"{node_name}:{i}")) for i in range(count)]
        present = {key: value for key, value in attributes.items() if value is not None}
        node = ir.node(op, list(inputs), attributes=present, outputs=outputs, name=node_name)
        self.nodes.append(node)
        self.plan.nodes[node_name] = self._decision(op)
        return outputs

    def _decision(self, op: str) -> NodePlan:
        """All parts of an integer node are integer; of other nodes only the part with the weight is quantized."""
        mode = NodeMode.FLOAT if self._reason else _MODES[self._node.quant_type]
        if mode in (NodeMode.WEIGHT, NodeMode.DYNAMIC) and op not in _WEIGHTED:
            return NodePlan(op, NodeMode.FLOAT, "part of a node that computes with floats")
        return NodePlan(op, mode, self._reason)

    def initializer(self, array: NDArray[Any], name: str, *, key: tuple[Any, ...] | None = None) -> ir.Value:
        """A constant; the same ``key`` gives the same one."""
        if key is not None and key in self._constants:
            return self._constants[key]
        return self._initializer(ir.Tensor(np.asarray(array, order="C")), name, key)

    def constant(self, index: int, order: Perm, *, use: str = "") -> ir.Value:
        """A constant of the file in another order of axes, behind axes of length 1 where the order has more."""
        key = (index, use, order)
        if key in self._constants:
            return self._constants[key]
        tensor = constant_tensor(self.stored(index), self._weight_axis(index), order)
        return self._initializer(tensor, self.ms.tensors[index].name, key)

    def _initializer(self, tensor: ir.TensorProtocol, name: str, key: tuple[Any, ...] | None) -> ir.Value:
        unique = self._unique(name or "constant")
        tensor.name = unique
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=unique, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
        self._initializers[unique] = value
        if key is not None:
            self._constants[key] = value
        return value

    def int64(self, numbers: Sequence[int], name: str, shape: Sequence[int] = (-1,)) -> ir.Value:
        """A vector of shape, axes or the like, or a constant of another shape."""
        key = ("int64", tuple(int(n) for n in numbers), tuple(shape))
        return self.initializer(np.array(key[1], np.int64).reshape(shape), name, key=key)

    def as_int64(self, index: int, name: str, shape: Sequence[int] = (-1,)) -> ir.Value:
        """A shape or the like, constant or computed; constants get ``shape``."""
        if self.is_constant(index):
            return self.int64(self.ints(index), name, shape)
        return self.add("Cast", [self.value(index)], name=f"{self._node.name}_{name}", to=ir.DataType.INT64.value)

    def weight(self, index: int, order: Perm) -> ir.Value:
        """A weight in the order of ONNX; its integers and parameters go into the plan if ONNX can hold them."""
        stored, axis = self.stored(index), self._weight_axis(index)
        value = self.constant(index, order, use="weight")
        params = weight_params(stored, None if axis is None else order.index(axis))
        if params is None:
            self._reason = self._reason or "the weight's corrections have no integer form in ONNX"
        elif value.name and self._node.quant_type is not QuantType.NONE:
            self.plan.weights[value.name] = params
            self.q_weights[value.name] = integers(stored, order)
        return value

    def bias(self, index: int) -> ir.Value:
        """The bias of the current node; integers without parameters are in units of input scale times weight scale."""
        tensor = self.ms.tensors[index]
        x, w = (self.ms.tensors[i].quant for i in self._node.inputs[:2])
        if not tensor.is_constant or self.stored(index).dtype.kind == "f":
            return self.value(index)
        if x is None or w is None or len(w.scale) not in (1, self.stored(index).size):
            raise FormatError("an integer bias needs the parameters of input and weight", where=self.where)
        real = to_float32(self.stored(index).array * (x.scale[0] * w.scale))
        return self.initializer(real, tensor.name, key=(index, "bias", self._node.inputs[0], self._node.inputs[1]))

    def _weight_axis(self, index: int) -> int | None:
        """Axis of per-channel parameters, which the runtime derives from the operator that uses the weight."""
        stored = self.stored(index)
        if stored.quant is None or len(stored.quant.scale) == 1:
            return None
        axis, channels = parameter_axis(self.ms, index) % max(1, len(stored.dims)), len(stored.quant.scale)
        if not stored.dims or stored.dims[axis] != channels:
            raise FormatError(f"{channels} scales for a weight of {list(stored.dims)}", where=self.where)
        return axis

    def _take_params(self, index: int, value: ir.Value) -> None:
        tensor = self.ms.tensors[index]
        if tensor.quant is not None and not tensor.is_constant and value.name:
            self.plan.activations.setdefault(value.name, activation_params(tensor.quant, tensor.name))

    def _rename(self, value: ir.Value, name: str) -> None:
        if name and name not in self._names and value.name:
            self._names.discard(value.name)
            params = self.plan.activations.pop(value.name, None)
            value.name = self._unique(name)
            if params is not None:
                self.plan.activations[value.name] = params

    def _unique(self, name: str) -> str:
        return unique_among(name, self._names)

    # Ends

    def add_input(self, index: int, *, nchw: bool = False, kind: ir.DataType | None = None) -> None:
        """A graph input as it is stored, or in NCHW, or with another element type, which a Cast converts."""
        tensor = self.ms.tensors[index]
        perm = pm.NCHW_FROM_NHWC if nchw else pm.identity(len(tensor.dims))
        shape = ir.Shape([d if d >= 0 else None for d in pm.permute(tensor.dims, perm)])
        stored = ONNX_TYPES.get(tensor.dtype, ir.DataType.FLOAT)
        name = self._unique(tensor.name or f"input_{index}")
        value = ir.Value(name=name, shape=shape, type=ir.TensorType(kind or stored))
        self.inputs.append(value)
        if kind not in (None, stored):
            self._reason = "float in the file"
            value = self.add("Cast", [value], name=f"{name}_{stored.name.lower()}", to=stored.value)
        self._forms[index] = {_normal(perm): value}
        self._take_params(index, value)

    def finish(self) -> QuantizedModel:
        """The graph, its plan, and the integers of its weights."""
        outputs = [self._output(index) for index in self.ms.outputs]
        used = {v for node in self.nodes for v in node.inputs if v is not None}
        graph = ir.Graph(
            self.inputs,
            outputs,
            nodes=self.nodes,
            initializers=[v for v in self._initializers.values() if v in used],
            opset_imports={"": OPSET},
            name=self.ms.name or "main_graph",
        )
        kept = {v.name for v in used if v is not None}
        self.plan.weights = {n: p for n, p in self.plan.weights.items() if n in kept}
        return QuantizedModel(ir.Model(graph, ir_version=9), self.plan, self.q_weights)

    def _output(self, index: int) -> ir.Value:
        tensor = self.ms.tensors[index]
        value = self.value(index)
        if value.producer() is None or value.is_graph_output():
            value = self.add("Identity", [value], name=f"{tensor.name}_copy")
        if value.name != tensor.name and tensor.name:
            self._free_name(tensor.name)
            self._rename(value, tensor.name)
        value.type = ir.TensorType(ONNX_TYPES.get(tensor.dtype, ir.DataType.FLOAT))
        return value

    def _free_name(self, name: str) -> None:
        for node in self.nodes:
            for value in node.outputs:
                if value.name == name:
                    value.name = self._unique(f"{name}_inner")
                    if name in self.plan.activations:
                        self.plan.activations[value.name] = self.plan.activations[name]
                    self._names.discard(name)


def _normal(perm: Perm | None) -> Perm:
    """Axis orders as keys: the order of the file is ``()``, so it needs no rank."""
    return () if perm is None or perm == pm.identity(len(perm)) else perm
