"""A graph as a module of PyTorch: the float network, or what a device computes according to a plan.

::

    teacher = Network(quantized.reference or model)      # float
    student = Network(quantized.model, quantized)        # with the plan's grids, whose steps and integers are parameters
    loss = criterion(student(x), teacher(x))             # gradients go straight through the rounding
    finished = learned(student)                          # a QuantizedModel with what was learnt (:mod:`.readback`)

Tensors keep the names of the graph: :meth:`Network.evaluate` computes any of them from any others, so parts of a network can be
trained alone. A name stands for the unquantized tensor; nodes that read it through its grid quantize it when they read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor, nn

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.kernels.params import QuantParams
from converter_lite.learning.grids import ActivationGrid, DynamicGrid, WeightGrid
from converter_lite.learning.operators.common import Operator
from converter_lite.learning.operators.table import OPERATORS
from converter_lite.passes.definitions import LARGER, inline_definitions
from converter_lite.passes.opset import raise_opset
from converter_lite.quantization.placement import reads_integer
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.targets.operands import bias_of, operator
from converter_lite.targets.operators import Role

OPSET = 13
"""Operator set that :mod:`.operators` begins with."""

BIAS_BITS = 32
"""Width of integer biases. Their steps are so small that a network with float biases gives the same numbers."""


@dataclass(frozen=True, slots=True)
class Trainable:
    """What of a quantized network may learn.

    Attributes:
        integers: Integers of weights.
        weight_steps: Their steps.
        activation_grids: Steps and zero points of activations.
        biases: Biases of layers with weights.
    """

    integers: bool = True
    weight_steps: bool = True
    activation_grids: bool = True
    biases: bool = True


@dataclass(frozen=True, slots=True)
class _Step:
    """A node: which tensors it reads, through which grids, and what it computes."""

    node: ir.Node
    compute: Operator
    inputs: tuple[str | None, ...]
    grids: tuple[Callable[[Tensor], Tensor] | None, ...]
    outputs: tuple[str, ...]


class Network(nn.Module):
    """A graph, with the plan of ``quantized`` if there is one.

    Args:
        model: Graph with names; it is not changed.
        quantized: Its plan and integers; ``model`` is its graph. ``None``: the float network, which learns nothing.
        trainable: What may learn.

    Attributes:
        inputs: Names of the graph's inputs, in its order; :meth:`forward` takes them in this order.
        outputs: Names of its outputs.
        quantized: What it was made from.
        weights: initializer name -> its grid.
        activations: tensor name -> its grid; tensors that have to share a grid share the module.
        biases: initializer name -> parameter.

    Raises:
        ModelError: An operator is not in the table; the node is named.
    """

    def __init__(
        self, model: ir.Model, quantized: QuantizedModel | None = None, trainable: Trainable | None = None
    ) -> None:
        super().__init__()
        plan = quantized.plan if quantized is not None else QuantPlan("FLOAT")
        graph = _with_definitions(raise_opset(model.clone(), OPSET), plan).graph
        self.inputs = [str(value.name) for value in graph.inputs if value.name not in graph.initializers]
        self.outputs = [str(value.name) for value in graph.outputs]
        self.weights: dict[str, WeightGrid] = {}
        self.activations: dict[str, ActivationGrid] = {}
        self.biases: dict[str, nn.Parameter] = {}
        self.quantized = quantized
        self._trainable = trainable or Trainable()
        self._grids = nn.ModuleList()
        self._parameters_of_biases = nn.ParameterList()
        self._constants: dict[str, Tensor] = {}
        self._parts: dict[tuple[frozenset[str], tuple[str, ...]], list[tuple[_Step, tuple[str, ...]]]] = {}
        self._make_activations(graph, plan)
        self._steps = [self._step(node, plan) for node in graph]
        for value in graph.outputs:
            self._keep_constant(value, is_bias=False)
        self._quantized_outputs = [
            name for name, value in zip(self.outputs, graph.outputs, strict=True) if _comes_from_integers(value, plan)
        ]

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The outputs for inputs in the order of :attr:`inputs`; a tensor if there is only one output."""
        found = self.evaluate(dict(zip(self.inputs, inputs, strict=True)), self.outputs)
        results = tuple(
            self.activations[name](found[name]) if name in self._quantized_outputs else found[name]
            for name in self.outputs
        )
        return results[0] if len(results) == 1 else results

    def evaluate(self, known: Mapping[str, Tensor], wanted: Sequence[str]) -> dict[str, Tensor]:
        """Tensors by name, computed from tensors by name; nothing else is run.

        Raises:
            ModelError: Something cannot be computed as it is written; the node is named.
        """
        values: dict[str, Tensor] = dict(known)
        key = frozenset(known), tuple(wanted)
        if key not in self._parts:
            self._parts[key] = self._needed(*key)
        weights: dict[str, Tensor] = {}
        for step, done in self._parts[key]:
            inputs = [
                self._read(name, grid, values, weights) for name, grid in zip(step.inputs, step.grids, strict=True)
            ]
            try:
                result = step.compute(step.node, inputs)
                results = result if isinstance(result, list) else [result]
                if len(results) < len(step.outputs):
                    raise ValueError(f"it gives {step.outputs[len(results)]} as well")
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                raise ModelError(
                    f"{step.node.op_type} cannot be learnt as it is written: {error}", where=f"node {step.node.name}"
                ) from error
            values.update(zip(step.outputs, results, strict=False))
            for name in done:
                values.pop(name, None)
        return {name: self._value(name, values) for name in wanted}

    @property
    def tensors(self) -> frozenset[str]:
        """Names of all that nodes compute."""
        return frozenset(name for step in self._steps for name in step.outputs)

    def keep_within(self) -> None:
        """Bring back weights that have left their grids; to be called after every few steps of an optimizer."""
        for grid in self.weights.values():
            grid.keep_within()

    def _read(
        self,
        name: str | None,
        grid: Callable[[Tensor], Tensor] | None,
        values: Mapping[str, Tensor],
        weights: dict[str, Tensor],
    ) -> Tensor | None:
        if name is None:
            return None
        if isinstance(grid, WeightGrid):
            if name not in weights:
                weights[name] = grid()
            return weights[name]
        value = self._value(name, values)
        return value if grid is None else grid(value)

    def _value(self, name: str, values: Mapping[str, Tensor]) -> Tensor:
        """A tensor that is computed or given, or a constant."""
        if name in values:
            return values[name]
        return self.biases[name] if name in self.biases else self._constants[name]

    def _needed(self, known: frozenset[str], wanted: Sequence[str]) -> list[tuple[_Step, tuple[str, ...]]]:
        """Steps that lead from known to wanted tensors, each with the tensors that nothing reads behind it."""
        missing = {name for name in wanted if name not in known}
        steps = []
        for step in reversed(self._steps):
            if missing.intersection(step.outputs):
                steps.append(step)
                missing.update(name for name in step.inputs if name is not None and name not in known)
        found, later = [], set(wanted)
        for step in steps:
            read = {name for name in (*step.inputs, *step.outputs) if name is not None}
            found.append((step, tuple(sorted(read - later))))
            later |= read
        return found[::-1]

    def _make_activations(self, graph: ir.Graph, plan: QuantPlan) -> None:
        """Grids of activations. Equal ones are one: operators that only move values need the same on both sides."""
        fixed = {
            output.name
            for node in graph
            for output in node.outputs
            if (entry := operator(node)) is not None and entry.role is Role.FIXED
        }
        shared: dict[tuple[object, ...], ActivationGrid] = {}
        fixed_keys = {_identity(params) for name, params in plan.activations.items() if name in fixed}
        for name, params in plan.activations.items():
            key = _identity(params)
            if key not in shared:
                learns = self._trainable.activation_grids and key not in fixed_keys
                shared[key] = ActivationGrid(params, learns=learns)
                self._grids.append(shared[key])
            self.activations[name] = shared[key]

    def _step(self, node: ir.Node, plan: QuantPlan) -> _Step:
        compute = _known(node)
        for value in node.inputs:
            self._keep_constant(value, is_bias=value is not None and value is bias_of(node))
        return _Step(
            node,
            compute,
            tuple(None if value is None else str(value.name) for value in node.inputs),
            tuple(self._grid(node, position, plan) for position in range(len(node.inputs))),
            _read_outputs(node),
        )

    def _keep_constant(self, value: ir.Value | None, *, is_bias: bool) -> None:
        name, array = str(value.name) if value is not None else "", g.constant(value)
        if array is None or name in self._constants or name in self.biases:
            return
        tensor = torch.from_numpy(np.array(array))
        if is_bias and self.quantized is not None and tensor.is_floating_point() and self._trainable.biases:
            self.biases[name] = nn.Parameter(tensor)
            self._parameters_of_biases.append(self.biases[name])
        else:
            self._constants[name] = tensor

    def _grid(self, node: ir.Node, position: int, plan: QuantPlan) -> Callable[[Tensor], Tensor] | None:
        """The grid through which a node reads one of its inputs."""
        value, mode = node.inputs[position], plan.mode(node)
        if value is None or value.name is None:
            return None
        if g.is_constant(value):
            return self._weight_grid(value, node, position, plan)
        if mode is NodeMode.DYNAMIC and position == 0:
            return DynamicGrid(plan.nodes[node.name or ""].row_zero_point)
        if value.name in self.activations and (
            _comes_from_integers(value, plan) or reads_integer(node, position, plan)
        ):
            return self.activations[value.name]
        return None

    def _weight_grid(self, value: ir.Value, node: ir.Node, position: int, plan: QuantPlan) -> WeightGrid | None:
        name, params, mode = str(value.name), plan.weights.get(str(value.name)), plan.mode(node)
        if params is None or params.spec.bits == BIAS_BITS or mode is NodeMode.FLOAT or self.quantized is None:
            return None
        if mode is NodeMode.INTEGER and position in plan.nodes[node.name or ""].float_inputs:
            return None
        if all(reader.op_type == "Gather" for reader, _ in value.uses()):
            self._constants[name] = torch.from_numpy(params.dequantize(self.quantized.integers(name)))
            return None  # rows of a table do not compensate each other's errors
        if name not in self.weights:
            array = g.constant(value)
            assert array is not None
            integers = self.quantized.integers(name)
            grid = WeightGrid(array.astype(np.float32), params, integers, learns=self._trainable.weight_steps)
            grid.steps.requires_grad_(self._trainable.integers)
            self.weights[name] = grid
            self._grids.append(grid)
        return self.weights[name]


def check_operators(model: ir.Model) -> None:
    """Refuse a float graph with an operator that is not in the table; the graph is not changed.

    Raises:
        ModelError: The node is named.
    """
    for node in unknown_nodes(model):
        _known(node)


def unknown_nodes(model: ir.Model) -> list[ir.Node]:
    """Nodes of a float graph, and of the definitions of its operators, that are not in the table; the graph is not changed."""
    graph = _with_definitions(raise_opset(model.clone(), OPSET), QuantPlan("FLOAT")).graph
    return [node for node in graph if _function(node) is None]


def _function(node: ir.Node) -> Operator | None:
    return OPERATORS.get(node.op_type) if not node.domain else None


def _known(node: ir.Node) -> Operator:
    compute = _function(node)
    if compute is None:
        raise ModelError(
            f"there are no gradients of {node.op_type}",
            where=f"node {node.name}",
            hint="use rounding=ADAPTIVE, which needs none",
        )
    return compute


def _read_outputs(node: ir.Node) -> tuple[str, ...]:
    """Outputs up to the last one that something reads."""
    count = max((i + 1 for i, value in enumerate(node.outputs) if g.is_read(value)), default=1)
    return tuple(str(value.name) for value in node.outputs[:count])


def _with_definitions(model: ir.Model, plan: QuantPlan) -> ir.Model:
    """The model with what is not in the table, and what no integers compute, replaced by its definition."""
    kinds = {node.op_type for node in model.graph if plan.mode(node) is NodeMode.FLOAT} - OPERATORS.keys()
    integer = {node.op_type for node in model.graph if plan.mode(node) is not NodeMode.FLOAT}
    inline_definitions(model, (frozenset(kinds) | LARGER) - integer)
    return model


def _comes_from_integers(value: ir.Value, plan: QuantPlan) -> bool:
    producer = value.producer()
    return producer is not None and plan.mode(producer) is NodeMode.INTEGER and value.name in plan.activations


def _identity(params: QuantParams) -> tuple[object, ...]:
    return params.scale.tobytes(), params.zero_point.tobytes(), params.spec
