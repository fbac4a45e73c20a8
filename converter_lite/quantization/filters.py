"""Smoothing of convolutions: factors per channel for tensors that no layer makes.

Behind a layer, equalization divides channels at no cost. Behind HardSwish, Sigmoid or an addition of two branches it cannot, and
channels that are far smaller than the largest lose all of theirs to a common step: most of all for a convolution of single
channels, to which they count as much as any other. Factors cost nothing where the tensor is a product with a constant, which is
divided then; elsewhere they cost one Mul, and are chosen only for devices whose nodes are not chosen by their time.

Source: Xiao et al., SmoothQuant, ICML 2023, section 4 (the factors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import MEAN_SQUARE, channel_reductions
from converter_lite.errors import ConfigError
from converter_lite.kernels.rounding import coarse
from converter_lite.quantization.equalize import cautious, find_pairs
from converter_lite.quantization.plan import NodeMode, QuantPlan, smoothed_name
from converter_lite.quantization.remedies import (
    LEVELS,
    SMALLEST_SHARE,
    WEIGHT_STEPS,
    Remedies,
    Remedy,
    Smoothing,
    choose,
)
from converter_lite.quantization.upstream import Upstream, find_upstream
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import is_depthwise, weight_of
from converter_lite.targets.policy import Policy

NOISE_LIMIT = 4e-4
"""Noise of a convolution, as a share of its signal's variance, that is accepted where factors cost a Mul."""

CAUTION = 0.4
"""As in :mod:`.equalize`, where it is larger: with that, a detector of text had less accurate `.nb` files."""

QUIET = 1e-6
"""Energy of a result's channel, as a share of the largest one, below which it counts as constant."""

KINDS = ("ReduceMin", "ReduceMax", MEAN_SQUARE)
"""What is looked at of a tensor."""

Vector = NDArray[np.float64]
Seen = dict[tuple[str, str], Vector]
"""Tensor and kind of reduction -> ``(samples, channels)``."""


def smooth_filters(
    model: ir.Model, plan: QuantPlan, feeds: Iterable[Feed], *, target: Policy, remedies: Remedies, context: RunContext
) -> list[Smoothing]:
    """Choose factors, enter them into the plan, and rewrite the float model in place.

    What the model computes stays the same. The Muls that are added are not in the plan and thus stay float.

    Args:
        model: Optimized float graph.
        plan: Which nodes are quantized.
        feeds: Calibration samples.
        target: What the runtime can do.
        remedies: Which exponents are tried.
        context: Runs the float model; its log receives one detail line per changed tensor.

    Returns:
        What was changed, in graph order.
    """
    equalized = {pair.tensor for pair in find_pairs(model)}
    found = {value: readers for value, readers in _find_readers(model, plan).items() if value not in equalized}
    if target.costs is not None:
        found = {value: readers for value, readers in found.items() if _is_free(value, readers, plan)}
    if not found:
        return []
    done = []
    with context.log.stage("smoothing"):
        seen = _see(model, found, feeds, context)
        for value, readers in found.items():
            item = Filtered.of(value, readers, seen, symmetric=target.activation.symmetric)
            if not np.isfinite(item.peak).all() or not item.peak.any():
                continue  # calibration reports what is not finite by name
            exponents = (1.0,) if all(map(is_depthwise, readers)) else remedies.alphas
            possible = replace(remedies, alphas=exponents, apart=False)
            chosen = choose(item, item.noise, possible, is_free=_is_free(value, readers, plan), limit=NOISE_LIMIT)
            if chosen is not None:
                context.log.debug(f"  {chosen}")
                done.append(chosen)
                plan.smoothing[chosen.tensor] = item.factors(chosen.alpha).astype(np.float32)
        apply_to_filters(model, plan)
    return done


def apply_to_filters(model: ir.Model, plan: QuantPlan) -> None:
    """Rewrite the float model as the plan's factors say.

    Raises:
        ConfigError: They do not fit the weights.
    """
    names = g.Names(model.graph)
    for value, readers in _find_readers(model, plan).items():
        factors = plan.smoothing.get(value.name or "")
        if factors is None:
            continue
        channels = len(_by_channel(readers[0]))
        if len(factors) != channels:
            problem = f"plan: {len(factors)} smoothing factors for {channels} channels of {value.name}"
            raise ConfigError("the plan does not fit the model", problems=(problem,))
        upstream = _upstream(value, readers, factors, plan)
        if upstream is None:
            _multiply(model.graph, value, readers, 1.0 / factors, names)
        else:
            upstream.divide(model.graph, names)
            for changed in upstream.values:
                changed.name = smoothed_name(changed.name or "")
        for node in readers:
            _multiply_weight(node, factors)


@dataclass(slots=True)
class Filtered:
    """A tensor ``(N, C, ..)`` and the convolutions that read it.

    Attributes:
        value: The tensor.
        readers: The convolutions; each has a weight of its own.
        symmetric: Whether the tensor's grid has as many steps below zero as above.
        low, high: Extremes of each channel, ``(C,)``.
        peak: The largest absolute value that each is expected to have.
        energy: Mean square of each.
    """

    value: ir.Value
    readers: list[ir.Node]
    symmetric: bool
    low: Vector
    high: Vector
    peak: Vector
    energy: Vector

    @classmethod
    def of(cls, value: ir.Value, readers: list[ir.Node], seen: Seen, *, symmetric: bool) -> Filtered:
        """From what was seen of the tensor."""
        smallest, largest, squares = (seen[value.name or "", kind] for kind in KINDS)
        low, high = np.minimum(smallest.min(axis=0), 0.0), np.maximum(largest.max(axis=0), 0.0)
        peak = cautious(np.maximum(high, -low), len(largest), caution=CAUTION)
        return cls(value, readers, symmetric, low, high, peak, squares.mean(axis=0))

    def factors(self, alpha: float) -> Vector:
        """Factors per channel that the tensor is divided by; its largest value stays the same."""
        if alpha == 0.0:
            return np.ones_like(self.peak)
        peak = np.maximum(self.peak, SMALLEST_SHARE * self.peak.max())
        weight = np.max([np.abs(_by_channel(node)).max(axis=(1, 2)) for node in self.readers], axis=0)
        weight = np.maximum(weight.astype(np.float64), max(SMALLEST_SHARE * float(weight.max()), 1e-30))
        factors = peak**alpha / weight ** (1 - alpha)
        return coarse(factors * float((peak / factors).max()) / float(peak.max()))

    def largest(self, count: int) -> tuple[int, ...]:
        """No columns apart."""
        del count
        return ()

    def noise(self, remedy: Remedy) -> float:
        """Energy of the rounding errors in a channel of the results, as a share of its own: the mean over all channels.

        Neighbouring values are taken as independent. A channel has lost everything with a share of 1 and counts so from there on.
        """
        factors = self.factors(remedy.alpha)
        low, high = float((self.low / factors).min()), float((self.high / factors).max())
        step = (2 * max(high, -low) if self.symmetric else high - low) / LEVELS
        return float(np.concatenate([self._shares(node, factors, step) for node in self.readers]).mean())

    def _shares(self, node: ir.Node, factors: Vector, step: float) -> Vector:
        groups = g.int_attribute(node, "group", 1)
        by_channel = _by_channel(node)
        weight = by_channel.reshape(groups, -1, *by_channel.shape[1:])
        signal = (np.square(weight).sum(axis=3) * self.energy.reshape(groups, -1, 1)).sum(axis=1)
        scaled = weight * factors.reshape(groups, -1, 1, 1)
        energy = (self.energy / np.square(factors)).reshape(groups, -1, 1)
        rounding = np.minimum(step**2 / 12, energy)  # what rounds to zero loses no more than it is
        weight_rounding = np.square(np.abs(scaled).max(axis=(1, 3)) / WEIGHT_STEPS) / 12
        noise = (rounding * np.square(scaled).sum(axis=3)).sum(axis=1)
        noise += weight_rounding * energy.sum(axis=1) * weight.shape[3]
        speaks = signal > QUIET * signal.max()
        return np.minimum(noise[speaks] / signal[speaks], 1.0)


def _find_readers(model: ir.Model, plan: QuantPlan) -> dict[ir.Value, list[ir.Node]]:
    """Tensors that convolutions of integers read and a node of floats makes, in graph order."""
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        value, weight = node.inputs[0] if node.inputs else None, weight_of(node)
        if node.op_type != "Conv" or plan.mode(node) is not NodeMode.INTEGER or value is None or weight is None:
            continue
        producer = value.producer()
        is_own = g.single_consumer(weight) is not None and 0 not in (g.static_shape(weight) or (0,))
        if producer is not None and plan.mode(producer) is NodeMode.FLOAT and is_own and value.shape is not None:
            readers.setdefault(value, []).append(node)
    return readers


def _is_free(value: ir.Value, readers: Sequence[ir.Node], plan: QuantPlan) -> bool:
    """Whether the tensor can be divided without an operator."""
    return _upstream(value, readers, np.ones(len(_by_channel(readers[0])), np.float32), plan) is not None


def _see(model: ir.Model, values: Iterable[ir.Value], feeds: Iterable[Feed], context: RunContext) -> Seen:
    wanted = [(value.name or "", kind) for value in values for kind in KINDS]
    rows = list(channel_reductions(model, wanted, feeds, context))
    return {key: np.stack(column) for key, column in zip(wanted, zip(*rows, strict=True), strict=True)}


def _upstream(
    value: ir.Value, readers: Sequence[ir.Node], factors: NDArray[np.float32], plan: QuantPlan
) -> Upstream | None:
    """How to divide the tensor without an operator, where it has no other readers and that is possible."""
    if any(use.node not in readers for use in value.uses()):
        return None
    upstream = find_upstream(value, factors, axis=1)
    if upstream is None or any(plan.mode(node) is not NodeMode.FLOAT for node in _producers(upstream.values)):
        return None
    return upstream


def _producers(values: Iterable[ir.Value]) -> Iterator[ir.Node]:
    return (node for value in values if (node := value.producer()) is not None)


def _multiply(
    graph: ir.Graph, value: ir.Value, readers: list[ir.Node], shares: NDArray[np.float32], names: g.Names
) -> None:
    along = shares.reshape(1, -1, *[1] * (g.floats(weight_of(readers[0])).ndim - 2))
    constant = g.add_initializer(graph, f"{value.name}_smoothing", along, names=names)
    node = ir.node("Mul", [value, constant], name=f"{value.name}_smooth")
    node.outputs[0].name = names.unique(smoothed_name(value.name or ""))
    node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.FLOAT, value.shape
    graph.insert_before(readers[0], node)
    for reader in readers:
        reader.replace_input_with(0, node.outputs[0])


def _multiply_weight(node: ir.Node, factors: NDArray[np.float32]) -> None:
    weight, array, groups = weight_of(node), g.floats(weight_of(node)), g.int_attribute(node, "group", 1)
    assert weight is not None
    by_group = array.reshape(groups, -1, *array.shape[1:])
    scaled = by_group * factors.reshape(groups, 1, -1, *[1] * (array.ndim - 2))
    weight.const_value = ir.Tensor(scaled.reshape(array.shape), name=weight.name)


def _by_channel(node: ir.Node) -> NDArray[np.float32]:
    """The weight as ``(channels of the input, outputs of a group, places of the kernel)``."""
    array, groups = g.floats(weight_of(node)), g.int_attribute(node, "group", 1)
    by_group = array.reshape(groups, len(array) // groups, array.shape[1], -1).swapaxes(1, 2)
    return by_group.reshape(-1, *by_group.shape[2:])
