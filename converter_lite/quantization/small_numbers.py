"""Where small numbers count: in divisors, and in what a logarithm is taken of.

Rounded to 8 bits, small divisors become zero, and quotients of any size: linear attention (EfficientViT) divides by a sum of
products that is zero for some tokens. A logarithm makes large differences of small ones: loudness of sound, from spectra that the
network computes itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op
from converter_lite.targets.operands import operator
from converter_lite.targets.operators import Role

DIVIDES = "small divisors would become zero"
"""Why a division, and what computes its divisor, stays float."""

IN_LOGARITHM = "small numbers would become zero, and a logarithm is taken of them"
"""Why what computes the argument of a logarithm stays float."""

SHIFTED = ("Add", "Max", "Clip")
"""Operators that keep a divisor away from zero by a constant."""

OF_SIGNALS = (
    "Abs",
    "Add",
    "Clip",
    "Concat",
    "Div",
    "Max",
    "Mul",
    "Neg",
    "Pow",
    "ReduceL2",
    "ReduceMean",
    "ReduceSum",
    "ReduceSumSquare",
    "Sqrt",
    "Sub",
    "Sum",
)
"""Operators that spectra of signals and their powers are computed with, beside layers with weights and changes of order."""


def small_number_nodes(graph: ir.Graph) -> dict[ir.Node, str]:
    """Nodes that should stay float, and why."""
    return dict.fromkeys(_in_logarithms(graph), IN_LOGARITHM) | dict.fromkeys(_in_divisions(graph), DIVIDES)


def _in_divisions(graph: ir.Graph) -> Iterator[ir.Node]:
    """Divisions by what is not constant, and the nodes that compute the divisors.

    Those are behind constants that are added and changes of order only. Where one is a product of two tensors, so are products
    that it multiplies.
    """
    divisions = [node for node in graph if is_op(node, "Div") and not g.is_constant(node.inputs[1])]
    yield from divisions
    waiting = [(node.inputs[1], False) for node in divisions]
    seen = set[tuple[ir.Node, bool]]()
    while waiting:
        value, products_only = waiting.pop()
        node = value.producer() if value is not None else None
        entry = operator(node) if node is not None else None
        if node is None or entry is None or (node, products_only) in seen:
            continue
        seen.add((node, products_only))
        is_product = is_op(node, "MatMul") and not any(map(g.is_constant, node.inputs))
        if entry.role is Role.SAME or (is_op(node, *SHIFTED) and any(map(g.is_constant, node.inputs))):
            waiting.extend((operand, products_only) for operand in node.inputs)
        elif is_product:
            yield node
            waiting.extend((operand, True) for operand in node.inputs)
        elif not products_only and entry.role in (Role.WEIGHTED, Role.ARITHMETIC):
            yield node


def _in_logarithms(graph: ir.Graph) -> Iterator[ir.Node]:
    """What computes the arguments of logarithms: up to the first layer, and from there to the inputs if they are signals.

    A signal comes from inputs of the graph without an activation function in between: the layers are filters then, and each of
    them adds its noise to all that is quiet.
    """
    signals = _signals(graph)
    waiting = [operand for node in graph if is_op(node, "Log") for operand in node.inputs]
    seen = set[ir.Node]()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        entry = operator(node) if node is not None else None
        if node is None or node in seen or not _is_of_signals(node):
            continue
        seen.add(node)
        is_layer = entry is not None and entry.role is Role.WEIGHTED
        if is_layer or (entry is not None and entry.role is Role.ARITHMETIC):
            yield node
        waiting.extend(operand for operand in node.inputs if not is_layer or operand in signals)


def _signals(graph: ir.Graph) -> set[ir.Value]:
    """Values that come from inputs of the graph without an activation function in between."""
    found = set(graph.inputs)
    for node in graph:
        varying = [operand for operand in node.inputs if operand is not None and not g.is_constant(operand)]
        if varying and _is_of_signals(node) and found.issuperset(varying):
            found.update(node.outputs)
    return found


def _is_of_signals(node: ir.Node) -> bool:
    entry = operator(node)
    return is_op(node, *OF_SIGNALS) or (entry is not None and entry.role in (Role.WEIGHTED, Role.SAME))
