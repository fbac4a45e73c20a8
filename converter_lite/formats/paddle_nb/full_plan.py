"""Plans of full int8 ``.nb`` files: made from calibrated ranges, or taken over from a model that is quantized already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.formats.paddle_nb.capability import WEIGHT_8, Capability, capability, weight_of
from converter_lite.formats.paddle_nb.lowering import is_constant
from converter_lite.formats.paddle_nb.weight_plan import plan_weight
from converter_lite.quantization.clamps import restore_clamps
from converter_lite.quantization.params import QuantParams, QuantSpec, TensorRange, params_from_range
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan

LARGEST = 127
"""Magnitude that an int8 weight has at most."""


def calibration_tensors(model: ir.Model, target: str) -> list[str]:
    """Tensors whose ranges :func:`plan_full` needs: the data inputs of nodes that can compute with integers."""
    names = {
        str(node.inputs[0].name): None
        for node in model.graph
        if node.inputs and node.inputs[0] is not None and capability(node, target).integer
    }
    return list(names)


def plan_full(
    model: ir.Model,
    ranges: Mapping[str, TensorRange],
    *,
    target: str,
    kept: Mapping[str, str] | None = None,
    per_channel: bool = True,
) -> QuantizedModel:
    """Full int8: symmetric activations with one scale, weights per channel, biases float.

    A node whose range is unknown stays float. Where the target cannot compute with integers but dequantizes weights (tables
    of rows, for example), the weights become integers.

    Args:
        model: Optimized float graph; it is not changed.
        ranges: Range of every tensor of :func:`calibration_tensors`.
        target: ``arm``, or ``x86`` within the limits of its kernels.
        kept: Name of a node that stays float -> why.
        per_channel: One scale per output channel, else one per weight.
    """
    quantized = QuantizedModel(model, QuantPlan(target))
    for node in model.graph:
        found = capability(node, target)
        data, value = (node.inputs[0] if node.inputs else None), weight_of(node)
        if kept and node.name in kept:
            quantized.plan.keep_float(node, kept[str(node.name)])
        elif not found.integer and found.weight and value is not None and is_constant(value):
            _store(quantized, node, replace(WEIGHT_8, axis=found.weight_axis), value, NodeMode.WEIGHT)
        elif not found.integer or data is None or value is None:
            quantized.plan.keep_float(node, found.integer_reason)
        elif str(data.name) not in ranges:
            quantized.plan.keep_float(node, "its data input has no calibrated range")
        else:
            axis = found.weight_axis if per_channel else None
            _quantize(quantized, node, replace(found, weight_axis=axis), data, value, ranges[str(data.name)])
    return quantized


def _quantize(
    quantized: QuantizedModel, node: ir.Node, found: Capability, data: ir.Value, value: ir.Value, observed: TensorRange
) -> None:
    if _store(quantized, node, replace(found.integer_weight, axis=found.weight_axis), value, NodeMode.INTEGER):
        known = quantized.plan.activations.get(str(data.name))
        if known is None or known.spec.bits > found.integer_activation.bits:  # of several readers the narrowest counts
            params = params_from_range(observed.rmin.min(), observed.rmax.max(), found.integer_activation)
            quantized.plan.activations[str(data.name)] = params


def _store(quantized: QuantizedModel, node: ir.Node, spec: QuantSpec, value: ir.Value, mode: NodeMode) -> bool:
    """Plan a node and its weight; whether that could be done."""
    if not plan_weight(quantized, value, spec):
        quantized.plan.keep_float(node, "nodes that share its weight want it in different forms")
        return False
    quantized.plan.quantize(node, mode)
    return True


def adapt_plan(quantized: QuantizedModel, target: str, *, integer: bool) -> QuantizedModel:
    """The plan of a model that is quantized already, within what ``target`` can do.

    Integer nodes that the target cannot compute keep their integer weights where the runtime dequantizes them, and
    become float otherwise, each with its reason. The graph and the integers are shared, not copied, but for weights of
    -128; Clips come back where integers no longer saturate.

    Args:
        quantized: As a reader of quantized models returns it.
        target: ``arm``, ``x86`` or ``host``.
        integer: Whether nodes may compute with integers at all.
    """
    plan = QuantPlan(target, activations=dict(quantized.plan.activations))
    for node in quantized.model.graph:
        mode, value = quantized.plan.mode(node), weight_of(node)
        found = capability(node, target)
        params = quantized.plan.weights.get(str(value.name)) if value is not None else None
        if mode is NodeMode.FLOAT or params is None or value is None:
            plan.keep_float(node, _reason(quantized, node))
        elif integer and mode is NodeMode.INTEGER and not _integer_obstacle(quantized, node, found, params):
            plan.quantize(node, NodeMode.INTEGER)
        elif found.weight and params.spec.axis in (None, found.weight_axis) and not np.any(params.zero_point):
            plan.quantize(node, NodeMode.WEIGHT)
        else:
            plan.keep_float(node, found.weight_reason or "its weight is quantized in a way that Paddle-Lite lacks")
    used = {str(v.name) for n in quantized.model.graph if (v := weight_of(n)) and plan.mode(n) is not NodeMode.FLOAT}
    plan.weights = {name: _widened(p) for name, p in quantized.plan.weights.items() if name in used}
    adapted = QuantizedModel(quantized.model, plan, dict(quantized.q_weights))
    _clip_weights(adapted)
    restore_clamps(adapted)
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
    return {str(value.name) for node in nodes if (value := weight_of(node)) and value.name in quantized.plan.weights}


def obstacles(quantized: QuantizedModel, target: str) -> Counter[str]:
    """Why nodes that compute with integers in a quantized model cannot do so on ``target`` -> how many."""
    found: Counter[str] = Counter()
    for node in quantized.model.graph:
        value = weight_of(node)
        params = quantized.plan.weights.get(str(value.name)) if value is not None else None
        if quantized.plan.mode(node) is NodeMode.INTEGER and params is not None:
            found[_integer_obstacle(quantized, node, capability(node, target), params)] += 1
    return Counter({reason: count for reason, count in found.items() if reason})


def _reason(quantized: QuantizedModel, node: ir.Node) -> str:
    decision = quantized.plan.nodes.get(str(node.name))
    return decision.reason if decision is not None and decision.reason else "it is float in the model"


def _integer_obstacle(quantized: QuantizedModel, node: ir.Node, found: Capability, params: QuantParams) -> str:
    """Why a node cannot compute with the integers that it has; empty when it can."""
    if not found.integer:
        return found.integer_reason
    data = node.inputs[0]
    activation = None if data is None else quantized.plan.activations.get(str(data.name))
    if activation is None or activation.is_per_channel or not activation.spec.signed or np.any(activation.zero_point):
        return "its data are not symmetric int8 (target_device=ARM makes them so)"
    if params.spec.axis not in (None, found.weight_axis) or np.any(params.zero_point) or params.spec.bits > 8:
        return "its weight is not symmetric int8 along the runtime's axis"
    if params.spec.bits > found.integer_weight.bits or activation.spec.bits > found.integer_activation.bits:
        return "its integers are wider than this target's kernels can add up"
    return ""


def _widened(params: QuantParams) -> QuantParams:
    """Integers of fewer bits are stored in the next width that the runtime has."""
    width = 8 if params.spec.bits <= 8 else 16
    if params.spec.bits == width:
        return params
    return QuantParams(params.scale.copy(), params.zero_point.copy(), replace(params.spec, bits=width))
