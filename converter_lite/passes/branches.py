"""If nodes whose condition is known."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, take_over


@for_each("If")
def inline_branches(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an If whose condition is constant by the nodes of the branch that it takes.

    Exporters leave such nodes where a model asks for a shape or an option that is fixed by now. Names that the graph has already
    get a number.
    """
    condition = g.scalar(node.inputs[0])
    if condition is None:
        return False
    branch = node.attributes["then_branch" if condition else "else_branch"].as_graph()
    results = lift_branch(graph, node, branch)
    for output, result in zip(node.outputs, results, strict=True):
        passed = ir.node("Identity", [result], name=f"{node.name}_{output.name}")
        graph.insert_before(node, passed)
        take_over(passed.outputs[0], output)
    graph.remove(node, safe=True)
    forget(node)
    return True


def lift_branch(graph: ir.Graph, node: ir.Node, branch: ir.Graph) -> list[ir.Value]:
    """Move the nodes and constants of a branch of ``node`` in front of it; returns what the branch gives."""
    results, names = list(branch.outputs), g.Names(graph)
    branch.outputs.clear()
    for name, value in list(branch.initializers.items()):
        del branch.initializers[name]
        value.name = names.unique(name)
        graph.register_initializer(value)
    nodes = list(branch)
    branch.remove(nodes)
    for inner in nodes:
        for value in inner.outputs:
            value.name = names.unique(value.name or "branch")
    graph.insert_before(node, nodes)
    g.separate_names(graph)
    return results


def forget(node: ir.Node) -> None:
    """Make a removed node read nothing any more, neither here nor in a branch, so that what only this node needed can go."""
    for place in range(len(node.inputs)):
        node.replace_input_with(place, None)
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            branch = attribute.as_graph()
            branch.outputs.clear()
            for inner in branch:
                forget(inner)
