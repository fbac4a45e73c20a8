"""The front of a network: what does not depend on nodes without gradients, and is no whole number or truth value at its end.

::

    image ─ layers ─ boxes, scores ─ NonMaxSuppression ─ Gather ─ y
            └──── the front ─────┘

It learns to give what it gives in the float network; what is behind it stays as it was quantized.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.learning.network import unknown_nodes
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.targets.operands import weight_of


@dataclass(frozen=True, slots=True)
class Front:
    """Where the front of a network ends.

    Attributes:
        ends: Names of its tensors of floats that nodes behind it read, or that are outputs.
        first: The first node without gradients; ``None``: all have them.
        is_whole: Whether it is the whole network.
        layers: Layers with weights in the front.
        all_layers: Those of the whole network.
    """

    ends: tuple[str, ...]
    first: ir.Node | None
    is_whole: bool
    layers: int
    all_layers: int

    def of_model(self, model: ir.Model) -> ir.Model:
        """What computes the ends from all inputs.

        Raises:
            ModelError: There is no such tensor.
        """
        if self.is_whole:
            return model
        known = {value.name: value for node in model.graph for value in node.outputs}
        missing = [name for name in self.ends if name not in known]
        if missing:
            hint = "use rounding=ADAPTIVE"
            raise ModelError(f"the quantized network has no tensor {missing[0]} to learn from", hint=hint)
        graph = g.extracted(model.graph, model.graph.inputs, [known[name] for name in self.ends])
        return ir.Model(graph, ir_version=model.ir_version)

    def of_quantized(self, quantized: QuantizedModel) -> QuantizedModel:
        """The same of a quantized network, with the plan of all of it."""
        reference = None if quantized.reference is None else self.of_model(quantized.reference)
        return replace(quantized, model=self.of_model(quantized.model), reference=reference)

    def joined(self, learnt: QuantizedModel, whole: QuantizedModel) -> QuantizedModel:
        """A quantized network whose front is the one that has learnt; neither is changed."""
        if self.is_whole:
            return learnt
        model = whole.model.clone()
        for name, value in learnt.model.graph.initializers.items():
            if name in model.graph.initializers:
                model.graph.initializers[name].const_value = value.const_value
        return replace(whole, model=model, plan=learnt.plan, q_weights=learnt.q_weights)


def front_of(model: ir.Model) -> Front:
    """The front of a float network; the graph is not changed.

    Raises:
        ModelError: There is no layer with weights in it; the first node without gradients is named.
    """
    unknown = unknown_nodes(model)
    behind = _depending(model.graph, {str(value.name) for node in unknown for value in node.outputs})
    behind.update(value for node in _without_floats(model.graph) for value in node.outputs)
    nodes = [node for node in model.graph if not behind.intersection(node.outputs)]
    read_behind = {value for node in model.graph if behind.intersection(node.outputs) for value in g.values_read(node)}
    ends = [
        str(value.name)
        for node in nodes
        for value in node.outputs
        if (value in read_behind or value.is_graph_output()) and value.dtype in (ir.DataType.FLOAT, None)
    ]
    layers = sum(weight_of(node) is not None for node in nodes)
    if unknown and not (ends and layers):
        node = unknown[0]
        raise ModelError(
            f"there are no gradients of {node.op_type}, and no layer with weights is in front of it",
            where=f"node {node.name}",
            hint="use rounding=ADAPTIVE, which needs none",
        )
    all_layers = sum(weight_of(node) is not None for node in model.graph)
    return Front(tuple(ends), unknown[0] if unknown else None, not behind, layers, all_layers)


def _depending(graph: ir.Graph, unknown: set[str]) -> set[ir.Value]:
    """What nodes compute that read any of these tensors, and these themselves."""
    found: set[ir.Value] = set()
    for node in graph:
        if found.intersection(g.values_read(node)) or any(value.name in unknown for value in node.outputs):
            found.update(node.outputs)
    return found


def _without_floats(graph: ir.Graph) -> set[ir.Node]:
    """Nodes at the end that give other than floats, and lead to nothing else: the class of a pixel, a rounded score."""
    found: set[ir.Node] = set()
    for node in reversed(list(graph)):
        given = [value for value in node.outputs if g.is_read(value)]
        if given and all(
            value.dtype is not None
            and not value.dtype.is_floating_point()
            and all(reader in found for reader, _ in value.uses())
            for value in given
        ):
            found.add(node)
    return found
