"""Smoothing: outliers in the activations of matrix products move into the weights, or get scales of their own.

Two remedies for a tensor that products with constant weights read:

1. Smoothing factors per channel: ``x @ W = (x / s) @ (s * W)`` with ``s = max|x|^alpha / max|W|^(1 - alpha)``, one Mul on the
   tensor.
   It helps against channels that are large in every row (behind LayerNormalization).
2. A scale per row, found at run time: helps against single rows that are large (behind Gelu, where a few tokens are up to ten
   times as large as the others). Dynamic quantization only.

Smoothing factors cost nothing where the constants that the tensor is computed from can be divided instead
(:mod:`converter_lite.quantization.upstream`; dynamic quantization only, since saved plans of other kinds name tensors in
between). Otherwise both remedies cost time, so each tensor gets the cheapest one whose estimated noise is small. The noise of a
product relative to its signal follows from steps and weights alone: rounding errors are taken as independent and uniform. Without
data the parameters of a normalization show which channels are large.

Source: Xiao et al., SmoothQuant, ICML 2023, section 4 (the factors); Yao et al., ZeroQuant, NeurIPS 2022 (scales per row).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import map_ordered, remove_unread
from converter_lite.errors import ConfigError
from converter_lite.kernels.rounding import coarse
from converter_lite.log import Log
from converter_lite.quantization.expected_input import expected_rows
from converter_lite.quantization.plan import NodeMode, QuantPlan, smoothed_name
from converter_lite.quantization.upstream import Upstream, find_upstream
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.runtime.serializing import open_session
from converter_lite.targets.operands import weight_of

SMOOTHED = {NodeMode.DYNAMIC: ("MatMul", "Gemm"), NodeMode.INTEGER: ("MatMul",)}
"""Operators whose inputs are smoothed; in full quantization equalization does the same for the others without a Mul."""

ALPHAS = (0.5, 0.65, 0.8)
"""Exponents that are tried."""

NOISE_LIMIT = 6e-4
"""Noise of a product, as a share of its signal's variance, that is accepted. Half of it makes MiniLM slower and no better."""

ROWS_FROM = 8e-4
"""Noise from which scales per row are considered, which cost about eight times as much time as factors."""

EXPECTED_NOISE_LIMIT = 2e-4
"""The same for expected rows, without data, which lack the outliers of real ones. On MiniLM it smooths the tensors behind
attention, cosine 0.9865 -> 0.9894 (64 sequences); 1e-5, which smooths all, gives 0.9891."""

WORTH = 0.5
"""A costlier remedy must lower the noise to this share."""

ROW_ZERO_POINTS = (1, 4, 8, 16, 32, 64, 96, 128)
"""Zero points tried for rows with scales of their own: 128 for symmetric values, small ones behind Gelu and Relu."""

SAMPLES = 16
"""Samples for dynamic quantization."""

OUTPUT_ROWS = 512
"""Rows that are enough to know the variance of a product."""

TENSORS_AT_ONCE, VALUES_AT_ONCE = 32, 1 << 24
"""Tensors observed in one run at least, and their values in one sample from which no more are added: this bounds the memory. Each
run takes the whole network, so small tensors are observed together."""

LEVELS = 255
WEIGHT_STEPS = 127

SMALLEST_SHARE = 1e-5
"""Least share of the tensor's largest value that a channel's counts as, so that dead channels get no huge factor."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Smoothing:
    """What was done to one tensor.

    Attributes:
        tensor: Its name.
        alpha: Exponent of the factors; 0 = no factors.
        row_zero_point: Zero point of rows with scales of their own, ``None`` = one scale.
        noise_before, noise: Estimated noise of the products, share of their signal's variance, without and with it.
    """

    tensor: str
    alpha: float
    row_zero_point: int | None
    noise_before: float
    noise: float

    def __str__(self) -> str:
        factors = f", factors with alpha {self.alpha:g}" if self.alpha else ""
        rows = "" if self.row_zero_point is None else ", a scale per row"
        return f"{self.tensor}: noise {self.noise_before:.2g} -> {self.noise:.2g}{factors}{rows}"


@dataclass(slots=True)
class _Input:
    """A tensor and the products that read it. Shapes: peak, energy ``(columns,)``; weight ``(columns, all outputs)``."""

    value: ir.Value
    readers: list[ir.Node]
    weight: NDArray[np.float32]
    peak: Vector
    energy: Vector
    rows: int = 0
    output_rows: int = 0
    output_sum: Vector = field(default_factory=lambda: np.zeros(1))
    output_energy: Vector = field(default_factory=lambda: np.zeros(1))

    @classmethod
    def of(cls, value: ir.Value, readers: list[ir.Node]) -> _Input:
        """Before any values were seen."""
        weight = np.concatenate([_matrix(node) for node in readers], axis=1)
        return cls(value, readers, weight, np.zeros(len(weight)), np.zeros(len(weight)))

    def see(self, x: NDArray[np.float32]) -> None:
        """Add the values of one sample."""
        rows = x.reshape(-1, len(self.peak))
        self.peak = np.maximum(self.peak, np.abs(rows).max(axis=0))
        self.energy = self.energy + np.einsum("ij,ij->j", rows, rows)
        self.rows += len(rows)
        if self.output_rows < OUTPUT_ROWS:
            with np.errstate(invalid="ignore", over="ignore"):  # calibration names values that are not finite
                product = rows @ self.weight
            self.output_rows += len(rows)
            self.output_sum = self.output_sum + product.sum(axis=0)
            self.output_energy = self.output_energy + np.einsum("ij,ij->j", product, product)

    @property
    def signal(self) -> float:
        """Mean variance of the products' outputs."""
        variance = self.output_energy / self.output_rows - np.square(self.output_sum / self.output_rows)
        return float(max(variance.mean(), 1e-30))

    def factors(self, alpha: float) -> Vector:
        """Factors per column that the tensor is divided by; their geometric mean is 1."""
        if alpha == 0.0:
            return np.ones_like(self.peak)
        activation = np.maximum(self.peak, SMALLEST_SHARE * self.peak.max())
        weight = np.abs(self.weight).max(axis=1).astype(np.float64)
        weight = np.maximum(weight, max(SMALLEST_SHARE * weight.max(), 1e-30))
        logarithm = alpha * np.log(activation) - (1 - alpha) * np.log(weight)
        return coarse(np.exp(logarithm - logarithm.mean()))

    @property
    def is_free(self) -> bool:
        """Whether the tensor can be divided without an operator."""
        return self.upstream(np.ones(len(self.peak), np.float32)) is not None

    def upstream(self, factors: NDArray[np.float32]) -> Upstream | None:
        """How to divide the tensor without an operator, where it has no other readers and that is possible."""
        is_shared = any(use.node not in self.readers for use in self.value.uses())
        return None if is_shared else find_upstream(self.value, factors)


@dataclass(slots=True)
class _Steps:
    """Squared grid steps of one tensor divided by given factors, over samples."""

    factors: Vector
    static: bool
    count: int = 0
    whole: float = 0.0
    low: float = 0.0
    high: float = 0.0
    by_zero_point: Vector = field(default_factory=lambda: np.zeros(len(ROW_ZERO_POINTS)))

    def see(self, x: NDArray[np.float32]) -> None:
        """Add the values of one sample."""
        rows = x.reshape(-1, len(self.factors)) * (1.0 / self.factors).astype(np.float32)
        low, high = rows.min(axis=1).astype(np.float64), rows.max(axis=1).astype(np.float64)
        self.low, self.high = min(self.low, float(low.min())), max(self.high, float(high.max()))
        span = max(float(high.max()), 0.0) - min(float(low.min()), 0.0)
        self.count += len(rows)
        self.whole += len(rows) * (span / LEVELS) ** 2
        for i, zero_point in enumerate(ROW_ZERO_POINTS):
            step = np.maximum(high / (LEVELS - zero_point), -low / zero_point)
            self.by_zero_point[i] += float(np.square(np.maximum(step, 0.0)).sum())

    def squared(self, zero_point: int | None) -> float:
        """Mean squared step of the whole tensor, or of its rows around a zero point."""
        if zero_point is not None:
            return float(self.by_zero_point[ROW_ZERO_POINTS.index(zero_point)]) / self.count
        return ((self.high - self.low) / LEVELS) ** 2 if self.static else self.whole / self.count


@dataclass(frozen=True, slots=True)
class Remedies:
    """What may be done about activations that are hard to quantize.

    Attributes:
        alphas: Exponents of factors to choose from; with none there are no factors.
        rows: Rows may have scales of their own.
    """

    alphas: Sequence[float] = ALPHAS
    rows: bool = False


def smooth_products(
    model: ir.Model,
    plan: QuantPlan,
    feeds: Sequence[Feed],
    *,
    mode: NodeMode,
    remedies: Remedies,
    context: RunContext,
) -> list[Smoothing]:
    """Choose factors and row zero points, enter them into the plan, and rewrite the float model in place.

    What the model computes stays the same. The Muls that are added are not in the plan and thus stay float.

    Args:
        model: Optimized float graph.
        plan: Which nodes are quantized.
        feeds: Calibration samples, :data:`SAMPLES` or more.
        mode: Mode of the nodes to smooth: DYNAMIC (ranges per sample) or INTEGER (one range).
        remedies: What may be done.
        context: Runs the float model; its log receives one detail line per changed tensor.

    Returns:
        What was changed, in graph order.
    """
    log = context.log
    inputs = [_Input.of(value, nodes) for value, nodes in _find_readers(model, plan, mode).items()]
    if not inputs or not feeds:
        return []
    done = []
    with log.stage("smoothing"):
        parts = list(_parts(inputs))
        for part in log.track(parts, "smoothing", len(parts)):
            for item, steps in _step_sizes(model, part, feeds, mode, remedies.alphas, context):
                chosen = _choose(item, steps, dynamic=mode is NodeMode.DYNAMIC, rows=remedies.rows)
                if chosen is None:
                    continue
                log.debug(f"  {chosen}")
                done.append(chosen)
                _enter(plan, item, chosen, mode)
        apply_smoothing(model, plan, mode=mode)
    return done


def _parts(inputs: Sequence[_Input]) -> Iterator[list[_Input]]:
    """Tensors that are observed in one run."""
    part: list[_Input] = []
    values = 0
    for item in inputs:
        shape = g.static_shape(item.value)
        size = VALUES_AT_ONCE // TENSORS_AT_ONCE if shape is None else prod(shape)
        if len(part) >= TENSORS_AT_ONCE and values + size > VALUES_AT_ONCE:
            yield part
            part, values = [], 0
        part.append(item)
        values += size
    if part:
        yield part


def smooth_expected_products(model: ir.Model, plan: QuantPlan, log: Log) -> list[Smoothing]:
    """:func:`smooth_products` for dynamic quantization without data: factors for what comes from a normalization.

    Args:
        model: Optimized float graph, rewritten in place.
        plan: Which nodes are quantized; receives the factors.
        log: Receives one detail line per changed tensor.

    Returns:
        What was changed, in graph order.
    """
    done = []
    for value, nodes in _find_readers(model, plan, NodeMode.DYNAMIC).items():
        rows = expected_rows(value, OUTPUT_ROWS)
        if rows is None or not np.isfinite(rows).all():
            continue
        item = _Input.of(value, nodes)
        if rows.shape[1] != len(item.weight):
            continue
        item.see(rows)
        noises = {}
        for alpha in (0.0, *ALPHAS):
            steps = _Steps(item.factors(alpha), static=False)
            for sample in np.split(rows, SAMPLES):
                steps.see(sample)
            noises[alpha] = _noise(item, steps, None)
        best = min(noises, key=lambda alpha: noises[alpha])
        if best and noises[0.0] > (0.0 if item.is_free else EXPECTED_NOISE_LIMIT):
            done.append(Smoothing(value.name or "", best, None, noises[0.0], noises[best]))
            log.debug(f"  {done[-1]}")
            _enter(plan, item, done[-1], NodeMode.DYNAMIC)
    apply_smoothing(model, plan, mode=NodeMode.DYNAMIC)
    return done


def _step_sizes(
    model: ir.Model,
    inputs: Sequence[_Input],
    feeds: Sequence[Feed],
    mode: NodeMode,
    alphas: Sequence[float],
    context: RunContext,
) -> list[tuple[_Input, dict[float, _Steps]]]:
    """The tensors that hold numbers, with their steps for every exponent."""
    static = mode is not NodeMode.DYNAMIC
    _observe(model, inputs, [[item] for item in inputs], feeds, context)
    inputs = [item for item in inputs if np.all(np.isfinite(item.peak)) and item.peak.any()]
    steps = [{a: _Steps(item.factors(a), static) for a in (0.0, *alphas)} for item in inputs]
    _observe(model, inputs, [list(s.values()) for s in steps], feeds, context)
    return list(zip(inputs, steps, strict=True))


def apply_smoothing(model: ir.Model, plan: QuantPlan, *, mode: NodeMode) -> None:
    """Rewrite the float model as the plan's factors say.

    Raises:
        ConfigError: The factors do not fit the weights.
    """
    names = g.Names(model.graph)
    for value, nodes in _find_readers(model, plan, mode).items():
        factors = plan.smoothing.get(value.name or "")
        if factors is None:
            continue
        item = _Input.of(value, nodes)
        if len(factors) != len(item.weight):
            raise ConfigError(
                "the plan does not fit the model",
                problems=(
                    f"plan: {len(factors)} smoothing factors for {len(item.weight)} columns of {item.value.name}",
                ),
            )
        upstream = item.upstream(factors) if mode is NodeMode.DYNAMIC else None
        if upstream is None:
            _divide(model.graph, item, factors, names)
        else:
            upstream.divide(model.graph, names)
            for value in upstream.values:
                value.name = smoothed_name(value.name or "")
        _multiply_weights(item, factors)


def _enter(plan: QuantPlan, item: _Input, chosen: Smoothing, mode: NodeMode) -> None:
    if chosen.alpha:
        plan.smoothing[chosen.tensor] = item.factors(chosen.alpha).astype(np.float32)
    if chosen.row_zero_point is not None:
        for node in item.readers:
            plan.quantize(node, mode, row_zero_point=chosen.row_zero_point)


def _find_readers(model: ir.Model, plan: QuantPlan, mode: NodeMode) -> dict[ir.Value, list[ir.Node]]:
    """Tensors that products of this mode read, in graph order; only those with matrices of their own as weights."""
    readers: dict[ir.Value, list[ir.Node]] = {}
    for node in model.graph:
        weight, value = weight_of(node), node.inputs[0] if node.inputs else None
        if node.op_type not in SMOOTHED[mode] or plan.mode(node) is not mode or weight is None or value is None:
            continue
        transposed = node.op_type == "Gemm" and g.int_attribute(node, "transA", 0)
        if len(weight.uses()) == 1 and _is_matrix(weight) and not transposed:
            readers.setdefault(value, []).append(node)
    return readers


def _is_matrix(weight: ir.Value) -> bool:
    shape = g.static_shape(weight) or ()
    return len(shape) == 2 and 0 not in shape


def _observe(
    model: ir.Model,
    inputs: Sequence[_Input],
    observers: Sequence[Sequence[_Input | _Steps]],
    feeds: Sequence[Feed],
    context: RunContext,
) -> None:
    """Pass the values of each tensor to its observers, sample by sample."""
    observed = model.clone()
    graph = observed.graph
    names = [item.value.name or "" for item in inputs]
    values = {v.name: v for v in (*graph.inputs, *(o for n in graph for o in n.outputs))}
    graph.outputs.clear()
    graph.outputs.extend(values[name] for name in names if not values[name].is_graph_input())
    remove_unread(graph)
    session = open_session(context.engine, observed) if graph.outputs else None

    def run(feed: Feed) -> Feed:
        return {**feed, **(session.run(feed) if session is not None else {})}

    with np.errstate(over="ignore", invalid="ignore"):  # calibration reports broken tensors by name
        for outputs in map_ordered(run, feeds, context.threads):
            for name, seen_by in zip(names, observers, strict=True):
                for observer in seen_by:
                    observer.see(outputs[name])


def _choose(item: _Input, by_alpha: dict[float, _Steps], *, dynamic: bool, rows: bool) -> Smoothing | None:
    """The cheapest remedy (none, factors, rows, both) within :data:`NOISE_LIMIT`, else the least noisy; ``None`` for none.

    Factors that cost nothing are taken wherever they help.
    """
    before = _noise(item, by_alpha[0.0], None)
    alphas = [alpha for alpha in by_alpha if alpha]
    is_free = dynamic and item.is_free
    if before <= NOISE_LIMIT and not is_free:
        return None
    row_zero_points = ROW_ZERO_POINTS if rows else ()
    by_row: list[tuple[float, int | None]] = [(0.0, zero_point) for zero_point in row_zero_points]
    factors: list[tuple[float, int | None]] = [(alpha, None) for alpha in alphas]
    both: list[tuple[float, int | None]] = [(alpha, zero_point) for alpha in alphas for zero_point in row_zero_points]
    best = Smoothing(item.value.name or "", 0.0, None, before, before)
    costly = [by_row + both] if is_free else [by_row, both]
    for candidates, worth in ((factors, 1.0 if is_free else WORTH), *((forms, WORTH) for forms in costly)):
        noises = [_noise(item, by_alpha[alpha], zero_point) for alpha, zero_point in candidates]
        least = int(np.argmin(noises)) if noises else -1
        if noises and noises[least] <= best.noise * worth:
            best = Smoothing(best.tensor, *candidates[least], before, noises[least])
        if best.noise <= ROWS_FROM:
            break
    return best if best.noise < before else None


def _noise(item: _Input, steps: _Steps, zero_point: int | None) -> float:
    """Variance of the products' rounding errors (of activations and weights) over the variance of the products."""
    weight = steps.factors[:, None] * item.weight
    activation = steps.squared(zero_point) / 12 * float(np.square(weight).sum(axis=0).mean())
    weight_step = np.abs(weight).max(axis=0) / WEIGHT_STEPS
    energy = float((item.energy / np.square(steps.factors)).sum()) / item.rows
    return (activation + float(np.square(weight_step).mean()) / 12 * energy) / item.signal


def _divide(graph: ir.Graph, item: _Input, factors: NDArray[np.float32], names: g.Names) -> None:
    """Divide the tensor by the factors for its products."""
    value = item.value
    inverse = g.add_initializer(graph, f"{value.name}_smoothing", np.float32(1.0) / factors, names=names)
    node = ir.node("Mul", [value, inverse], name=f"{value.name}_smooth")
    node.outputs[0].name = names.unique(smoothed_name(value.name or ""))
    node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.FLOAT, value.shape
    graph.insert_before(item.readers[0], node)
    for reader in item.readers:
        reader.replace_input_with(0, node.outputs[0])


def _multiply_weights(item: _Input, factors: NDArray[np.float32]) -> None:
    for reader in item.readers:
        weight = weight_of(reader)
        assert weight is not None
        scaled = _matrix(reader) * factors[:, None]
        stored = np.ascontiguousarray(scaled.T if _is_transposed(reader) else scaled)
        weight.const_value = ir.Tensor(stored, name=weight.name)


def _matrix(node: ir.Node) -> NDArray[np.float32]:
    """The weight as ``(columns of the input, outputs)``."""
    array = g.constant(weight_of(node))
    assert array is not None
    matrix = array.astype(np.float32, copy=False)
    return matrix.T if _is_transposed(node) else matrix


def _is_transposed(node: ir.Node) -> bool:
    return node.op_type == "Gemm" and bool(g.int_attribute(node, "transB", 0))
