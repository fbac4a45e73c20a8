"""Products of onnxruntime that round their activations, made to compute in float as Q/DQ do in exact arithmetic."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g

BLOCK_PRODUCT = "MatMulNBits"
"""The product of a matrix with a scale per block (domain com.microsoft)."""

FLOAT_LEVEL = 1
"""Its ``accuracy_level`` with which activations stay float; the default is 0, which CPU kernels take for the same."""


def with_float_products(model: ir.Model) -> ir.Model:
    """The model with products that keep their activations; ``model`` itself where all do."""
    if not any(map(_rounds, g.all_nodes(model.graph))):
        return model
    changed = model.clone()
    for node in g.all_nodes(changed.graph):
        if _rounds(node):
            node.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", FLOAT_LEVEL)
    return changed


def _rounds(node: ir.Node) -> bool:
    return node.op_type == BLOCK_PRODUCT and g.int_attribute(node, "accuracy_level", 0) > FLOAT_LEVEL
