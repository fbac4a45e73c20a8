"""Cross-layer equalization: channels are rescaled between two layers so that each uses the full grid.

A positive factor per channel commutes with ReLU-like and pooling operators: the layer before is divided by it, the layers behind
are multiplied. The float model stays the same; ranges of weights and activations become alike.

Rules:

1. Weights per tensor: the factor balances the weight ranges on both sides (and the activation's).
2. Weights per channel on both sides (a depthwise layer behind): the factor is free and gives every channel the full range of the
   activation.
3. Weights per channel, another layer behind: the factor moves part of the activation's spread into the weights.
4. ``Clip(0, hi)``: a channel that reaches ``hi`` in the samples is clipped there and keeps its factor of 1, since the
   bound is one number for the tensor. Any other channel is only stretched, at most until its largest value reaches ``hi``.

Sources: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction, ICCV 2019, section 4.1 (rule 1);
Xiao et al., SmoothQuant, ICML 2023 (the exponent of rule 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import channel_magnitudes
from converter_lite.kernels.rounding import coarse
from converter_lite.quantization.channels import flattens_pixels
from converter_lite.quantization.constants import has_channel_bias
from converter_lite.quantization.settings import MIGRATION
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import bias_of, is_depthwise, weight_of

HOMOGENEOUS = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
"""Operators that a positive factor per channel passes through."""

SWEEPS = 30
"""Most sweeps over all pairs; chains of a few layers settle in about ten."""

SETTLED = 1e-3
"""The search ends with a sweep that changes no factor by more."""

LARGEST_FACTOR = 1e4
"""Bound of a channel's total factor and of its inverse: beyond it float32 loses small weights."""

CONSTANT_SHARE = 1e-6
"""A channel whose weights are smaller than this, relative to the largest of the layer, counts as constant: nothing is lost if
they round to zero."""

Vector = NDArray[np.float64]


@dataclass(slots=True)
class Pair:
    """Layers on both sides of a tensor.

    Attributes:
        before: Layer that makes it.
        behind: Layers that read it.
        tensor: The tensor they read.
        bound: Upper bound of a Clip in between, infinite without one.
        is_depthwise: Whether all layers behind are depthwise.
        magnitude: Largest absolute value per channel, real units, of the scaled tensor.
        original: The same before any scaling.
    """

    before: ir.Node
    behind: list[ir.Node]
    tensor: ir.Value
    bound: float = float("inf")
    is_depthwise: bool = False
    magnitude: Vector = field(default_factory=lambda: np.zeros(0))
    original: Vector = field(default_factory=lambda: np.zeros(0))


def equalize(
    model: ir.Model,
    feeds: Iterable[Feed],
    *,
    per_channel: bool,
    alpha: float = MIGRATION,
    context: RunContext,
) -> dict[str, Vector]:
    """Rescale the weights of ``model`` in place.

    Args:
        model: Optimized float graph.
        feeds: Calibration samples, for the ranges of activations.
        per_channel: Whether weights get one scale per output channel.
        alpha: Exponent of rule 3.
        context: Runs the float model.

    Returns:
        Tensor name -> factor per channel by which the tensor was divided; tensors that did not change are left out.
    """
    pairs = find_pairs(model)
    if not pairs:
        return {}
    magnitudes = channel_magnitudes(model, [p.tensor.name or "" for p in pairs], feeds, context)
    weights = _Weights()
    total: dict[str, Vector] = {}
    for pair in pairs:
        pair.original = pair.magnitude = magnitudes[pair.tensor.name or ""]
    pairs = [pair for pair in pairs if np.all(np.isfinite(pair.magnitude))]  # calibration reports the others by name
    for _ in range(SWEEPS):
        change = 0.0
        for pair in pairs:
            factor = _factor(pair, weights, per_channel=per_channel, alpha=alpha)
            name = pair.tensor.name or ""
            old = total.get(name, np.ones_like(factor))
            factor = np.clip(old * factor, 1 / LARGEST_FACTOR, LARGEST_FACTOR) / old
            weights.apply(pair, factor)
            pair.magnitude = pair.magnitude / factor
            total[name] = old * factor
            change = max(change, float(np.abs(np.log(factor)).max()))
        if change < SETTLED:
            break
    for pair in pairs:
        name = pair.tensor.name or ""
        rounded = coarse(total[name])
        weights.apply(pair, rounded / total[name])
        total[name] = rounded
    weights.store()
    return {name: factor for name, factor in total.items() if not np.allclose(factor, 1.0)}


def find_pairs(model: ir.Model) -> list[Pair]:
    """Pairs of layers that a factor per channel can be moved between, in graph order."""
    pairs = []
    for node in model.graph:
        weight = weight_of(node)
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or weight is None or len(weight.uses()) != 1:
            continue
        bias = bias_of(node)
        if bias is not None and (not has_channel_bias(node) or len(bias.uses()) != 1):
            continue
        if node.op_type == "ConvTranspose" and g.int_attribute(node, "group", 1) != 1:
            continue
        pair = _follow(node)
        if pair is not None:
            pairs.append(pair)
    return pairs


def _follow(node: ir.Node) -> Pair | None:
    tensor, bound = node.outputs[0], float("inf")
    while True:
        if tensor.is_graph_output() or not tensor.uses():
            return None
        readers = [reader for reader, _ in tensor.uses()]
        if all(_takes_factor(reader, position) for reader, position in tensor.uses()):
            return Pair(node, readers, tensor, bound, all(map(is_depthwise, readers)))
        if len(readers) != 1:
            return None
        reader = readers[0]
        if reader.op_type == "Clip":
            bounds = g.clamp_bounds(reader)
            if bounds is None or bounds[0] != 0.0 or bound != float("inf"):
                return None
            bound = bounds[1]
        elif reader.op_type not in HOMOGENEOUS and not flattens_pixels(reader):
            return None
        tensor = reader.outputs[0]


def _takes_factor(node: ir.Node, position: int) -> bool:
    weight = weight_of(node)
    if position != 0 or weight is None or len(weight.uses()) != 1:
        return False
    if node.op_type == "Gemm":
        return not g.int_attribute(node, "transA", 0)
    if node.op_type == "MatMul":
        rank = len(node.inputs[0].shape) if node.inputs[0] is not None and node.inputs[0].shape is not None else 0
        return rank == 2 and len(g.static_shape(weight) or ()) == 2
    return node.op_type == "Conv"


def _factor(pair: Pair, weights: _Weights, *, per_channel: bool, alpha: float) -> Vector:
    used = pair.magnitude > 0
    if not np.any(used):
        return np.ones_like(pair.magnitude)
    activation = np.where(used, pair.magnitude, pair.magnitude[used].min())
    if per_channel:
        if pair.is_depthwise:
            factor = activation.copy()  # rule 2
        else:
            behind = weights.input_magnitude(pair)
            factor = activation**alpha / behind ** (1 - alpha)  # rule 3
    else:
        behind = weights.input_magnitude(pair)
        before = np.sqrt(_used_magnitude(weights.output_magnitude(pair.before), activation) * activation)
        factor = np.sqrt(before / behind)  # rule 1
    if np.isinf(pair.bound):
        return factor * (
            float((activation / factor).max()) / float(activation.max())
        )  # the tensor keeps its largest value
    return _within_bound(factor, activation, pair)


def _used_magnitude(weight: Vector, activation: Vector) -> Vector:
    """Largest weight per output channel. A channel that consists of its bias needs no grid: its activation stands in."""
    constant = weight < CONSTANT_SHARE * weight.max()
    return np.where(constant, weight.max() * activation / activation.max(), weight)


def _within_bound(factor: Vector, activation: Vector, pair: Pair) -> Vector:
    """Rule 4. The bound does not move: factors are relative to the original tensor."""
    clipped = pair.original >= pair.bound * (1 - 1e-6)
    done = pair.original / np.maximum(pair.magnitude, 1e-30)
    done = np.where(pair.magnitude > 0, done, 1.0)
    lowest = np.where(clipped, 1.0, np.maximum(pair.original / pair.bound, 1 / LARGEST_FACTOR))
    return np.clip(factor * done, lowest, 1.0) / done


class _Weights:
    """Weights and biases while they change, float64."""

    def __init__(self) -> None:
        self._arrays: dict[ir.Value, NDArray[np.float64]] = {}

    def array(self, value: ir.Value) -> NDArray[np.float64]:
        if value not in self._arrays:
            constant = g.constant(value)
            assert constant is not None
            self._arrays[value] = constant.astype(np.float64)
        return self._arrays[value]

    def store(self) -> None:
        for value, array in self._arrays.items():
            value.const_value = ir.Tensor(array.astype(np.float32), name=value.name)

    def output_magnitude(self, node: ir.Node) -> Vector:
        """Largest absolute weight per output channel."""
        rows = np.moveaxis(self.array(_weight(node)), _output_axis(node), 0)
        return np.maximum(np.abs(rows.reshape(len(rows), -1)).max(axis=1), 1e-12)

    def input_magnitude(self, pair: Pair) -> Vector:
        """Largest absolute weight per input channel over all layers behind."""
        found = np.full(len(pair.magnitude), 1e-12)
        for node in pair.behind:
            array = self.array(_weight(node))
            if pair.is_depthwise or (len(pair.behind) > 1 and is_depthwise(node)):
                multiplier = len(array) // len(found)
                magnitude = np.abs(array.reshape(len(found), multiplier, -1)).max(axis=(1, 2))
            else:
                columns = _by_input(node, array, len(found))
                magnitude = np.abs(columns).max(axis=1)
            found = np.maximum(found, magnitude)
        return found

    def apply(self, pair: Pair, factor: Vector) -> None:
        before = self.array(_weight(pair.before))
        before /= _along(factor, before.ndim, _output_axis(pair.before))
        bias = bias_of(pair.before)
        if bias is not None:
            array = self.array(bias)
            array /= factor.reshape(array.shape)
        for node in pair.behind:
            array = self.array(_weight(node))
            array *= _input_factor(node, array, factor)


def _weight(node: ir.Node) -> ir.Value:
    value = node.inputs[1]
    assert value is not None
    return value


def _output_axis(node: ir.Node) -> int:
    if node.op_type == "Gemm":
        return 0 if g.int_attribute(node, "transB", 0) else 1
    return 1 if node.op_type == "ConvTranspose" else 0


def _along(vector: Vector, rank: int, axis: int) -> NDArray[np.float64]:
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def _by_input(node: ir.Node, array: NDArray[np.float64], channels: int) -> NDArray[np.float64]:
    """Weights of each input channel as a row. Shape ``(channels, -1)``."""
    if node.op_type == "Conv":
        group = g.int_attribute(node, "group", 1)
        rows = array.reshape(group, array.shape[0] // group, array.shape[1], -1)
        return np.moveaxis(rows, 2, 1).reshape(channels, -1)
    return array.T if node.op_type == "Gemm" and g.int_attribute(node, "transB", 0) else array


def _input_factor(node: ir.Node, array: NDArray[np.float64], factor: Vector) -> NDArray[np.float64]:
    """The factor per input channel, shaped to multiply a weight."""
    if node.op_type != "Conv":
        return (
            factor.reshape(1, -1)
            if node.op_type == "Gemm" and g.int_attribute(node, "transB", 0)
            else factor.reshape(-1, 1)
        )
    group = g.int_attribute(node, "group", 1)
    per_output = np.repeat(factor.reshape(group, array.shape[1]), array.shape[0] // group, axis=0)
    return per_output.reshape(*per_output.shape, *[1] * (array.ndim - 2))
