"""Neighbouring transpositions."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.graph import absorb_names, ints_attribute, single_consumer
from converter_lite.passes.rewrite import bypass, for_each, is_op, remove


@for_each("Transpose")
def merge_transposes(_graph: ir.Graph, second: ir.Node) -> bool:
    """Merge two neighbouring Transposes into one, and remove two that undo each other.

    ::

        x ─ Transpose(p) ─ Transpose(q) ─ y      becomes      x ─ Transpose(p∘q) ─ y      or      x

    Refused: permutations left to their default while the rank is unknown. A first Transpose with more readers stays
    for them, and then only a pair that undoes itself is worth a change.
    """
    middle = second.inputs[0]
    first = middle.producer() if middle is not None else None
    if middle is None or first is None or not is_op(first, "Transpose"):
        return False
    inner, outer = _permutation(first), _permutation(second)
    if inner is None or outer is None or len(inner) != len(outer):
        return False
    combined = tuple(inner[axis] for axis in outer)
    undone = combined == tuple(range(len(combined)))
    if not undone and single_consumer(middle) is not second:
        return False
    return _read_before(first, second, combined, undone)


def _read_before(first: ir.Node, second: ir.Node, combined: tuple[int, ...], undone: bool) -> bool:
    middle = first.outputs[0]
    second.replace_input_with(0, first.inputs[0])
    second.attributes["perm"] = ir.AttrInt64s("perm", combined)
    if undone:
        bypass(second)
    if not middle.uses() and not middle.is_graph_output():
        if second.graph is not None:
            absorb_names(second, [first])
        remove(first)
    return True


def _permutation(node: ir.Node) -> tuple[int, ...] | None:
    order = ints_attribute(node, "perm")
    if order:
        return order
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    return tuple(reversed(range(len(shape)))) if shape is not None else None
