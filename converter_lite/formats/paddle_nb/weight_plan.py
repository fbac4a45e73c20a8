"""The plan of a weight-only ``.nb`` file (``--quant_model``), made from the weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import CalibrationError
from converter_lite.formats.paddle_nb.capability import capability, weight_of
from converter_lite.formats.paddle_nb.lowering import constant
from converter_lite.kernels.quantize import in_slices, round_half_away
from converter_lite.quantization.params import MIN_SCALE, QuantParams, QuantSpec
from converter_lite.quantization.plan import Integers, NodeMode, QuantizedModel, QuantPlan

MIN_ELEMENTS = 64
"""Smaller weights stay float: their scales and attributes cost what the integers save."""

PRECISE_SHARE = 0.01
"""Part of the float weights' bytes that an 8-bit file may spend on storing its smallest weights with 16 bits."""


@dataclass(frozen=True, slots=True)
class _Weight:
    value: ir.Value
    axis: int
    nodes: tuple[ir.Node, ...]
    size: int


def plan_weights(
    model: ir.Model,
    *,
    target: str,
    bits: int,
    skip: frozenset[str] = frozenset(),
    per_channel: bool = True,
) -> QuantizedModel:
    """Plan every weight that the runtime dequantizes, symmetric, per channel, rounded half away from zero.

    With 8 bits the smallest weights get 16, within ``PRECISE_SHARE``: depthwise filters are few bytes and much error.

    Args:
        model: Optimized float graph; it is not changed.
        target: ``arm``, ``x86`` or ``host``.
        bits: 8 or 16.
        skip: Names of nodes whose weights stay float.
        per_channel: One scale per channel, else one per weight.
    """
    quantized = QuantizedModel(model, QuantPlan(target))
    weights = {str(weight.value.name): weight for weight in _candidates(quantized, target, skip)}
    precise = _smallest(weights) if bits == 8 else set()
    for name, weight in weights.items():
        width = 16 if bits == 16 or name in precise else 8
        spec = QuantSpec(
            bits=width, signed=True, symmetric=True, narrow_range=True, axis=weight.axis if per_channel else None
        )
        plan_weight(quantized, weight.value, spec)
        for node in weight.nodes:
            quantized.plan.quantize(node, NodeMode.WEIGHT)
    return quantized


def plan_weight(quantized: QuantizedModel, value: ir.Value, spec: QuantSpec) -> bool:
    """Plan a constant with a grid; whether it has that one now: another node may have wanted another.

    Raises:
        CalibrationError: The weight is empty, or not finite; it is named.
    """
    array, name = constant(value), str(value.name)
    assert array is not None
    known = quantized.plan.weights.get(name)
    if known is not None:
        return known.spec == spec
    try:
        params, integers = quantize_weight(array.astype(np.float32, copy=False), spec)
    except CalibrationError as error:
        raise CalibrationError(error.message, where=f"constant {name}", hint="repair the model's weights") from error
    quantized.plan.weights[name] = params
    quantized.q_weights[name] = integers
    return True


def quantize_weight(array: NDArray[np.float32], spec: QuantSpec) -> tuple[QuantParams, NDArray[np.signedinteger]]:
    """Parameters and integers of a weight, rounded half away from zero; an all-zero channel has scale 1.

    Raises:
        CalibrationError: The weight is empty, or not finite.
    """
    axes = None if spec.axis is None else tuple(axis for axis in range(array.ndim) if axis != spec.axis)
    largest = np.asarray(np.abs(array).max(axis=axes), np.float32) if array.size else np.float32(np.nan)
    if not np.all(np.isfinite(largest)):  # a maximum is not finite if any element is not
        raise CalibrationError("the weight is empty or not finite")
    # The runtime divides by no scale, so that the tiniest channels keep their own; only dead ones need a stand-in.
    scale = np.maximum(largest / np.float32(spec.qmax), np.float32(MIN_SCALE))
    scale = np.asarray(np.where(largest == 0, np.float32(1), scale), np.float32)
    params = QuantParams(scale, np.zeros(scale.shape, np.int32), spec)
    return params, _rounded(array, params)


def round_planned(model: ir.Model, plan: QuantPlan) -> dict[str, Integers]:
    """Integers of all weights of a given plan, rounded as :func:`plan_weights` rounds: initializer name -> integers."""
    arrays = {name: model.graph.initializers[name].const_value for name in plan.weights}
    return {
        name: _rounded(array.numpy().astype(np.float32, copy=False), plan.weights[name])
        for name, array in arrays.items()
        if array is not None
    }


def _rounded(array: NDArray[np.float32], params: QuantParams) -> NDArray[np.signedinteger]:
    spec = params.spec

    def steps(part: NDArray[np.float32], scale: NDArray[np.float32], zero: NDArray[np.int32]) -> NDArray[np.float32]:
        rounded = round_half_away(part / scale)
        rounded += zero
        return np.clip(rounded, spec.qmin, spec.qmax, out=rounded)

    return in_slices(steps, array, params.scale, params.zero_point, axis=spec.axis, dtype=spec.integer_type)


def _candidates(quantized: QuantizedModel, target: str, skip: frozenset[str]) -> Iterator[_Weight]:
    """Weights that may be integers; a reason in the plan for every other node."""
    readers: dict[str, list[ir.Node]] = {}
    for node in quantized.model.graph:
        found = capability(node, target)
        value = weight_of(node)
        reason = "named in skip_quant_node" if node.name in skip else found.weight_reason
        if not reason and value is not None:
            array = constant(value)
            if array is None or array.dtype.kind != "f":
                reason = "its weight is not a constant of floats"
            elif array.size < MIN_ELEMENTS:
                reason = f"its weight has fewer than {MIN_ELEMENTS} elements"
            else:
                readers.setdefault(str(value.name), []).append(node)
        if reason:
            quantized.plan.keep_float(node, reason)
    for nodes in readers.values():
        axes = {capability(node, target).weight_axis for node in nodes}
        value = weight_of(nodes[0])
        assert value is not None
        array = constant(value)
        assert array is not None
        if len(axes) > 1:
            for node in nodes:
                quantized.plan.keep_float(node, "nodes that share its weight want scales along different axes")
        else:
            axis = axes.pop()
            assert axis is not None
            yield _Weight(value, axis, tuple(nodes), array.size)


def _smallest(weights: dict[str, _Weight]) -> set[str]:
    budget = PRECISE_SHARE * 4 * sum(weight.size for weight in weights.values())
    chosen: set[str] = set()
    for name, weight in sorted(weights.items(), key=lambda item: (item[1].size, item[0])):
        budget -= weight.size
        if budget < 0:
            break
        chosen.add(name)
    return chosen
