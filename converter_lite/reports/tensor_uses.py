"""Which tensors the debug reports show, node by node, and where the quantized graph holds them.

Rules:

1. Every node that is not float is shown: its quantized inputs (weights and biases among them), then its outputs.
2. An input activation is shown if the node reads it through Q/DQ.
3. A Relu or Clip that is the last step of an integer node is part of it: the node is shown with the output of the Relu, the
   Relu itself and the tensor between them are not.
4. Of a node in a branch or a body the weights are shown: what it reads and gives is there only while that runs.
5. An output without Q/DQ (a float result, weight-only and dynamic nodes) is shown as the quantized graph computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.placement import is_fused_clamp, reads_integer
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq.guard import is_guard
from converter_lite.targets.operands import FLOAT_TYPES


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One input or output of a quantized node.

    Attributes:
        node: Name of the node.
        op_type: Its operator.
        tensor: Name of the tensor in the float graph.
        is_output: An output of the node, not an input.
        is_weight: A constant, not an activation.
        written: Tensor of the quantized graph that holds its values: integers where ``params`` is given, real values
            otherwise. Empty for weights.
        params: Its grid; ``None`` for an output that stays float.
    """

    node: str
    op_type: str
    tensor: str
    is_output: bool
    is_weight: bool
    written: str = ""
    params: QuantParams | None = None


def tensor_uses(quantized: QuantizedModel, written: ir.Model | None) -> list[TensorUse]:
    """Everything that the reports show, in graph order.

    Args:
        quantized: Float graph and plan.
        written: The same with Q/DQ pairs (:func:`converter_lite.quantization.qdq.materialize.materialize`); ``None`` uses the
            plan alone if nothing is run, since that graph takes the memory of all integers.
    """
    lookup: _Lookup = _Planned(quantized.plan) if written is None else _Written(written)
    uses: list[TensorUse] = []
    for node in g.all_nodes(quantized.model.graph):
        if quantized.plan.mode(node) is NodeMode.FLOAT or is_fused_clamp(node, quantized.plan):  # rule 3
            continue
        uses += _inputs(node, quantized, lookup)
        if node.graph is quantized.model.graph:  # rule 4
            uses += _outputs(node, quantized, lookup)
    return uses


class _Lookup(Protocol):
    """Where to find values of the float graph in the quantized one."""

    def holds(self, name: str) -> bool:
        """Whether it has this value."""

    def integers(self, tensor: str) -> str:
        """Name of the integers of a float tensor, empty if it has no Q/DQ."""

    def reads_integers(self, node: ir.Node, position: int) -> bool:
        """Whether the node of this name reads the input through Q/DQ."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """As the plan says."""

    plan: QuantPlan

    def holds(self, name: str) -> bool:
        return bool(name)

    def integers(self, tensor: str) -> str:
        return f"{tensor}_quantized" if tensor in self.plan.activations else ""

    def reads_integers(self, node: ir.Node, position: int) -> bool:
        return reads_integer(node, position, self.plan)


class _Written:
    """Nodes and values of the quantized graph by name."""

    def __init__(self, model: ir.Model) -> None:
        self.nodes = {node.name: node for node in model.graph}
        values = (*model.graph.inputs, *(output for node in model.graph for output in node.outputs))
        self.values = {value.name: value for value in values}

    def holds(self, name: str) -> bool:
        return name in self.values

    def integers(self, tensor: str) -> str:
        value = self.values.get(f"{tensor}_quantized")
        producer = value.producer() if value is not None else None
        is_quantized = producer is not None and producer.op_type == "QuantizeLinear"
        return str(value.name) if value is not None and is_quantized else ""

    def reads_integers(self, node: ir.Node, position: int) -> bool:
        written = self.nodes.get(node.name)
        value = written.inputs[position] if written is not None and position < len(written.inputs) else None
        producer = value.producer() if value is not None else None
        if producer is not None and is_guard(producer) and producer.inputs[0] is not None:
            producer = producer.inputs[0].producer()
        return producer is not None and producer.op_type == "DequantizeLinear"


def _inputs(node: ir.Node, quantized: QuantizedModel, lookup: _Lookup) -> Iterator[TensorUse]:
    plan = quantized.plan
    float_inputs = plan.nodes[node.name or ""].float_inputs
    seen: set[str] = set()
    for position, value in enumerate(node.inputs):
        if value is None or not value.name or value.name in seen or position in float_inputs:
            continue
        weight = plan.weights.get(value.name) if g.is_constant(value) else None
        params = weight or plan.activations.get(value.name)
        is_read = weight is not None or lookup.reads_integers(node, position)  # rule 2
        if params is None or not is_read:
            continue
        seen.add(value.name)
        integers = "" if weight is not None else lookup.integers(value.name)
        yield TensorUse(node.name or "", node.op_type, value.name, False, weight is not None, integers, params)


def _outputs(node: ir.Node, quantized: QuantizedModel, lookup: _Lookup) -> Iterator[TensorUse]:
    plan = quantized.plan
    for output in node.outputs:
        user = g.single_consumer(output)
        value = user.outputs[0] if user is not None and is_fused_clamp(user, plan) else output  # rule 3
        if not value.name or value.dtype not in FLOAT_TYPES:
            continue
        integers = lookup.integers(value.name)
        params = plan.activations.get(value.name) if integers else None
        held = integers if params is not None else value.name  # rule 5
        if lookup.holds(held):
            yield TensorUse(node.name or "", node.op_type, value.name, True, False, held, params)
