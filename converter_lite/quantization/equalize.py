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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from math import log

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import channel_magnitudes
from converter_lite.kernels.rounding import coarse
from converter_lite.kernels.tails import exceeded_by
from converter_lite.quantization.channels import flattens_pixels
from converter_lite.quantization.constants import has_channel_bias
from converter_lite.quantization.settings import MIGRATION
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import bias_of, is_depthwise, weight_of

HOMOGENEOUS = ("Relu", "LeakyRelu", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
"""Operators that a positive factor per channel passes through."""

AVERAGING = ("AveragePool", "GlobalAveragePool")
"""Those behind which the largest value does not tell whether a Clip in front of them has cut anything."""

SWEEPS = 30
"""Most sweeps over all pairs; chains of a few layers settle in about ten."""

SETTLED = 1e-3
"""The search ends with a sweep that changes no factor by more."""

ENOUGH_SAMPLES = 32
"""Samples from which the largest value that a channel had is believed."""

CAUTION = 0.8
"""With fewer, a channel's largest value is taken for a geometric mean with the tensor's, whose weight falls from this one (no
sample) to 0, or to :data:`ROOM` (docs/decisions/0003-bias-correction-and-rounding.md)."""

ROOM = 0.1
"""The least such weight where the tensor's step grows with the largest channel: with a zero point and no upper bound. What a
channel gains by the last tenth is lost by all, when others reach further than in these samples."""

UNSEEN = 0.001
"""Share of samples in which a channel of such a tensor is expected to exceed what it is taken for."""

LARGEST_FACTOR = 1e4
"""Bound of a channel's total factor and of its inverse: beyond it float32 loses small weights."""

CONSTANT_SHARE = 1e-6
"""A channel whose weights are smaller than this, relative to the largest of the layer, counts as constant: nothing is lost if
they round to zero."""

SMALLEST = 1e-12
"""Magnitude that weights which are all zero are taken to have."""

BLOCK_VALUES = 1 << 18
"""Weights that are examined at a time."""

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Grids:
    """Grids of a network.

    Attributes:
        per_channel: Whether weights get one scale per output channel.
        symmetric: Whether grids of activations have as many steps below zero as above.
    """

    per_channel: bool
    symmetric: bool


@dataclass(slots=True)
class Pair:
    """Layers on both sides of a tensor.

    Attributes:
        before: Layer that makes it.
        behind: Layers that read it.
        tensor: The tensor they read.
        bound: Upper bound of a Clip in between, infinite without one.
        bounded: What that Clip gives: the tensor, or what is averaged behind it.
        is_depthwise: Whether all layers behind are depthwise.
        magnitude: Largest absolute value per channel, real units, of the scaled tensor.
        original: The same before any scaling.
        reached: The same of what the bound holds for.
    """

    before: ir.Node
    behind: list[ir.Node]
    tensor: ir.Value
    bound: float
    bounded: ir.Value
    is_depthwise: bool
    magnitude: Vector = field(default_factory=lambda: np.zeros(0))
    original: Vector = field(default_factory=lambda: np.zeros(0))
    reached: Vector = field(default_factory=lambda: np.zeros(0))


def equalize(
    model: ir.Model,
    feeds: Iterable[Feed],
    *,
    samples: int,
    grids: Grids,
    alpha: float = MIGRATION,
    context: RunContext,
) -> dict[str, Vector]:
    """Rescale the weights of ``model`` in place.

    Args:
        model: Optimized float graph.
        feeds: Calibration samples, for the ranges of activations.
        samples: How many they are.
        grids: What weights and activations are rounded to.
        alpha: Exponent of rule 3.
        context: Runs the float model.

    Returns:
        Tensor name -> factor per channel by which the tensor was divided; tensors that did not change are left out.
    """
    pairs = find_pairs(model)
    if not pairs:
        return {}
    names = list(dict.fromkeys(str(value.name) for pair in pairs for value in (pair.tensor, pair.bounded)))
    seen = channel_magnitudes(model, names, feeds, context, samples=samples)
    total: dict[str, Vector] = {}
    for pair in pairs:
        pair.original, pair.reached = (
            _expected(seen[str(value.name)], pair.bound, symmetric=grids.symmetric)
            for value in (pair.tensor, pair.bounded)
        )
        pair.magnitude = pair.original
    pairs = [pair for pair in pairs if np.all(np.isfinite(pair.magnitude))]  # calibration reports the others by name
    sides = _sides(pairs)
    for _ in range(SWEEPS):
        change = 0.0
        for pair, side in zip(pairs, sides, strict=True):
            factor = _factor(pair, side, per_channel=grids.per_channel, alpha=alpha)
            name = pair.tensor.name or ""
            old = total.get(name, np.ones_like(factor))
            factor = np.minimum(np.maximum(old * factor, 1 / LARGEST_FACTOR), LARGEST_FACTOR) / old
            side.apply(factor)
            pair.magnitude = pair.magnitude / factor
            total[name] = old * factor
            change = max(change, log(factor.max()), -log(factor.min()))
        if change < SETTLED:
            break
    total = {name: coarse(factor) for name, factor in total.items()}
    _store(pairs, total)
    return {name: factor for name, factor in total.items() if not np.allclose(factor, 1.0)}


def _expected(seen: NDArray[np.float32], bound: float, *, symmetric: bool) -> Vector:
    """What stands for the largest value of each channel, from those in the samples ``(samples, channels)``.

    Grids with as many steps below zero as above have none to spare, and a bound keeps the step as it is.
    """
    if symmetric or np.isfinite(bound):
        return cautious(seen.max(axis=0).astype(np.float64), len(seen))
    return cautious(exceeded_by(UNSEEN, seen), len(seen), least=ROOM)


def cautious(magnitude: Vector, samples: int, *, caution: float = CAUTION, least: float = 0.0) -> Vector:
    """Largest value that a channel is expected to have: few samples have not seen it; a stretched channel has no room left."""
    share = max(caution * (1 - samples / ENOUGH_SAMPLES), least)
    return magnitude ** (1 - share) * magnitude.max() ** share if share else magnitude


def find_pairs(model: ir.Model) -> list[Pair]:
    """Pairs of layers that a factor per channel can be moved between, in graph order."""
    pairs = []
    for node in model.graph:
        weight = weight_of(node)
        if node.op_type not in ("Conv", "ConvTranspose", "Gemm") or weight is None or g.single_consumer(weight) is None:
            continue
        bias = bias_of(node)
        if bias is not None and (not has_channel_bias(node) or g.single_consumer(bias) is None):
            continue
        if node.op_type == "ConvTranspose" and g.int_attribute(node, "group", 1) != 1:
            continue
        pair = _follow(node)
        if pair is not None:
            pairs.append(pair)
    return pairs


def _follow(node: ir.Node) -> Pair | None:
    tensor, bound = node.outputs[0], float("inf")
    bounded: ir.Value | None = None
    while True:
        if tensor.is_graph_output() or not tensor.uses():
            return None
        readers = [reader for reader, _ in tensor.uses()]
        if all(_takes_factor(reader, position) for reader, position in tensor.uses()):
            return Pair(node, readers, tensor, bound, bounded or tensor, all(map(is_depthwise, readers)))
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
        elif reader.op_type in AVERAGING and bound != float("inf"):
            bounded = bounded or tensor
        tensor = reader.outputs[0]


def _takes_factor(node: ir.Node, position: int) -> bool:
    weight = weight_of(node)
    if position != 0 or weight is None or g.single_consumer(weight) is None:
        return False
    if node.op_type == "Gemm":
        return not g.int_attribute(node, "transA", 0)
    if node.op_type == "MatMul":
        rank = len(node.inputs[0].shape) if node.inputs[0] is not None and node.inputs[0].shape is not None else 0
        return rank == 2 and len(g.static_shape(weight) or ()) == 2
    return node.op_type == "Conv"


def _factor(pair: Pair, sides: _Sides, *, per_channel: bool, alpha: float) -> Vector:
    activation, used = pair.magnitude, pair.magnitude > 0
    if not used.all():
        if not used.any():
            return np.ones_like(activation)
        activation = np.where(used, activation, activation[used].min())
    if per_channel:
        if pair.is_depthwise:
            factor = activation  # rule 2
        else:
            behind = sides.input_magnitude()
            factor = activation**alpha / behind ** (1 - alpha)  # rule 3
    else:
        behind = sides.input_magnitude()
        before = np.sqrt(_used_magnitude(sides.before.of_outputs(), activation) * activation)
        factor = np.sqrt(before / behind)  # rule 1
    if np.isinf(pair.bound):
        return factor * (
            float((activation / factor).max()) / float(activation.max())
        )  # the tensor keeps its largest value
    return _within_bound(factor, pair)


def _used_magnitude(weight: Vector, activation: Vector) -> Vector:
    """Largest weight per output channel. A channel that consists of its bias needs no grid: its activation stands in."""
    constant = weight < CONSTANT_SHARE * weight.max()
    return np.where(constant, weight.max() * activation / activation.max(), weight)


def _within_bound(factor: Vector, pair: Pair) -> Vector:
    """Rule 4. The bound does not move: factors are relative to the original tensor."""
    clipped = pair.reached >= pair.bound * (1 - 1e-6)
    done = pair.original / np.maximum(pair.magnitude, 1e-30)
    done = np.where(pair.magnitude > 0, done, 1.0)
    lowest = np.where(clipped, 1.0, np.maximum(pair.reached / pair.bound, 1 / LARGEST_FACTOR))
    return np.clip(factor * done, lowest, 1.0) / done


class _Magnitudes:
    """Largest magnitudes of a weight over the positions of its kernel, while factors change its channels.

    A positive factor leaves the largest of several numbers the largest, so that the weight itself need not change.
    """

    def __init__(self, array: NDArray[np.float32], *, output_axis: int, group: int) -> None:
        matrix = np.abs(array).reshape(*array.shape[:2], -1).max(axis=2)
        by_output = matrix if output_axis == 0 else matrix.T
        self._given = by_output.reshape(group, len(by_output) // group, -1)
        """``(groups, output channels of a group, input channels of a group)``"""
        self._outputs = np.ones(self._given.shape[:2])
        self._inputs = np.ones(self._given.shape[::2])

    def scale_outputs(self, factor: Vector) -> None:
        """Divide each output channel by a factor."""
        self._outputs /= factor.reshape(self._outputs.shape)

    def scale_inputs(self, factor: Vector) -> None:
        """Multiply what is read from each input channel by a factor."""
        self._inputs *= factor.reshape(self._inputs.shape)

    def of_outputs(self) -> Vector:
        """Largest magnitude of each output channel."""
        found = [(block * self._inputs[:, None]).max(axis=2) for _, block in self._blocks()]
        return np.maximum((np.concatenate(found, axis=1) * self._outputs).reshape(-1), SMALLEST)

    def of_inputs(self) -> Vector:
        """Largest magnitude that each input channel is multiplied with."""
        found = [(block * self._outputs[:, outputs, None]).max(axis=1) for outputs, block in self._blocks()]
        return np.maximum((reduce(np.maximum, found) * self._inputs).reshape(-1), SMALLEST)

    def _blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        groups, outputs, inputs = self._given.shape
        size = max(BLOCK_VALUES // (groups * inputs), 1)
        for start in range(0, outputs, size):
            part = slice(start, start + size)
            yield part, self._given[:, part]


@dataclass(frozen=True, slots=True)
class _Sides:
    """Weights on both sides of a tensor: of the layer that makes it, and of those that read it."""

    before: _Magnitudes
    behind: list[_Magnitudes]

    def input_magnitude(self) -> Vector:
        """Largest absolute weight per input channel over all layers behind."""
        return reduce(np.maximum, (weight.of_inputs() for weight in self.behind))

    def apply(self, factor: Vector) -> None:
        """Divide the tensor by a factor per channel."""
        self.before.scale_outputs(factor)
        for weight in self.behind:
            weight.scale_inputs(factor)


def _sides(pairs: Iterable[Pair]) -> list[_Sides]:
    """Both sides of each pair; a layer between two tensors belongs to both."""
    found: dict[ir.Value, _Magnitudes] = {}

    def of(node: ir.Node) -> _Magnitudes:
        value = _weight(node)
        if value not in found:
            group = g.int_attribute(node, "group", 1) if node.op_type == "Conv" else 1
            found[value] = _Magnitudes(_constant(value), output_axis=_output_axis(node), group=group)
        return found[value]

    return [_Sides(of(pair.before), [of(node) for node in pair.behind]) for pair in pairs]


def _store(pairs: Iterable[Pair], factors: Mapping[str, Vector]) -> None:
    """Divide the tensors of pairs by factors: weights and biases change in place, one after the other."""
    changes: dict[ir.Value, list[Callable[[Matrix], None]]] = {}
    for pair in pairs:
        factor, bias = factors[pair.tensor.name or ""], bias_of(pair.before)
        changes.setdefault(_weight(pair.before), []).append(partial(_divide_outputs, pair.before, factor))
        if bias is not None:
            changes.setdefault(bias, []).append(partial(_divide, factor))
        for node in pair.behind:
            changes.setdefault(_weight(node), []).append(partial(_multiply_inputs, node, factor))
    for value, wanted in changes.items():
        array = _constant(value).astype(np.float64)
        for change in wanted:
            change(array)
        value.const_value = ir.Tensor(array.astype(np.float32), name=value.name)


def _divide(factor: Vector, array: Matrix) -> None:
    array /= factor.reshape(array.shape)


def _divide_outputs(node: ir.Node, factor: Vector, array: Matrix) -> None:
    rows = np.moveaxis(array, _output_axis(node), 0)
    rows /= factor.reshape(-1, *[1] * (rows.ndim - 1))


def _multiply_inputs(node: ir.Node, factor: Vector, array: Matrix) -> None:
    if node.op_type != "Conv":
        columns = array.T if _output_axis(node) == 0 else array
        columns *= factor[:, None]
        return
    group = g.int_attribute(node, "group", 1)
    columns = array.reshape(group, len(array) // group, *array.shape[1:]).swapaxes(1, 2)
    columns *= factor.reshape(group, -1, *[1] * (columns.ndim - 2))


def _constant(value: ir.Value) -> NDArray[np.float32]:
    constant = g.constant(value)
    assert constant is not None
    return constant.astype(np.float32, order="C", copy=False)


def _weight(node: ir.Node) -> ir.Value:
    value = node.inputs[1]
    assert value is not None
    return value


def _output_axis(node: ir.Node) -> int:
    if node.op_type == "Gemm":
        return 0 if g.int_attribute(node, "transB", 0) else 1
    return 0 if node.op_type == "Conv" else 1
