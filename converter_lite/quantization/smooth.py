"""Smoothing: outliers in the activations of matrix products move into the weights, get scales of their own, or stay float.

Three remedies for a tensor that products with constant weights read:

1. Smoothing factors per channel: ``x @ W = (x / s) @ (s * W)`` with ``s = max|x|^alpha / max|W|^(1 - alpha)``, one Mul on the
   tensor.
   It helps against channels that are large in every row (behind LayerNormalization). In full quantization convolutions get
   them, too, where equalization cannot divide the tensor (:mod:`converter_lite.quantization.filters`).
2. A scale per row, found at run time: helps against single rows that are large (behind Gelu, where a few tokens are up to ten
   times as large as the others). Dynamic quantization only.
3. A few columns apart, whose products stay float (:mod:`converter_lite.quantization.float_columns`): helps against a few that are
   far larger than all others, be it in some rows (behind Gelu). Full quantization only.

Factors cost nothing where the constants that the tensor is computed from can be divided instead
(:mod:`converter_lite.quantization.upstream`; products in dynamic quantization only, since saved plans of other kinds name
tensors in between). Otherwise the remedies cost time, so each tensor gets the cheapest one whose estimated noise is small
(:mod:`converter_lite.quantization.remedies`). Without data the parameters of a normalization show which channels are large.

Source: Xiao et al., SmoothQuant, ICML 2023, section 4 (the factors); Yao et al., ZeroQuant, NeurIPS 2022 (scales per row);
Dettmers et al., LLM.int8(), NeurIPS 2022, section 3.2 (columns apart; there they are found at run time).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import remove_unread
from converter_lite.errors import ConfigError
from converter_lite.execution.ordered import map_ordered
from converter_lite.log import Log
from converter_lite.quantization.expected_input import expected_rows
from converter_lite.quantization.float_columns import compute_columns_in_float
from converter_lite.quantization.plan import NodeMode, QuantPlan, smoothed_name
from converter_lite.quantization.remedies import (
    ALPHAS,
    OUTPUT_ROWS,
    DynamicNoise,
    Products,
    Remedies,
    Remedy,
    RunTimeSteps,
    Smoothing,
    StaticNoise,
    choose,
    is_transposed,
    matrix,
    noise_of_products,
)
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.runtime.serializing import open_session
from converter_lite.targets.operands import weight_of

SMOOTHED = {NodeMode.DYNAMIC: ("MatMul", "Gemm"), NodeMode.INTEGER: ("MatMul",)}
"""Operators whose inputs are smoothed; in full quantization equalization does the same for the others without a Mul."""

EXPECTED_NOISE_LIMIT = 2e-4
"""The same for expected rows, without data, which lack the outliers of real ones. On MiniLM it smooths the tensors behind
attention, cosine 0.9865 -> 0.9894 (64 sequences); 1e-5, which smooths all, gives 0.9891."""

SAMPLES = 16
"""Samples for dynamic quantization."""

TENSORS_AT_ONCE, VALUES_AT_ONCE = 32, 1 << 24
"""Tensors observed in one run at least, and their values in one sample from which no more are added: this bounds the memory. Each
run takes the whole network, so small tensors are observed together."""


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
    inputs = [Products.of(value, nodes) for value, nodes in _find_readers(model, plan, mode).items()]
    if not inputs or not feeds:
        return []
    done = []
    with log.stage("smoothing"):
        parts = list(_parts(inputs))
        for part in log.track(parts, "smoothing", len(parts)):
            _observe(model, part, [[item] for item in part], feeds, context)
            finite = [item for item in part if np.all(np.isfinite(item.peak)) and item.peak.any()]
            noises: Sequence[Callable[[Remedy], float]] = [StaticNoise(item) for item in finite]
            if mode is NodeMode.DYNAMIC:
                noises = _dynamic_noises(model, finite, feeds, remedies.alphas, context)
            for item, noise in zip(finite, noises, strict=True):
                possible = replace(remedies, apart=remedies.apart and not _is_on_grid(item.value, plan))
                chosen = choose(item, noise, possible, is_free=mode is NodeMode.DYNAMIC and item.is_free)
                if chosen is None:
                    continue
                log.debug(f"  {chosen}")
                done.append(chosen)
                _enter(plan, item, chosen, mode)
        apply_smoothing(model, plan, mode=mode)
    return done


def _is_on_grid(value: ir.Value, plan: QuantPlan) -> bool:
    """Whether a node of integers makes a tensor."""
    producer = value.producer()
    return producer is not None and plan.mode(producer) is NodeMode.INTEGER


def _parts(inputs: Sequence[Products]) -> Iterator[list[Products]]:
    """Tensors that are observed in one run."""
    part: list[Products] = []
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
        item = Products.of(value, nodes)
        if rows.shape[1] != len(item.weight):
            continue
        item.see(rows)
        noises = {}
        for alpha in (0.0, *ALPHAS):
            steps = RunTimeSteps(item.factors(alpha))
            for sample in np.split(rows, SAMPLES):
                steps.see(sample)
            noises[alpha] = noise_of_products(item, steps.factors, steps.squared(None)) / item.signal
        best = min(noises, key=lambda alpha: noises[alpha])
        if best and noises[0.0] > (0.0 if item.is_free else EXPECTED_NOISE_LIMIT):
            done.append(Smoothing(value.name or "", best, None, (), noises[0.0], noises[best]))
            log.debug(f"  {done[-1]}")
            _enter(plan, item, done[-1], NodeMode.DYNAMIC)
    apply_smoothing(model, plan, mode=NodeMode.DYNAMIC)
    return done


def _dynamic_noises(
    model: ir.Model, inputs: Sequence[Products], feeds: Sequence[Feed], alphas: Sequence[float], context: RunContext
) -> list[DynamicNoise]:
    found = [DynamicNoise(item, {a: RunTimeSteps(item.factors(a)) for a in (0.0, *alphas)}) for item in inputs]
    _observe(model, inputs, [list(noise.by_alpha.values()) for noise in found], feeds, context)
    return found


def apply_smoothing(model: ir.Model, plan: QuantPlan, *, mode: NodeMode) -> None:
    """Rewrite the float model as the plan's factors and columns apart say.

    Raises:
        ConfigError: They do not fit the weights.
    """
    names = g.Names(model.graph)
    for value, nodes in _find_readers(model, plan, mode).items():
        name = value.name or ""
        if name not in plan.smoothing and name not in plan.apart:
            continue
        item, columns = Products.of(value, nodes), list(plan.apart.get(name, ()))
        factors = plan.smoothing.get(name, np.ones(len(item.weight), np.float32))
        problems = []
        if len(factors) != len(item.weight):
            problems.append(f"plan: {len(factors)} smoothing factors for {len(item.weight)} columns of {name}")
        if any(column >= len(item.weight) for column in columns):
            problems.append(f"plan: column {max(columns)} of {name} apart, which has {len(item.weight)}")
        if problems:
            raise ConfigError("the plan does not fit the model", problems=tuple(problems))
        upstream = None if mode is not NodeMode.DYNAMIC or columns else item.upstream(factors)
        if columns:
            compute_columns_in_float(
                model.graph, value, [(node, matrix(node)[columns]) for node in nodes], columns, names
            )
        if upstream is None:
            _divide(model.graph, item, factors, columns, names)
        else:
            upstream.divide(model.graph, names)
            for value in upstream.values:
                value.name = smoothed_name(value.name or "")
        _multiply_weights(item, factors, columns)


def _enter(plan: QuantPlan, item: Products, chosen: Smoothing, mode: NodeMode) -> None:
    if chosen.alpha:
        plan.smoothing[chosen.tensor] = item.factors(chosen.alpha).astype(np.float32)
    if chosen.apart:
        plan.apart[chosen.tensor] = chosen.apart
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
        if g.single_consumer(weight) is not None and _is_matrix(weight) and not transposed:
            readers.setdefault(value, []).append(node)
    return readers


def _is_matrix(weight: ir.Value) -> bool:
    shape = g.static_shape(weight) or ()
    return len(shape) == 2 and 0 not in shape


def _observe(
    model: ir.Model,
    inputs: Sequence[Products],
    observers: Sequence[Sequence[Products | RunTimeSteps]],
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
                for observer in seen_by if outputs[name].size else ():
                    observer.see(outputs[name])


def _divide(
    graph: ir.Graph, item: Products, factors: NDArray[np.float32], apart: Sequence[int], names: g.Names
) -> None:
    """Divide the tensor by the factors for its products; columns apart become zero."""
    value, shares = item.value, np.float32(1.0) / factors
    shares[list(apart)] = 0.0
    inverse = g.add_initializer(graph, f"{value.name}_smoothing", shares, names=names)
    node = ir.node("Mul", [value, inverse], name=f"{value.name}_smooth")
    node.outputs[0].name = names.unique(smoothed_name(value.name or ""))
    node.outputs[0].dtype, node.outputs[0].shape = ir.DataType.FLOAT, value.shape
    graph.insert_before(item.readers[0], node)
    for reader in item.readers:
        reader.replace_input_with(0, node.outputs[0])


def _multiply_weights(item: Products, factors: NDArray[np.float32], apart: Sequence[int]) -> None:
    for reader in item.readers:
        weight = weight_of(reader)
        assert weight is not None
        scaled = matrix(reader) * factors[:, None]
        scaled[list(apart)] = 0.0
        stored = np.ascontiguousarray(scaled.T if is_transposed(reader) else scaled)
        weight.const_value = ir.Tensor(stored, name=weight.name)
