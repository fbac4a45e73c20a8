"""What a network divides by: rounded to 8 bits, small divisors become zero, and quotients of any size.

Linear attention (EfficientViT) divides by a sum of products that is zero for some tokens.
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

SHIFTED = ("Add", "Max", "Clip")
"""Operators that keep a divisor away from zero by a constant."""


def divisor_nodes(graph: ir.Graph) -> Iterator[ir.Node]:
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
