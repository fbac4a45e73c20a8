"""Nodes that no calibration sample reached with a value, such as experts that no token was sent to."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from converter_lite.calibration.statistics import CalibrationStats
from converter_lite.quantization.placement import settle
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.targets.policy import Policy

REASON = "no calibration sample gave it a value"
"""Why such a node stays float: any range would be a guess, and what lies beyond it would be lost without a word."""


def leave_unreached(
    model: ir.Model, plan: QuantPlan, target: Policy, sources: Mapping[str, str], stats: CalibrationStats
) -> bool:
    """Leave in float the nodes that read or give tensors without any value; ``plan`` is changed.

    Args:
        model: The graph.
        plan: Decisions.
        target: What the runtime can do.
        sources: Tensors that need Q/DQ -> tensor whose parameters they take.
        stats: Of the latter, where their ranges are not known otherwise.

    Returns:
        Whether there were any; other tensors may need Q/DQ then.
    """
    unreached = {
        tensor for tensor, source in sources.items() if (seen := stats.tensors.get(source)) and not seen.is_reached
    }
    nodes = [node for node in model.graph if plan.mode(node) is NodeMode.INTEGER and _touches(node, unreached)]
    for node in nodes:
        plan.keep_float(node, REASON)
    if nodes:
        settle(model, plan, target)
    return bool(nodes)


def _touches(node: ir.Node, names: Collection[str]) -> bool:
    return any(value is not None and value.name in names for value in (*node.inputs, *node.outputs))
