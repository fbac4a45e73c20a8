"""Nodes of branches and bodies (If, Loop, Scan): their weights are stored as integers, they compute with floats.

What such a node reads is there only while its branch runs, so that nothing is known of its range. Its constants are those of the
main graph (:mod:`converter_lite.passes.bodies`), where a file stores them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.targets.operands import RECURRENT, SAVES_NOTHING, is_small, stored_weights

STORED = ("Conv", "ConvTranspose", "Gemm", "MatMul", *RECURRENT)
"""Operators whose weights are stored."""


def inner_nodes(nodes: Iterable[ir.Node]) -> Iterator[ir.Node]:
    """Nodes of all graphs inside of these nodes, in order."""
    for node in nodes:
        for inner in g.subgraphs(node):
            yield from g.all_nodes(inner)


def decide_inner_nodes(graph: ir.Graph, plan: QuantPlan, skip: frozenset[str]) -> None:
    """Enter nodes of inner graphs with weights into a plan that is made of other decisions."""
    for node in inner_nodes(graph):
        weights = stored_weights(node)
        if node.op_type not in STORED or not weights:
            continue
        if node.name in skip:
            plan.keep_float(node, "named in skip_quant_node")
        elif any(len(g.static_shape(weight) or ()) < 2 for weight in weights) or is_small(node):
            plan.keep_float(node, SAVES_NOTHING)
        else:
            plan.quantize(node, NodeMode.WEIGHT)
