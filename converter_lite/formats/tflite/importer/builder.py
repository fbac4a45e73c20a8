"""Making an ONNX graph node by node: names, types and shapes, constants, decisions of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.inference import OPSET, Inference
from converter_lite.formats.tflite.constants import Stored
from converter_lite.formats.tflite.importer import folding
from converter_lite.formats.tflite.importer.joining import Join, describe_join
from converter_lite.graph import values_read
from converter_lite.quantization.plan import Integers, NodeMode, NodePlan, QuantizedModel, QuantPlan

IR_VERSION = 9

MOST_REPEATED = 12_000
"""Most operators of graphs that are called, turns of loops, and steps of layers that are written one by one: a few bytes could
ask for any number."""

UNNAMED = "unnamed"
"""Key of a value's ``meta`` as long as it has no name of a tensor."""

FLOAT_REASON = "it is float in the file"

_BRANCHES = ("then_branch", "else_branch")

_ATTRIBUTES: dict[type, tuple[Callable[..., ir.Attr], Callable[..., ir.Attr]]] = {
    int: (ir.AttrInt64, ir.AttrInt64s),
    float: (ir.AttrFloat32, ir.AttrFloat32s),
    str: (ir.AttrString, ir.AttrStrings),
}
"""Kind of a value -> attribute with one, attribute with several."""


def _attribute(name: str, value: Any) -> ir.Attr:
    if isinstance(value, ir.Graph):
        return ir.AttrGraph(name, value)
    if isinstance(value, ir.TensorProtocol):
        return ir.AttrTensor(name, value)
    many = isinstance(value, (list, tuple))
    first = value[0] if many else value
    single, several = next(makers for kind, makers in _ATTRIBUTES.items() if isinstance(first, kind))
    return several(name, value) if many else single(name, value)


class Builder:
    """The graph that a file becomes, as far as it is made.

    Attributes:
        nodes: Those of the graph that is being made, the main one or a branch.
        plan: Decisions and parameters.
        q_weights: Integers of weights.
        inputs: Of the main graph.
        first_states: Where variables that are kept from run to run begin.
        states: What they are now.
        name: Of the nodes that follow.
        mode: Of the nodes that follow.
        reason: Why they are float, where they are.
    """

    def __init__(self, target: str) -> None:
        self.nodes: list[ir.Node] = []
        self.plan = QuantPlan(target)
        self.q_weights: dict[str, Integers] = {}
        self.inputs: list[ir.Value] = []
        self.first_states: dict[str, Stored] = {}
        self.states: dict[str, ir.Value] = {}
        self.name = ""
        self.mode = NodeMode.FLOAT
        self.reason = FLOAT_REASON
        self._initializers: dict[str, ir.Value] = {}
        self._shared: dict[tuple[Any, ...], ir.Value] = {}
        self._taken: set[str] = set()
        self._node_names: set[str] = set()
        self._counts: dict[tuple[int, str], int] = {}
        self.inference = Inference()
        self._repeated = 0
        self._joins: dict[ir.Value, Join] = {}
        self._main_nodes = self.nodes

    def count(self, operators: int) -> None:
        """Count what is written out, maybe many times.

        Raises:
            ModelError: It is too much.
        """
        self._repeated += operators
        if self._repeated > MOST_REPEATED:
            raise ModelError(
                f"written out with all repetitions, it has more than {MOST_REPEATED} operators",
                hint="convert the model again for shorter sequences",
            )

    # Names

    def unique(self, name: str) -> str:
        """A name that no value has yet."""
        return self._next(name or "value", self._taken)

    def _next(self, name: str, taken: set[str]) -> str:
        """The name, with a number behind it if it is taken: the first one since the last that was given."""
        candidate, count = name, self._counts.get((id(taken), name), 0)
        while candidate in taken:
            count += 1
            candidate = f"{name}_{count}"
        self._counts[id(taken), name] = count
        taken.add(candidate)
        return candidate

    def rename(self, value: ir.Value, name: str) -> None:
        """Give a value a free name; the plan follows."""
        value.meta.pop(UNNAMED, None)
        old = str(value.name)
        self._taken.discard(old)
        value.name = self.unique(name)
        if old in self.plan.activations:
            self.plan.activations[value.name] = self.plan.activations.pop(old)

    # Values

    def add_input(self, name: str, kind: ir.DataType, sizes: Sequence[int]) -> ir.Value:
        """An input of the main graph; negative sizes are open."""
        own = self.unique(name)
        dims = [size if size >= 0 else ir.SymbolicDim(f"{own}_{axis}") for axis, size in enumerate(sizes)]
        value = ir.Value(name=own, shape=ir.Shape(dims), type=ir.TensorType(kind))
        self.inputs.append(value)
        return value

    def initializer(self, tensor: ir.TensorProtocol, name: str, *, key: tuple[Any, ...] | None = None) -> ir.Value:
        """A constant; the same ``key`` gives the same one."""
        if key is not None and key in self._shared:
            return self._shared[key]
        tensor.name = self.unique(name)
        shape = ir.Shape(tensor.shape.numpy())
        value = ir.Value(name=tensor.name, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
        self._initializers[tensor.name] = value
        if key is not None:
            self._shared[key] = value
        return value

    def constant(self, values: Any, dtype: Any, name: str = "") -> ir.Value:
        """A small constant; equal ones are one."""
        array = np.asarray(values, dtype)
        key = ("constant", array.dtype.str, array.shape, array.tobytes())
        return self.initializer(ir.Tensor(array), name or "constant", key=key)

    # Nodes

    def add(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        count: int = 1,
        *,
        name: str = "",
        decision: NodeMode | None = None,
        computes: bool = True,
        **attributes: Any,
    ) -> list[ir.Value]:
        """A node, or a constant where its result is known.

        Args:
            op_type: ONNX operator.
            inputs: Trailing ones may be ``None``.
            count: Number of outputs.
            name: Of the node; that of the current operator by default.
            decision: That of the plan, if not :attr:`mode`.
            computes: Give a constant where the result is known.
            attributes: Its attributes; ``None`` leaves one out.

        Raises:
            ModelError: The inputs do not fit the operator.
        """
        given = {key: value for key, value in attributes.items() if value is not None}
        numbers = folding.computed(op_type, inputs, given) if count == 1 else None
        settled = None if numbers is None else folding.whole(numbers)
        if settled is not None and computes:
            kind = self._folded_type(op_type, inputs, given)
            return [self.constant(settled, kind.numpy(), f"{name or self.name}_{op_type.lower()}")]
        inputs = [None if value is None else self.made(value) for value in inputs]
        node_name = self._next(name or self.name or op_type, self._node_names)
        outputs = [ir.Value(name=self.unique(f"{node_name}:{index}")) for index in range(count)]
        for value in outputs:
            value.meta[UNNAMED] = True
        made = [_attribute(key, value) for key, value in given.items()]
        node = ir.Node("", op_type, list(inputs), made, outputs=outputs, name=node_name)
        self.nodes.append(node)
        self._decide(node, decision or self.mode)
        self.inference.infer(node)
        if numbers is not None:
            outputs[0].meta[folding.KEY] = numbers
        return outputs

    def join(self, parts: Sequence[ir.Value], axis: int) -> ir.Value:
        """Values behind one another: a Concat that is made when something reads it.

        A loop that collects rows makes a longer one in every turn, of which only the last one is read.
        """
        name = self._next(self.name or "Concat", self._node_names)
        value = ir.Value(name=self.unique(f"{name}:0"))
        value.meta[UNNAMED] = True
        mode, reason = self.mode, self.reason
        self._joins[value] = Join(tuple(parts), axis, name, mode, reason if mode is NodeMode.FLOAT else "")
        describe_join(value, parts, axis)
        return value

    def parts(self, value: ir.Value) -> Join | None:
        """What a value is put together of."""
        return self._joins.get(value)

    def made(self, value: ir.Value) -> ir.Value:
        """The value, whose node is there."""
        join = self._joins.get(value)
        if join is not None and value.producer() is None:
            inputs = [self.made(part) for part in join.parts]
            attributes = [ir.AttrInt64("axis", join.axis)]
            self.nodes.append(ir.Node("", "Concat", inputs, attributes, outputs=[value], name=join.name))
            self.plan.nodes[join.name] = NodePlan("Concat", join.mode, join.reason)
        return value

    def _decide(self, node: ir.Node, mode: NodeMode) -> None:
        reason = self.reason if mode is NodeMode.FLOAT else ""
        self.plan.nodes[str(node.name)] = NodePlan(node.op_type, mode, reason)

    @staticmethod
    def _folded_type(op_type: str, inputs: Sequence[ir.Value | None], attributes: dict[str, Any]) -> ir.DataType:
        if op_type in folding.TRUTHS:
            return ir.DataType.BOOL
        if op_type == "Cast":
            return ir.DataType(attributes["to"])
        first = inputs[0].dtype if op_type != "Shape" and inputs[0] is not None else None
        return first or ir.DataType.INT64

    def choose(self, condition: ir.Value, branches: Sequence[ir.Graph], name: str) -> list[ir.Value]:
        """An If with two branches of equal results."""
        node_name = self._next(name, self._node_names)
        outputs = [ir.Value(name=self.unique(f"{node_name}:{index}")) for index in range(len(branches[0].outputs))]
        for value, one, other in zip(outputs, branches[0].outputs, branches[1].outputs, strict=True):
            value.meta[UNNAMED] = True
            value.type = one.type
            if one.shape is not None and other.shape is not None and len(one.shape) == len(other.shape):
                pairs = zip(one.shape, other.shape, strict=True)
                value.shape = ir.Shape([a if isinstance(a, int) and a == b else None for a, b in pairs])
        attributes = [ir.AttrGraph(key, graph) for key, graph in zip(_BRANCHES, branches, strict=True)]
        node = ir.Node("", "If", [condition], attributes, outputs=outputs, name=node_name)
        self.nodes.append(node)
        self._decide(node, NodeMode.FLOAT)
        return outputs

    @property
    def is_branch(self) -> bool:
        """Whether nodes are made for a branch now."""
        return self.nodes is not self._main_nodes

    @contextmanager
    def branch(self) -> Iterator[list[ir.Node]]:
        """Nodes made inside belong to another graph, whose list is given."""
        for value in self._joins:  # not inside: others may read them behind it
            self.made(value)
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    # The result

    def finish(self, outputs: Sequence[ir.Value], name: str) -> QuantizedModel:
        """The graph with what it uses, and the plan for it."""
        main = ir.Graph(
            self.inputs,
            outputs,
            nodes=_needed(self.nodes, outputs),
            opset_imports={"": OPSET},
            name=name or "main_graph",
        )
        used = {value for node in ir.traversal.RecursiveGraphIterator(main) for value in node.inputs}
        kept = [value for value in self._initializers.values() if value in used]
        for value in kept:
            main.register_initializer(value)
        names = {str(value.name) for value in kept}
        made = {str(node.name) for node in main}
        plan = self.plan
        plan.nodes = {name: decision for name, decision in plan.nodes.items() if name in made}
        plan.weights = {name: params for name, params in plan.weights.items() if name in names}
        weights = {name: integers for name, integers in self.q_weights.items() if name in plan.weights}
        return QuantizedModel(ir.Model(main, ir_version=IR_VERSION), plan, weights)


def _needed(nodes: Sequence[ir.Node], outputs: Sequence[ir.Value]) -> list[ir.Node]:
    """Nodes that an output depends on: what was followed while the graph was built needs none."""
    wanted, kept = set(outputs), []
    for node in reversed(nodes):
        if wanted.isdisjoint(node.outputs):
            for position in range(len(node.inputs)):
                node.replace_input_with(position, None)
            continue
        wanted.update(values_read(node))
        kept.append(node)
    return kept[::-1]
