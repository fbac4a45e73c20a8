"""Outputs that are detections, yes or no: each value comes from a Sigmoid and says by itself whether something is there.

Where nothing is, such values are zero but for what the exponential function left: 1e-7 in a text detector on pictures without
text. Their direction is that of rounding, and no two runtimes have the same. So the cosine of a sample in which neither of two
models finds anything says nothing about them.
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.targets.operators import OPERATORS, Role

DETECTORS = frozenset({"Sigmoid", "HardSigmoid"})
"""Not Softmax, whose values say something in relation to each other, however small they are."""

TOGETHER = frozenset({"Concat", "Max", "Min", "Mul"})
"""Operators that give detections where all that they read are detections."""

NOTHING = 1 / 256
"""Values below it, a step of eight bits, are no."""


def detection_thresholds(model: ir.Model) -> dict[str, float]:
    """Output -> value below which it says that nothing is there, for outputs that are detections."""
    return {value.name or "": NOTHING for value in model.graph.outputs if _is_detection(value)}


def _is_detection(value: ir.Value) -> bool:
    pending, seen = [value], {value}
    while pending:
        node = pending.pop().producer()
        if node is None:
            return False
        if node.op_type in DETECTORS:
            continue
        read = _moved(node)
        if not read:
            return False
        pending += [source for source in read if source not in seen]
        seen.update(read)
    return True


def _moved(node: ir.Node) -> list[ir.Value]:
    """The values that a node gives on, if it makes none that is larger."""
    if node.op_type in TOGETHER:
        return g.values_read(node)
    if node.op_type in ("Cast", "Identity") or (
        node.op_type in OPERATORS and OPERATORS[node.op_type].role is Role.SAME
    ):
        source = g.input_at(node, 0)
        return [] if source is None else [source]
    return []
