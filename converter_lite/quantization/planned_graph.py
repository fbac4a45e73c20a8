"""Operators spelled out in the graph of a model that came with a plan.

Nodes that the plan quantizes stay as they are: rules see operators in their place that they do not know. What a rule makes of a
float node computes with floats, and reads the grids that the node read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.pipeline import OptimizeResult, settle
from converter_lite.quantization.bodies import inner_nodes
from converter_lite.quantization.placement import reads_grid
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel, QuantPlan

KEPT = "converter_lite.kept"
"""Domain of nodes while rules are applied to the others."""

REASON = "it is float in the model"


def settle_planned(quantized: QuantizedModel, spelled_out: frozenset[str]) -> tuple[QuantizedModel, OptimizeResult]:
    """The graph settled, and what its float nodes compute spelled out; the graph that is given may be changed.

    Args:
        quantized: A graph with the plan that it came with.
        spelled_out: See :func:`~converter_lite.passes.pipeline.optimize`.

    Raises:
        BrokenGraphError: A pass broke the graph; its name is in the message.
        ModelError: A node is not what its operator says.
    """
    done = settle(quantized.model)
    if not spelled_out:
        return quantized, done
    changed = replace(quantized, model=quantized.model.clone(), plan=replace(quantized.plan))
    graph, plan = changed.model.graph, changed.plan
    before = {node: _grids_read(node, plan) for node in graph}
    with _kept([node for node in g.all_nodes(graph) if _is_quantized(node, plan)]):
        spelled = settle(changed.model, spelled_out)
    if not plan.activations.keys() <= {str(value.name) for value in g.values_of(graph)}:
        return quantized, done  # a rule took nodes together between which a grid stands
    gone = before.keys() - set(graph)
    grids = {name for node in gone for name in before[node]}
    names = {node.name for node in gone}
    plan.nodes = {name: decision for name, decision in plan.nodes.items() if name not in names}
    for node in graph:
        if node not in before:
            read = tuple(position for position, value in enumerate(node.inputs) if value and value.name in grids)
            plan.nodes[str(node.name)] = NodePlan(node.op_type, NodeMode.FLOAT, REASON, grid_inputs=read)
    return changed, replace(spelled, nodes_before=done.nodes_before, vanished=done.vanished | spelled.vanished)


def _grids_read(node: ir.Node, plan: QuantPlan) -> list[str]:
    """Names of values that a float node reads from a grid."""
    if plan.mode(node) is not NodeMode.FLOAT:
        return []
    values = ((at, value) for at, value in enumerate(node.inputs) if value is not None)
    return [str(value.name) for at, value in values if value.name in plan.activations and reads_grid(node, at, plan)]


def _is_quantized(node: ir.Node, plan: QuantPlan) -> bool:
    """Whether a node, or one of those inside of it, holds integers."""
    return any(plan.mode(other) is not NodeMode.FLOAT for other in (node, *inner_nodes([node])))


@contextmanager
def _kept(nodes: Collection[ir.Node]) -> Iterator[None]:
    """Nodes as operators that no rule knows."""
    known = [(node, node.domain, node.op_type) for node in nodes]
    for node in nodes:
        node.domain, node.op_type = KEPT, f"Kept{node.op_type}"
    try:
        yield
    finally:
        for node, domain, op_type in known:
            node.domain, node.op_type = domain, op_type
