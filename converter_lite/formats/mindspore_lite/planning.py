"""Plans for ``.ms`` files: limited to the runtime's integer kernels, and with weights stored economically."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.config.names import TargetDevice
from converter_lite.errors import ConfigError
from converter_lite.formats.mindspore_lite.exporter.clamps import inner_activation
from converter_lite.formats.mindspore_lite.policy import (
    DYNAMIC_OPERATORS,
    GIVEN_GRIDS,
    LEAST_SUMMANDS,
    MS_CPU,
    MsStorage,
    needs_one_scale,
)
from converter_lite.quantization.blocks import BLOCKED, refuse_onnx_only
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.clamps import add_clamps
from converter_lite.quantization.grid_nodes import add_rounding, needs_rounding
from converter_lite.quantization.placement import reads_grid
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.quantization.settings import DynamicSettings, FullSettings, WeightSettings
from converter_lite.targets.operands import has_short_columns, is_recurrent, stored_weight, stored_weights, weight_of

DEVICES = frozenset(device.value for device in (TargetDevice.CPU, TargetDevice.ARM, TargetDevice.X86))
"""Devices whose integer kernels are known from running them."""


AVERAGES = ("AveragePool", "GlobalAveragePool")

SCALES = "its weights have a scale per row, where the runtime takes one"

COARSE = "its kernel gives averages on the grid of its input, where the model has another one"


def for_device(choice: Choice, *, packed: bool) -> Choice:
    """The choice with the policy of the runtime's CPU kernels.

    Args:
        choice: As the configuration specifies.
        packed: Integers of any width are stored without gaps; otherwise grids are of whole bytes.

    Raises:
        ConfigError: The device is another one.
    """
    if choice.target.name not in DEVICES:
        raise ConfigError(
            f"a .ms file with integers for {choice.target.name} is not written: no runtime for it is at hand to prove it",
            where="[full_quant_param] target_device",
            hint="use --saveType=ONNX, or target_device=CPU",
        )
    settings, notes = choice.settings, choice.notes
    if choice.target.name != TargetDevice.CPU.value:
        same = f"target_device={choice.target.name}: .ms files follow the same rules for CPU, ARM and X86"
        has_one_scale = isinstance(settings, FullSettings) and not settings.per_channel
        notes += (
            same + (", here with one scale per weight (per_channel=true is more accurate)" if has_one_scale else ""),
        )
    refuse_onnx_only(settings, "a .ms file")
    if isinstance(settings, WeightSettings):
        settings = replace(settings, storage=MsStorage(packed=packed))
    elif isinstance(settings, DynamicSettings):
        # kernels of these runtimes do not saturate
        settings = replace(settings, portable=False, rows=False, costs=None)
        settings = replace(settings, shared_below=MS_CPU.shared_below, least_summands=LEAST_SUMMANDS)
        # the released packages load no convolutions and products with such weights (docs/formats/mindspore_ms.md, msCompat)
        settings = replace(settings, recurrent=NodeMode.WEIGHT, recurrent_per_channel=False, layers=False)
        if not settings.weight_per_channel:
            notes += (
                "quant_strategy=ACWL: one scale per weight; activations have one scale in .ms files, rows have none",
            )
    return replace(choice, target=MS_CPU, settings=settings, notes=notes)


def adapt_plan(quantized: QuantizedModel) -> QuantizedModel:
    """The plan of an already quantized model, within what the runtime computes.

    The graph and the integers are shared, not copied; Clips come back where integers no longer saturate. Nodes
    without weights between integer nodes compute with integers too if the runtime can.
    """
    plan = QuantPlan(MS_CPU.name, activations=dict(quantized.plan.activations))
    plan.weights = dict(quantized.plan.weights)
    for node in quantized.model.graph:
        mode, reason = _adapted(quantized, node)
        if mode is NodeMode.FLOAT:
            plan.keep_float(node, reason)
        else:
            plan.quantize(node, mode)
    used = {
        weight.name
        for node in quantized.model.graph
        for weight in (weight_of(node), *stored_weights(node))
        if weight is not None and plan.mode(node) is not NodeMode.FLOAT
    }
    plan.weights = {name: params for name, params in plan.weights.items() if name in used}
    adapted = QuantizedModel(quantized.model, plan, quantized.q_weights)
    add_rounding(quantized, plan, rounded=needs_rounding(quantized.plan))
    add_clamps(adapted)
    return adapted


def _adapted(quantized: QuantizedModel, node: ir.Node) -> tuple[NodeMode, str]:
    """The mode that a node may have here, and why it is float."""
    mode, plan = quantized.plan.mode(node), quantized.plan
    if is_recurrent(node) and mode is not NodeMode.FLOAT:
        grids = [plan.weights.get(weight.name or "") for weight in stored_weights(node)]
        has_one_scale = all(grid is not None and not grid.is_per_channel and not grid.spec.block for grid in grids)
        return (NodeMode.WEIGHT, "") if has_one_scale else (NodeMode.FLOAT, SCALES)
    weight = stored_weight(node)
    params = plan.weights.get(weight.name or "") if weight is not None else None
    if params is None:
        if weight is None and _between_integers(quantized, node):
            coarse = COARSE if node.op_type in AVERAGES and not _keeps_its_grid(plan, node) else ""
            reason = GIVEN_GRIDS.capability(node).integer or coarse
            return (NodeMode.FLOAT, reason) if reason else (NodeMode.INTEGER, "")
        decision = plan.nodes.get(node.name or "")
        return NodeMode.FLOAT, (decision.reason if decision is not None else "") or "it is float in the model"
    if params.spec.block:
        return NodeMode.FLOAT, BLOCKED
    if mode is NodeMode.DYNAMIC and node.op_type in DYNAMIC_OPERATORS:
        is_short = weight is not None and has_short_columns(node, weight, LEAST_SUMMANDS)
        return NodeMode.WEIGHT if is_short else NodeMode.DYNAMIC, ""
    symmetric = params.spec.bits == 8 and not np.any(params.zero_point)
    possible = symmetric and node.op_type in MS_CPU.integer and not needs_one_scale(node, params)
    if mode is NodeMode.INTEGER and possible and _between_integers(quantized, node):
        return NodeMode.INTEGER, ""
    return (NodeMode.WEIGHT, "") if mode is not NodeMode.FLOAT else (NodeMode.FLOAT, "it is float in the model")


def _keeps_its_grid(plan: QuantPlan, node: ir.Node) -> bool:
    """Whether input and result have the same parameters."""
    given, made = (
        plan.activations[str(value.name)] for value in (node.inputs[0], node.outputs[0]) if value is not None
    )
    return bool(given.scale == made.scale) and bool(given.zero_point == made.zero_point)


def _between_integers(quantized: QuantizedModel, node: ir.Node) -> bool:
    """Whether data inputs and the result (or that of the activation inside of a weighted node) have 8-bit parameters.

    A result that somebody reads as it is, beside its grid, is none: the kernel gives the grid to all of them.
    """

    def known(value: ir.Value | None) -> bool:
        params = quantized.plan.activations.get(value.name or "") if value is not None else None
        return params is not None and params.spec.bits == 8 and not params.is_per_channel

    data = [value for value in node.inputs if value is not None and not g.is_constant(value)]
    follower = g.single_consumer(node.outputs[0]) if stored_weight(node) is not None else None
    results = [node.outputs[0]]
    if follower is not None and inner_activation(follower):
        results += follower.outputs
    is_seen = any(not reads_grid(user, at, quantized.plan) for value in results[-1:] for user, at in value.uses())
    return bool(data) and all(map(known, data)) and any(map(known, results)) and not is_seen
