"""Attention heads in an order that needs no copies.

::

    x (B, S, K) ─ product with a constant ─ Add(bias) ─ Reshape (B, S, heads, D) ─ Transpose(0, 2, 1, 3)

computes the same when the integers of ``x`` are transposed to ``(S, B, K)`` first and the heads with ``(1, 2, 0, 3)``. The
integers of one tensor serve query, key and value, are a quarter of its bytes, and with one sample they keep their order. The
second Transpose is a stride of onnxruntime's product (FusedMatMul), where it knows the ranks of both operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import constant_operand, consumers, is_op

TURNED: Mapping[tuple[int, ...], tuple[int, ...]] = {(0, 2, 1, 3): (1, 2, 0, 3), (0, 2, 3, 1): (1, 2, 3, 0)}
"""Order of the axes ``(B, S, heads, D)`` behind the Transpose -> the same order from ``(S, B, heads, D)``."""

KNOWN_RANK = "known rank"
"""Key of ``value.meta``: the written file states how many axes the tensor has."""

POSITIONS_FIRST = (1, 0, 2)
"""Order of the axes of ``x`` that puts its positions in front of the samples."""


@dataclass(frozen=True, slots=True)
class Heads:
    """What follows a product whose result is split into heads.

    Attributes:
        nodes: From the product to the Reshape; all results have two axes ``(B, S)`` in front.
        transpose: The Transpose of the heads.
    """

    nodes: tuple[ir.Node, ...]
    transpose: ir.Node

    def turn(self, graph: ir.Graph) -> None:
        """Make the nodes take and give ``(S, B, ...)``. Values that now differ from the float model's are renamed."""
        for node in self.nodes:
            if is_op(node, "Reshape"):
                _swap_sizes(graph, node)
            value = node.outputs[0]
            value.name = f"{value.name}_positions_first"
            if value.shape is not None:
                first, second, *rest = value.shape
                value.shape = ir.Shape([second, first, *rest])
        for reader in consumers(self.transpose.outputs[0]):
            for operand in reader.inputs:
                if operand is not None and operand is not self.transpose.outputs[0]:
                    operand.meta[KNOWN_RANK] = True
        self.transpose.attributes["perm"] = ir.AttrInt64s("perm", TURNED[_order(self.transpose)])


def find_heads(product: ir.Node) -> Heads | None:
    """The heads behind a product of a tensor ``(B, S, K)`` with a constant matrix.

    Refused: other ranks, a Reshape that does not keep ``B`` and ``S``, another order, another reader of a value between.
    """
    x = product.inputs[0]
    if x is None or x.shape is None or len(x.shape) != 3:
        return None
    nodes = [product]
    while (node := g.single_consumer(nodes[-1].outputs[0])) is not None:
        if is_op(node, "Transpose"):
            return Heads(tuple(nodes), node) if _order(node) in TURNED else None
        if not (_adds_vector(node) or splits_last_axis(node, x)):
            return None
        nodes.append(node)
    return None


def _order(transpose: ir.Node) -> tuple[int, ...]:
    perm = transpose.attributes.get("perm")
    return () if perm is None else tuple(perm.as_ints())


def _adds_vector(node: ir.Node) -> bool:
    operands = constant_operand(node) if is_op(node, "Add") else None
    return operands is not None and len(g.static_shape(operands[1]) or ()) == 1


def splits_last_axis(node: ir.Node, x: ir.Value) -> bool:
    """Whether a Reshape keeps the first two axes, which are those of ``x``, and makes four."""
    if not is_op(node, "Reshape") or g.int_attribute(node, "allowzero", 0):
        return False
    sizes, shape = g.constant(node.inputs[1]), node.outputs[0].shape
    if sizes is None or sizes.shape != (4,) or x.shape is None:
        return False
    if list(sizes[:2]) == [0, 0]:
        return True
    known = [] if shape is None else [(shape[axis], x.shape[axis]) for axis in (0, 1)]
    return bool(known) and all(isinstance(a, int) and a == b for a, b in known)


def _swap_sizes(graph: ir.Graph, reshape: ir.Node) -> None:
    sizes, target = g.constant(reshape.inputs[1]), reshape.inputs[1]
    if sizes is not None and target is not None and sizes[0] != sizes[1]:
        swapped = g.add_initializer(graph, f"{target.name}_positions_first", sizes[[1, 0, 2, 3]])
        reshape.replace_input_with(1, swapped)
