"""What a conversion logs about its plan."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.errors import QualityError
from converter_lite.log import Log, counted
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.settings import DynamicSettings, FullSettings, Settings, WeightSettings
from converter_lite.quantization.weight_only import left_by_filters

SHOWN = 5
"""Reasons and notes per format in the log; all of them with ``-v``."""

FOLLOWING = ("has no weight", "stands behind")
"""How reasons begin that say nothing about the type of a model."""

OF_INTEGERS = {
    FullSettings: ("activation_quant_method", "activation_bits", "portable", "--cache"),
    DynamicSettings: ("quant_strategy", "smoothing", "portable"),
}
"""Keys and flags that change nothing without nodes that compute with integers."""


def report_plan(plan: QuantPlan, name: str, model: ir.Model, settings: Settings | None, log: Log) -> None:
    """Say how many nodes are quantized and why others are not; each node as a detail.

    Args:
        plan: The plan.
        name: The output format's name.
        model: The graph that the plan is for.
        settings: How it was to be quantized, ``None`` if the model was read quantized.
        log: Receives the lines.
    """
    counts = [
        f"{counted(len(plan.quantized_nodes), 'node')} quantized",
        f"{len(plan.nodes) - len(plan.quantized_nodes)} left",
    ]
    stored = sum(node.mode is NodeMode.WEIGHT for node in plan.nodes.values())
    if stored and not isinstance(settings, WeightSettings):
        counts.append(f"{stored} with integer weights and float computation")
    log.info(f"{name}: " + ", ".join(counts))
    for reason, count in plan.float_reasons()[:SHOWN]:
        log.info(f"  {count} x {reason}")
    if (without_effect := OF_INTEGERS.get(type(settings))) and 0 < stored == len(plan.quantized_nodes):
        line = (
            f"{name}: all nodes compute with floats, because integers would take longer or have no kernel here; only weights "
            f"are stored as integers, and {', '.join(without_effect)} have no effect"
        )
        if isinstance(settings, FullSettings):
            log.warning(f"{line}. Other values of target_device may do more")
        else:
            log.info(line)
    left = left_by_filters(model, settings) if isinstance(settings, WeightSettings) else ""
    if left:
        log.info(f"  {left}")
    for node_name, node in plan.nodes.items():
        reason = f" - {node.reason}" if node.reason else ""
        log.debug(f"  {node_name} ({node.op_type}): {node.mode.value}{reason}")


def refuse_nothing(plan: QuantPlan) -> None:
    """Refuse a plan that quantizes nothing.

    Raises:
        QualityError: No node is quantized; the reasons are given.
    """
    if plan.quantized_nodes:
        return
    reasons = "; ".join(f"{count} x {reason}" for reason, count in plan.float_reasons()[:4])
    hint = "choose another quant_type or target_device"
    if "min_quant_weight_" in reasons:
        hint += ", or lower min_quant_weight_size and min_quant_weight_channel"
    elif "skip_quant_node" in reasons:
        hint += ", or name fewer nodes in skip_quant_node"
    elif "left in float to reach" in reasons:
        hint = "ask for a lower target_cosine or a larger target_error, or choose another quant_type"
    elif "float32" in reasons and not any(
        "float32" not in reason and not reason.startswith(FOLLOWING) for reason, _ in plan.float_reasons()
    ):
        hint = "only float32 is quantized: export the model in float32"
    raise QualityError(f"nothing would be quantized: {reasons or 'no node is left after optimization'}", hint=hint)
