"""Tensors that are put into a sequence one after the other and joined: PyTorch's EmbeddingBag, once its loop is written out."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert

AXES_AS_INPUT = 13
"""From this operator set on Unsqueeze has its axes as an input."""


@for_each("ConcatFromSequence")
def spell_out_sequences(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a ConcatFromSequence by a Concat where the graph shows what its sequence holds.

    ::

        SequenceEmpty ─ SequenceInsert(a) ─ SequenceInsert(b) ─ ConcatFromSequence      becomes      Concat(a, b)

    Refused: sequences that come from elsewhere, and insertions at a place that is named.
    """
    parts = _tensors(node.inputs[0])
    if not parts or g.opset(graph) < AXES_AS_INPUT:
        return False
    axis = g.int_attribute(node, "axis", 0)
    if g.int_attribute(node, "new_axis", 0):
        axes = g.add_initializer(graph, f"{node.name}_axes", np.array([axis], np.int64))
        parts = [insert(graph, node, "Unsqueeze", [part, axes], None) for part in parts]
    replace([node], ir.node("Concat", parts, attributes={"axis": axis}))
    return True


def _tensors(sequence: ir.Value | None) -> list[ir.Value]:
    """What a sequence holds, in order; nothing where that is not known."""
    found: list[ir.Value] = []
    while sequence is not None and (maker := sequence.producer()) is not None and maker.domain == "":
        if maker.op_type == "SequenceInsert" and g.input_at(maker, 2) is None and maker.inputs[1] is not None:
            found.append(maker.inputs[1])
            sequence = maker.inputs[0]
            continue
        if maker.op_type == "SequenceConstruct":
            found += [value for value in reversed(maker.inputs) if value is not None]
        return found[::-1] if maker.op_type in ("SequenceEmpty", "SequenceConstruct") else []
    return []
