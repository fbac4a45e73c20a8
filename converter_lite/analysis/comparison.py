"""Comparing a float and a quantized model layer by layer, on the same samples.

Accumulated errors come from running both models as a whole; local ones from running each layer of the quantized model on its
inputs in the float model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.analysis.alignment import BY_NAME, Alignment, Layer, align
from converter_lite.analysis.channel_map import ChannelMap, ChannelMapSums
from converter_lite.analysis.isolation import ALONE, Isolated, Scaled, fed_tensors
from converter_lite.analysis.tensor_errors import TensorError, TensorErrorSums
from converter_lite.pipeline.request import DEFAULT_MIN_COSINE
from converter_lite.quantization.detections import detection_thresholds
from converter_lite.quantization.equalize import HOMOGENEOUS
from converter_lite.reports.observation import Pair, grouped, observable, shapes
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Engine, Feed, Session
from converter_lite.runtime.serializing import open_session
from converter_lite.targets.operands import FLOAT_TYPES

HELD_SAMPLES = 16
"""Samples from which the order of channels and factors of an equalization are found."""

KEEPING = frozenset({*HOMOGENEOUS, "Clip", "Flatten", "Identity"})
"""Operators that keep the order of channels and the factors of a tensor."""

DEFAULT_BREAK = DEFAULT_MIN_COSINE
"""Mean cosine below which a layer counts as broken: the quality gate for outputs. Layers of networks that keep their
accuracy in 8 bits stay above 0.98 (MobileNetV1, ResNet-8, all formats)."""


@dataclass(frozen=True, slots=True)
class LayerError:
    """One layer of the comparison.

    Attributes:
        layer: Tensor, nodes, and where it was found.
        order: Position in the float graph, from 1 on.
        shape: Of the tensor, for the first sample.
        accumulated: Errors with everything before the layer quantized too.
        local: Errors of the layer alone, ``None`` if it cannot be isolated.
        scaled: Grid, order of channels and equalization factors.
        is_output: Whether the tensor is an output of the model.
    """

    layer: Layer
    order: int
    shape: tuple[int, ...]
    accumulated: TensorError
    local: TensorError | None
    scaled: Scaled
    is_output: bool

    @property
    def badness(self) -> float:
        """Noise over signal of the layer itself, in dB: the key of the order "worst first"."""
        error = self.accumulated if self.local is None else self.local
        return math.inf if math.isnan(error.cosine) else -error.sqnr


@dataclass(slots=True)
class Comparison:
    """The result.

    Attributes:
        layers: In float graph order.
        alignment: What was matched and what not.
        samples: Number of samples.
        missed: Outputs of the float model that hold numbers and have no counterpart of their shape.
        threshold: Mean cosine below which a layer counts as broken.
        isolated: Its layers on their own, for those that are extracted.
    """

    layers: list[LayerError]
    alignment: Alignment
    samples: int
    missed: tuple[str, ...] = ()
    threshold: float = DEFAULT_BREAK
    isolated: Isolated | None = field(default=None, repr=False)

    def is_broken(self, error: LayerError) -> bool:
        """Whether the accumulated cosine is below the threshold, or values are not finite."""
        return not error.accumulated.cosine >= self.threshold

    @property
    def first_broken(self) -> LayerError | None:
        """The first broken layer in graph order."""
        return next((error for error in self.layers if self.is_broken(error)), None)

    @property
    def worst_first(self) -> list[LayerError]:
        """Layers by their own error, worst first; ties in graph order."""
        return sorted(self.layers, key=lambda error: -error.badness)

    def count(self, matched: str) -> int:
        """Layers that were matched in this way."""
        return sum(1 for error in self.layers if error.layer.matched == matched)

    @property
    def equalized(self) -> int:
        """Layers that are compared behind a factor per channel."""
        return sum(1 for error in self.layers if error.scaled.is_equalized)

    @property
    def reordered(self) -> int:
        """Layers whose channels have another order in the quantized graph."""
        return sum(1 for error in self.layers if error.scaled.is_reordered)

    @property
    def by_name(self) -> int:
        """Layers that were matched by name."""
        return self.count(BY_NAME)


def compare_models(
    reference: ir.Model,
    quantized: ir.Model,
    feeds: Sequence[Feed],
    *,
    optimized: ir.Model | None = None,
    threshold: float = DEFAULT_BREAK,
    context: RunContext,
) -> Comparison:
    """Compare two graphs with the same inputs.

    Args:
        reference: Float graph with names.
        quantized: Graph with integers; its tensors are found by name or position.
        feeds: Samples, one at least.
        optimized: See :func:`~converter_lite.analysis.alignment.align`; ``None`` where nothing can be folded.
        threshold: See :class:`Comparison`.
        context: Runs both.

    Raises:
        ModelError: The runtime refuses a model or a sample.
    """
    engine, log = context.engine, context.log
    with ThreadPoolExecutor(max(context.threads, 1)) as pool:
        sizes = shapes(reference, layer_results(reference), feeds[0], engine=engine)
        given = shapes(quantized, results(quantized), feeds[0], engine=engine)
        structure = reference if optimized is None else optimized
        alignment = align(reference, quantized, optimized=structure, shapes=sizes, quantized_shapes=given)
        isolated = Isolated(quantized, alignment.layers)
        groups = grouped([_pair(layer) for layer in alignment.layers], sizes)
        runs = [_Group(reference, quantized, isolated, pairs, engine=engine) for pairs in groups]
        first = feeds[:HELD_SAMPLES]
        work = [(run, feed) for run in runs for feed in first]
        for index, (run, feed) in enumerate(log.track(work, "matching channels", len(work)), 1):
            run.look_at(feed, pool)
            if index % len(first) == 0:
                run.settle()
        scaled = _scaled(reference, alignment, runs, sizes)
        for feed in log.track(feeds, "comparing", len(feeds)):
            for run in runs:
                run.count_errors(feed, scaled, pool)
    errors = _errors(reference, alignment, runs, scaled, sizes)
    missed = missed_outputs(reference, {error.layer.tensor for error in errors})
    return Comparison(errors, alignment, len(feeds), missed, threshold, isolated)


def missed_outputs(reference: ir.Model, compared: Collection[str]) -> tuple[str, ...]:
    """Outputs that nodes compute, that hold numbers, and that are not among these."""
    outputs = (value for value in reference.graph.outputs if value.producer() is not None and g.holds_numbers(value))
    return tuple(value.name for value in outputs if value.name and value.name not in compared)


def results(model: ir.Model) -> list[str]:
    """Names of all numeric results of a graph's nodes."""
    values = (output for node in model.graph for output in node.outputs)
    return [value.name for value in values if value.name and g.holds_numbers(value)]


def layer_results(model: ir.Model) -> list[str]:
    """Those that hold real numbers, and the outputs of the graph: sizes and indices are not layers."""
    values = {o.name: o for node in model.graph for o in node.outputs}
    known = (*FLOAT_TYPES, None)
    return [name for name in results(model) if values[name].dtype in known or values[name].is_graph_output()]


def _pair(layer: Layer) -> Pair:
    return Pair(layer.tensor, layer.tap.value, layer.tap.params)


class _Group:
    """Layers whose tensors are held at the same time."""

    def __init__(
        self,
        reference: ir.Model,
        quantized: ir.Model,
        isolated: Isolated,
        pairs: list[Pair],
        *,
        engine: Engine,
    ) -> None:
        self.pairs = pairs
        alone = [pair.origin for pair in pairs if pair.origin in isolated.computed]
        cut = isolated.graph_of(alone) if alone else None
        self.fed = fed_tensors(cut) if cut is not None else {}
        inputs = {value.name for value in reference.graph.inputs}
        wanted = [*(pair.origin for pair in pairs), *(t for t in self.fed.values() if t not in inputs)]
        self.expected = open_session(engine, observable(reference, wanted))
        self.given = open_session(engine, observable(quantized, (p.written for p in pairs)))
        self.alone: Session | None = None if cut is None else open_session(engine, cut)
        self.held: dict[str, ChannelMap | None] = {}
        self._sums = {pair.origin: ChannelMapSums() for pair in pairs}
        thresholds = detection_thresholds(reference)
        self.accumulated = {pair.origin: TensorErrorSums(thresholds.get(pair.origin, 0.0)) for pair in pairs}
        self.local = {pair.origin: TensorErrorSums(thresholds.get(pair.origin, 0.0)) for pair in pairs}

    def look_at(self, feed: Feed, pool: ThreadPoolExecutor) -> None:
        """Use a sample to find the order of channels and the factors of an equalization."""
        expected, given = self._run(feed, pool)
        for pair in self.pairs:
            values, origin = given[pair.written], expected[pair.origin]
            real = values if pair.params is None else pair.params.dequantize(values)
            self._sums[pair.origin].add(origin, _like(real, origin))

    def settle(self) -> None:
        """Decide how the tensors are held, from the samples so far."""
        self.held = {name: sums.result() for name, sums in self._sums.items()}
        self._sums = {}

    def count_errors(self, feed: Feed, scaled: Mapping[str, Scaled], pool: ThreadPoolExecutor) -> None:
        """Run a sample through both models, and through every layer alone."""
        expected, given = self._run(feed, pool)
        alone: dict[str, NDArray[Any]] = {}
        if self.alone is not None:
            fed = {
                name: scaled[tensor].to_quantized(expected[tensor]) if tensor in scaled else feed[tensor]
                for name, tensor in self.fed.items()
            }
            alone = self.alone.run(fed)

        def count(pair: Pair) -> None:
            name, origin = pair.origin, expected[pair.origin]
            self.accumulated[name].add(origin, scaled[name].to_float(_like(given[pair.written], origin)))
            if ALONE.format(name) in alone:
                self.local[name].add(origin, scaled[name].to_float(alone[ALONE.format(name)]))

        list(pool.map(count, self.pairs))

    def _run(self, feed: Feed, pool: ThreadPoolExecutor) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
        run = pool.submit(self.given.run, feed)
        return self.expected.run(feed), run.result()


def _like(values: NDArray[Any], origin: NDArray[Any]) -> NDArray[Any]:
    """The values in the shape of the float ones, from which they may differ in axes of 1."""
    return values.reshape(origin.shape) if values.size == origin.size else values


def _scaled(
    reference: ir.Model, alignment: Alignment, runs: Sequence[_Group], sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, Scaled]:
    """Grid, order of channels and factors of every layer.

    Layers without weights keep the order and the factors of their inputs. Outputs of the model are taken as they are: nothing
    behind them could undo a factor.
    """
    seen = {name: held for run in runs for name, held in run.held.items()}
    outputs = {value.name for value in reference.graph.outputs}
    nodes = {node.name: node for node in reference.graph}
    found: dict[str, ChannelMap | None] = {}
    for layer in alignment.layers:
        first = nodes[layer.nodes[0]]
        source = first.inputs[0].name if first.inputs and first.inputs[0] is not None else None
        held = found[source] if layer.op_type in KEEPING and source in found else seen[layer.tensor]
        if layer.tensor in outputs or (held is not None and not held.fits(sizes[layer.tensor])):
            held = None
        found[layer.tensor] = held
    return {layer.tensor: Scaled(layer.tap, found[layer.tensor]) for layer in alignment.layers}


def _errors(
    reference: ir.Model,
    alignment: Alignment,
    runs: Sequence[_Group],
    scaled: Mapping[str, Scaled],
    sizes: Mapping[str, tuple[int, ...]],
) -> list[LayerError]:
    accumulated = {name: sums.result() for run in runs for name, sums in run.accumulated.items()}
    local = {name: sums.result() for run in runs for name, sums in run.local.items()}
    outputs = {value.name for value in reference.graph.outputs}
    found = []
    for order, layer in enumerate(alignment.layers, 1):
        name, error = layer.tensor, accumulated[layer.tensor]
        assert error is not None
        found.append(LayerError(layer, order, sizes[name], error, local[name], scaled[name], is_output=name in outputs))
    return found
