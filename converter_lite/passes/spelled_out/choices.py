"""Branches that data choose between, and bounds that are computed."""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.branches import forget, lift_branch
from converter_lite.passes.rewrite import for_each, is_op, replace, take_over
from converter_lite.passes.spelled_out.inserting import insert

SIZES = ("Shape", "Size")
"""Operators whose results are known when shapes are."""


@for_each("If")
def spell_out_choices(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an If by both branches and a Where that takes the results of one of them.

    Refused: a condition that follows from shapes, or from single numbers that the caller gives (an option, for which computing
    one branch is enough), and branches whose results differ in type or shape, or are no tensors.
    """
    condition, size = node.inputs[0], g.static_shape(node.inputs[0])
    branches = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
    pairs = list(zip(*(branch.outputs for branch in branches), strict=True))
    if condition is None or size is None or not _depends_on_data(condition):
        return False
    if not all(_is_alike(first, second, len(size)) for first, second in pairs):
        return False
    results = [lift_branch(graph, node, branch) for branch in branches]
    for output, first, second in zip(node.outputs, *results, strict=True):
        chosen = ir.node("Where", [condition, first, second], name=f"{node.name}_{output.name}")
        graph.insert_before(node, chosen)
        g.absorb_names(chosen, [node])
        take_over(chosen.outputs[0], output)
    graph.remove(node, safe=True)
    forget(node)
    return True


def _is_alike(first: ir.Value, second: ir.Value, least: int) -> bool:
    """Whether two results are tensors of one type and shape, with so many dimensions at least."""
    shape = g.static_shape(first)
    is_tensor = isinstance(first.type, ir.TensorType) and first.type == second.type
    return is_tensor and shape is not None and shape == g.static_shape(second) and len(shape) >= least


def _depends_on_data(value: ir.Value) -> bool:
    """Whether the elements of an input decide what a value is."""
    pending, seen = [value], {value}
    while pending:
        value = pending.pop()
        node = value.producer()
        if node is None:
            shape = g.static_shape(value)
            if value.is_graph_input() and (shape is None or math.prod(shape) > 1):
                return True
        elif not is_op(node, *SIZES):
            fresh = [source for source in node.inputs if source is not None and source not in seen]
            seen.update(fresh)
            pending += fresh
    return False


@for_each("Clip")
def spell_out_computed_bounds(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Clip whose bounds are computed, or are not single numbers, by Max and Min."""
    x, bounds = node.inputs[0], [g.input_at(node, place) for place in (1, 2)]
    if x is None or all(bound is None or g.is_constant(bound) for bound in bounds):
        return False
    result, shape = x, g.static_shape(x)
    for op_type, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is not None:
            result = insert(graph, node, op_type, [result, bound], shape)
    replace([node], ir.node("Identity", [result]))
    return True
