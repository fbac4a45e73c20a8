"""Constants that a model gives as they are."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace


@for_each("Constant")
def spell_out_constant_outputs(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Constant, which at this point is an output of the graph, by an Identity of an initializer."""
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is None:
        return False
    name = str(node.outputs[0].name)
    held = g.add_tensor(graph, f"{name}_held", tensor)
    replace([node], ir.node("Identity", [held]))
    return True
