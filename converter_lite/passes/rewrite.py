"""Edits that keep the promises of every pass: input and output names stay, original names still find their node."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.graph import (
    absorb_names,
    all_nodes,
    constant,
    is_constant,
    is_read,
    opset,
    scalar,
    unique_among,
    unique_name,
)

Pass = Callable[[ir.Model], int]
"""Rewrites the model in place and returns how often it did."""


def for_each(*op_types: str, since: int = 1) -> Callable[[Callable[[ir.Graph, ir.Node], bool]], Pass]:
    """Make a pass of a rule for one node: it is tried on each of these operators in the main graph.

    The rule says whether it applied. Nodes that it adds are not visited; those that it removes are.

    Args:
        op_types: Operators of the standard set.
        since: The first operator set for which the rule is right; models of earlier ones stay as they are.
    """

    def decorate(rule: Callable[[ir.Graph, ir.Node], bool]) -> Pass:
        @functools.wraps(rule)
        def apply(model: ir.Model) -> int:
            if opset(model) < since:
                return 0
            return sum(rule(model.graph, node) for node in list(model.graph) if is_op(node, *op_types))

        return apply

    return decorate


def is_op(node: ir.Node | None, *op_types: str) -> bool:
    """Whether the node is one of these operators of the standard set, which has no domain in onnx_ir."""
    return node is not None and node.op_type in op_types and not node.domain


def consumers(value: ir.Value) -> list[ir.Node]:
    """Nodes that read the value, each once, in the order in which they were attached."""
    return list(dict.fromkeys(use.node for use in value.uses()))


def sole_output(node: ir.Node) -> ir.Value | None:
    """The node's first output when no other output is used, else ``None``."""
    if any(is_read(value) for value in node.outputs[1:]):
        return None
    return node.outputs[0]


def take_over(kept: ir.Value, removed: ir.Value) -> None:
    """``kept`` stands for ``removed`` from now on: its uses, its name and its place among the graph outputs."""
    removed.replace_all_uses_with(kept, replace_graph_outputs=True)
    kept.name, removed.name = removed.name, None
    kept.shape = removed.shape or kept.shape
    kept.type = removed.type or kept.type


def merge_into_producer(producer: ir.Node, node: ir.Node) -> None:
    """Remove ``node``, whose work ``producer`` (its only source of activations) does now as well.

    The producer's output value stays the same object, with its ``meta``, and gets the name of the node's output.
    """
    take_over(producer.outputs[0], node.outputs[0])
    absorb_names(producer, [node])
    remove(node)


def bypass(node: ir.Node) -> bool:
    """Remove a node that returns its first input unchanged; refused when a graph output would lose its name."""
    source, result = node.inputs[0], node.outputs[0]
    if source is None:
        return False
    producer = source.producer()
    if result.is_graph_output():
        if producer is None or producer.graph is not node.graph or source.is_graph_output():
            return False
        name = result.name
        result.replace_all_uses_with(source, replace_graph_outputs=True)
        result.name, source.name = None, name
    else:
        result.replace_all_uses_with(source)
    source.shape = source.shape or result.shape
    for heir in [producer] if producer is not None else [n for n in consumers(source) if n is not node]:
        absorb_names(heir, [node])
    remove(node)
    return True


def replace(nodes: Sequence[ir.Node], new: ir.Node) -> None:
    """Put ``new`` in the place of the matched nodes; the last one's output becomes its output.

    Matched nodes that something else still reads stay; only the last node must go.
    """
    last = nodes[-1]
    graph = last.graph
    if graph is None:
        raise ValueError("the node to replace is not part of a graph")
    new.name = last.name
    graph.insert_before(last, new)
    take_over(new.outputs[0], last.outputs[0])
    new.outputs[0].meta.update(last.outputs[0].meta)
    for node in reversed(nodes):
        if not any(is_read(value) for value in node.outputs):
            remove(node)
            absorb_names(new, [node])


def fuse(match: tuple[ir.Value, list[ir.Node]] | None, op_type: str, **attributes: float) -> bool:
    """Put one operator in the place of what a pattern matched: what goes into it, and its nodes; says whether it matched."""
    if match is None:
        return False
    source, nodes = match
    replace(nodes, ir.node(op_type, [source], attributes=attributes))
    return True


def cast_of(graph: ir.Graph, value: ir.Value, kind: ir.DataType, *, name: str, result: str) -> ir.Node:
    """A Cast that is not in the graph yet; names of it and of its result get a number where something is called so already."""
    node = ir.node("Cast", [value], attributes={"to": kind.value})
    node.name = unique_among(name, {other.name or "" for other in all_nodes(graph)})
    made = node.outputs[0]
    made.name, made.type, made.shape = unique_name(graph, result), ir.TensorType(kind), value.shape
    return node


def remove(node: ir.Node) -> None:
    """Remove a node without readers from its graph."""
    if node.graph is not None:
        node.graph.remove(node, safe=True)


def constant_operand(node: ir.Node) -> tuple[ir.Value, ir.Value, bool] | None:
    """``(activation, constant, constant is first)`` of a two-input node with exactly one constant operand."""
    if len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if first is None or second is None:
        return None
    if is_constant(first) == is_constant(second):
        return None
    return (second, first, True) if is_constant(first) else (first, second, False)


def scalar_operand(node: ir.Node, expected: float) -> ir.Value | None:
    """The other operand of a two-input node one of whose operands is this number, else ``None``."""
    found = constant_operand(node)
    if found is None:
        return None
    activation, operand, _ = found
    return activation if is_number(operand, expected) else None


def is_number(value: ir.Value | None, expected: float) -> bool:
    """Whether the value is a one-element constant near ``expected`` (exporters round to float16 at worst)."""
    found = number(value)
    return found is not None and math.isclose(found, expected, rel_tol=1e-3)


def number(value: ir.Value | None) -> float | None:
    """The number in a constant that broadcasts without adding axes (of rank 0 or 1), else ``None``."""
    tensor = value.const_value if value is not None else None
    return scalar(value) if tensor is not None and len(tensor.shape) <= 1 else None


def int_values(value: ir.Value | None) -> tuple[int, ...] | None:
    """The integers of a constant, or ``None`` for anything else."""
    array = constant(value)
    if array is None or not np.issubdtype(array.dtype, np.integer):
        return None
    return tuple(int(i) for i in array.reshape(-1))
