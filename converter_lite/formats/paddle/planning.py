"""The plan of an already quantized model, within what a Paddle-Lite target can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.blocks import BLOCKED
from converter_lite.quantization.clamps import add_clamps
from converter_lite.quantization.exact_products import grids_read, make_products_exact
from converter_lite.quantization.grid_nodes import add_rounding, needs_rounding
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from converter_lite.targets.operands import stored_weight, stored_weights
from converter_lite.targets.policy import Capability

LARGEST = 127
"""Largest magnitude of an int8 weight."""


FLOAT_TARGETS = ("x86", "host")
"""Targets that keep integer weights and compute in float."""


def adapt_plan(
    quantized: QuantizedModel, policy: PaddlePolicy, *, integer: bool, exact: bool = False
) -> QuantizedModel:
    """The plan of an already quantized model, within what a target can do.

    Integer nodes that the target cannot compute keep their integer weights where the runtime dequantizes them, and
    become float otherwise, each with its reason. The graph and the integers are shared, not copied, but for weights of
    -128; Clips come back where integers no longer saturate.

    Args:
        quantized: As a reader of quantized models returns it.
        policy: The target.
        integer: Whether nodes may compute with integers at all.
        exact: Products that become float multiply integers, whose sums need floats of 32 bits.
    """
    plan = QuantPlan(policy.name, activations=dict(quantized.plan.activations))
    for node in quantized.model.graph:
        mode, weights = quantized.plan.mode(node), stored_weights(node)
        found = policy.capability(node)
        grids = [grid for value in weights if (grid := quantized.plan.weights.get(str(value.name))) is not None]
        if mode is NodeMode.FLOAT or not grids or len(grids) < len(weights):
            plan.keep_float(node, _reason(quantized, node))
        elif any(grid.spec.block for grid in grids):
            plan.keep_float(node, BLOCKED)
        elif integer and mode is NodeMode.INTEGER and not _integer_obstacle(quantized, node, found, grids[0]):
            plan.quantize(node, NodeMode.INTEGER)
        elif not found.stored and all(_is_storable(grid, found) for grid in grids):
            plan.quantize(node, NodeMode.WEIGHT)
        else:
            plan.keep_float(node, found.stored or "its weight is quantized in a way that Paddle-Lite lacks")
    quantizing = [node for node in quantized.model.graph if plan.mode(node) is not NodeMode.FLOAT]
    used = {str(value.name) for node in quantizing for value in stored_weights(node)}
    plan.weights = {name: _widened(p) for name, p in quantized.plan.weights.items() if name in used}
    adapted = QuantizedModel(quantized.model, plan, dict(quantized.q_weights))
    _clip_weights(adapted)
    rounded, read = needs_rounding(quantized.plan), grids_read(quantized)
    add_rounding(quantized, plan, zero_points=False, rounded=rounded)
    if rounded and exact:
        make_products_exact(quantized, adapted, read)
    add_clamps(adapted)
    return adapted


def _clip_weights(quantized: QuantizedModel) -> None:
    """Weights of integer kernels are symmetric: -128, which other tools write, becomes -127."""
    for name in integer_weights(quantized):
        integers = quantized.integers(name)
        if integers.min(initial=0) < -LARGEST:
            quantized.q_weights[name] = np.maximum(integers, -LARGEST)


def integer_weights(quantized: QuantizedModel) -> set[str]:
    """Weights of nodes that compute with integers."""
    nodes = [node for node in quantized.model.graph if quantized.plan.mode(node) is NodeMode.INTEGER]
    return {
        str(value.name) for node in nodes if (value := stored_weight(node)) and value.name in quantized.plan.weights
    }


def adaptation_notes(source: QuantizedModel, adapted: QuantizedModel, policy: PaddlePolicy) -> Iterator[str]:
    """What the user should know about a plan of :func:`adapt_plan`."""
    target, modes = policy.name, [adapted.plan.mode(node) for node in adapted.model.graph]
    if NodeMode.INTEGER not in modes and target in FLOAT_TARGETS and source.plan.computes_with_integers:
        yield (
            f"{target}: weights stay int8, computation is float; the int8 kernels there saturate beyond 63 and"
            " are not faster"
        )
    found = Counter() if target in FLOAT_TARGETS else _obstacles(source, adapted, policy)
    if found:
        reasons = "; ".join(f"{count} x {reason}" for reason, count in found.most_common(3))
        yield f"{found.total()} quantized nodes compute in float: {reasons}"
    clipped = [name for name, array in adapted.q_weights.items() if array is not source.q_weights.get(name)]
    if clipped:
        yield f"{len(clipped)} weights hold -128, stored as -127: the integer kernels are symmetric"


def _obstacles(quantized: QuantizedModel, adapted: QuantizedModel, policy: PaddlePolicy) -> Counter[str]:
    """Why nodes that compute with integers in a quantized model cannot do so on a target -> how many."""
    found: Counter[str] = Counter()
    for node in quantized.model.graph:
        value = stored_weight(node)
        params = quantized.plan.weights.get(str(value.name)) if value is not None else None
        lost = quantized.plan.mode(node) is NodeMode.INTEGER and adapted.plan.mode(node) is not NodeMode.INTEGER
        if lost and params is not None:
            found[_integer_obstacle(quantized, node, policy.capability(node), params)] += 1
    return Counter({reason: count for reason, count in found.items() if reason})


def _is_storable(grid: QuantParams, found: Capability) -> bool:
    """Whether the runtime dequantizes a weight of this grid."""
    return grid.spec.axis in (None, found.weight.axis) and not np.any(grid.zero_point)


def _reason(quantized: QuantizedModel, node: ir.Node) -> str:
    decision = quantized.plan.nodes.get(str(node.name))
    return decision.reason if decision is not None and decision.reason else "it is float in the model"


def _integer_obstacle(quantized: QuantizedModel, node: ir.Node, found: Capability, params: QuantParams) -> str:
    """Why a node cannot compute with the integers that it has; empty when it can."""
    if found.integer:
        return found.integer
    data = node.inputs[0]
    activation = None if data is None else quantized.plan.activations.get(str(data.name))
    if activation is None or activation.is_per_channel or not activation.spec.signed or np.any(activation.zero_point):
        return "its data are not symmetric int8 (target_device=ARM makes them so)"
    if params.spec.axis not in (None, found.weight.axis) or np.any(params.zero_point) or params.spec.bits > 8:
        return "its weight is not symmetric int8 along the runtime's axis"
    if params.spec.bits > found.weight.bits or activation.spec.bits > found.activation.bits:
        return "its integers are wider than this target's kernels can add up"
    return ""


def _widened(params: QuantParams) -> QuantParams:
    """Integers of fewer bits are stored in the next width that the runtime has."""
    width = 8 if params.spec.bits <= 8 else 16
    if params.spec.bits == width:
        return params
    return QuantParams(params.scale.copy(), params.zero_point.copy(), replace(params.spec, bits=width))
