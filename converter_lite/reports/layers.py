"""Measuring a quantized model layer by layer.

Three graphs run on the same samples: the float one, the quantized one (accumulated errors: everything before a layer is
quantized too), and the quantized one cut into its layers (local errors: see :mod:`converter_lite.reports.layers_alone`). One
sample and one group of layers are held at a time, so that memory depends neither on the number of samples nor on that of layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.bodies import inner_nodes
from converter_lite.quantization.fallback import candidates
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.quantization.qdq.build import qdq_model
from converter_lite.reports.figures import Grid, LayerFigures, ModelFigures, RankedBy, TensorFigures
from converter_lite.reports.layers_alone import isolated
from converter_lite.reports.observation import Pair, dequantized, grouped, observable, shapes
from converter_lite.reports.spread import Spread, count_errors, errors_of
from converter_lite.reports.tensor_uses import TensorUse, tensor_uses
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Engine, Feed
from converter_lite.runtime.serializing import open_session

MEASURED_SAMPLES = 16
"""Samples that errors are measured on; with 48 the SQNR of a layer differs by 0.4 dB on average (sample network, 16 layers)."""


def describe(quantized: QuantizedModel, original: ir.Model) -> ModelFigures:
    """Everything that can be said without running the model: decisions, reasons, sizes, grids.

    Args:
        quantized: Float graph and plan.
        original: The float graph as it was before quantization, with the same node names.
    """
    figures = _described(quantized, original, tensor_uses(quantized, None))
    _rank(figures, quantized)
    return figures


def measure(
    quantized: QuantizedModel,
    original: ir.Model,
    samples: Sequence[Feed],
    *,
    is_real: bool,
    context: RunContext,
) -> ModelFigures:
    """:func:`describe` with errors, extremes and histograms over samples.

    Args:
        quantized: Float graph and plan; not changed.
        original: The float graph as it was before quantization, with the same node names.
        samples: Feeds by input name.
        is_real: Whether they are calibration samples.
        context: Runs the graphs.

    Raises:
        ModelError: The runtime refuses a graph or a sample.
    """
    written = qdq_model(QuantizedModel(quantized.model.clone(), quantized.plan, quantized.q_weights))
    uses = tensor_uses(quantized, written)
    figures = _described(quantized, original, uses)
    shown = {use.tensor: Pair(use.tensor, use.written, use.params) for use in reversed(uses) if not use.is_weight}
    reference = quantized.reference if quantized.reference is not None else quantized.model
    with ThreadPoolExecutor(max(context.threads, 1)) as pool:
        _enter_weights(figures, quantized, pool)
        if samples and shown:
            sizes = shapes(reference, shown, samples[0], engine=context.engine)
            groups = [
                _Group(quantized, reference, written, part, engine=context.engine)
                for part in grouped(shown.values(), sizes)
            ]
            for feed in context.log.track(samples, "measuring layers", len(samples)):
                for group in groups:
                    group.add(feed, pool)
            _enter(figures, groups, sizes)
    figures.samples, figures.is_real = len(samples), is_real
    _rank(figures, quantized)
    return figures


# -- what needs no run ------------------------------------------------------------------------------------------------


def _described(quantized: QuantizedModel, original: ir.Model, uses: Iterable[TensorUse]) -> ModelFigures:
    figures = ModelFigures(quantized.plan.target)
    by_node: dict[str, list[TensorUse]] = {}
    for use in uses:
        by_node.setdefault(use.node, []).append(use)
        if use.tensor not in figures.tensors:
            figures.tensors[use.tensor] = _tensor(quantized.model, use)
    before = _bytes_before(original)
    counted: set[str] = set()
    for node in quantized.model.graph:
        decision = quantized.plan.nodes.get(node.name or "")
        own = by_node.get(node.name or "", [])
        figures.layers.append(
            LayerFigures(
                node.name or "",
                node.op_type,
                NodeMode.FLOAT.value if decision is None else decision.mode.value,
                "" if decision is None else decision.reason,
                before.get(node.name or "", 0),
                _bytes_after(node, quantized, counted),
                _bits(node, quantized),
                inputs=tuple(use.tensor for use in own if not use.is_output),
                outputs=tuple(use.tensor for use in own if use.is_output),
            )
        )
    return figures


def _tensor(model: ir.Model, use: TensorUse) -> TensorFigures:
    grid = None if use.params is None else _grid(use.params)
    value = model.graph.initializers.get(use.tensor) if use.is_weight else None
    shape = g.static_shape(value) or () if value is not None else ()
    return TensorFigures(use.tensor, use.is_weight, shape, grid)


def _grid(params: QuantParams) -> Grid:
    low, high = params.real_range
    scale = params.scale
    zero_point = int(params.zero_point.reshape(-1)[0])
    extremes = float(np.min(low)), float(np.max(high))
    return Grid(params.spec.bits, *extremes, scale.size, float(scale.min()), float(scale.max()), zero_point)


def _constants(node: ir.Node) -> list[ir.Value]:
    return [value for value in node.inputs if value is not None and value.is_initializer() and g.is_constant(value)]


def _all_constants(node: ir.Node) -> list[ir.Value]:
    """Constants of a node, and those of the nodes that it runs."""
    return [value for each in (node, *inner_nodes([node])) for value in _constants(each)]


def _bytes_before(original: ir.Model) -> dict[str, int]:
    found: dict[str, int] = {}
    counted: set[str] = set()
    for node in original.graph:
        total = 0
        for value in _all_constants(node):
            if value.name and value.name not in counted and value.const_value is not None:
                counted.add(value.name)
                total += value.const_value.nbytes
        found[node.name or ""] = total
    return found


def _bytes_after(node: ir.Node, quantized: QuantizedModel, counted: set[str]) -> int:
    total = 0
    for value in _all_constants(node):
        if not value.name or value.name in counted or value.const_value is None:
            continue
        counted.add(value.name)
        params = quantized.plan.weights.get(value.name)
        tensor = value.const_value
        total += tensor.nbytes if params is None else math.ceil(prod(tensor.shape.numpy()) * params.spec.bits / 8)
    return total


def _bits(node: ir.Node, quantized: QuantizedModel) -> int | None:
    """Width of the weight; a bias (32 bits) comes after it."""
    planned = (quantized.plan.weights.get(value.name or "") for value in _constants(node))
    return min((params.spec.bits for params in planned if params is not None), default=None)


def _weight_spread(quantized: QuantizedModel, name: str) -> Spread:
    tensor = quantized.model.graph.initializers[name].const_value
    assert tensor is not None
    params = quantized.plan.weights[name]
    spread = Spread()
    spread.add(tensor.numpy().astype(np.float32, copy=False), params.dequantize(quantized.integers(name)), params)
    return spread


# -- runs -------------------------------------------------------------------------------------------------------------


class _Group:
    """Tensors whose values are held at the same time, in all three graphs."""

    def __init__(
        self,
        quantized: QuantizedModel,
        reference: ir.Model,
        written: ir.Model,
        pairs: list[Pair],
        *,
        engine: Engine,
    ) -> None:
        self.pairs = pairs
        self.spreads = {pair.origin: Spread() for pair in pairs}
        produced = {output.name for node in written.graph for output in node.outputs}
        inputs = {value.name for value in quantized.model.graph.inputs}
        self.computed = [pair for pair in pairs if pair.written in produced and pair.origin not in inputs]
        alone, self.supplies = isolated(quantized, written, (pair.written for pair in self.computed))
        wanted = [*(pair.origin for pair in pairs), *(supply.origin for supply in self.supplies)]
        self.expected = open_session(engine, observable(reference, wanted))
        given = observable(written, (pair.written for pair in pairs))
        self.given = open_session(engine, given)
        self.alone = open_session(engine, alone) if self.computed else None

    def add(self, feed: Feed, pool: ThreadPoolExecutor) -> None:
        """Run one sample through the graphs and count its values."""
        run = pool.submit(self.given.run, feed)
        expected = self.expected.run(feed)
        given = run.result()
        fed = {supply.name: supply.values(expected[supply.origin]) for supply in self.supplies}
        alone = self.alone.run(fed) if self.alone is not None else {}
        list(
            pool.map(
                lambda pair: self.count_errors(pair, expected[pair.origin], given[pair.written], alone), self.pairs
            )
        )

    def count_errors(
        self, pair: Pair, origin: NDArray[Any], given: NDArray[Any], alone: Mapping[str, NDArray[Any]]
    ) -> None:
        spread = self.spreads[pair.origin]
        spread.add(origin, dequantized(pair, given), pair.params)
        if pair.written in alone:
            count_errors(spread.local, origin, dequantized(pair, alone[pair.written]))


def _enter_weights(figures: ModelFigures, quantized: QuantizedModel, pool: ThreadPoolExecutor) -> None:
    names = [name for name, tensor in figures.tensors.items() if tensor.is_weight]
    for name, spread in zip(names, pool.map(lambda name: _weight_spread(quantized, name), names), strict=True):
        figures.tensors[name] = spread.figures(figures.tensors[name])


def _enter(figures: ModelFigures, groups: Iterable[_Group], sizes: Mapping[str, tuple[int, ...]]) -> None:
    """Enter what was counted into tensors and layers. A layer with several outputs is as good as the worst of them."""
    spreads = {name: spread for group in groups for name, spread in group.spreads.items()}
    for name, spread in spreads.items():
        figures.tensors[name] = replace(spread.figures(figures.tensors[name]), shape=sizes[name])
    for index, layer in enumerate(figures.layers):
        own = [spreads[name] for name in layer.outputs if name in spreads]
        local = [found for spread in own if (found := errors_of(spread.local)) is not None]
        accumulated = [found for spread in own if (found := errors_of(spread.accumulated)) is not None]
        figures.layers[index] = replace(
            layer,
            local=min(local, key=lambda found: found.sqnr, default=None),
            accumulated=min(accumulated, key=lambda found: found.sqnr, default=None),
        )


def _rank(figures: ModelFigures, quantized: QuantizedModel) -> None:
    """Shares of the layers: as measured for a fallback to float if there was one, else from local errors.

    Operators that only move values have none: their error is that of the grid of their input.
    """
    shares = dict(quantized.sensitivity)
    ranked_by = RankedBy.FALLBACK
    if not shares:
        names = set(candidates(quantized))
        measured = [(layer.name, layer.local) for layer in figures.layers if layer.name in names]
        noise = {name: 10 ** (-errors.sqnr / 10) for name, errors in measured if errors is not None}
        total = sum(noise.values())
        shares = {name: amount / total for name, amount in noise.items()} if total else {}
        ranked_by = RankedBy.LOCAL
    if shares:
        figures.ranked_by = ranked_by
        figures.layers = [replace(layer, share=shares.get(layer.name)) for layer in figures.layers]
