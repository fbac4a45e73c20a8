"""Probing a network with its inputs: statistics of its layers, compared with traces that training left in it.

Three signals, as far as the network has them:

1. **BatchNormalization.** A folded one gives the mean and the spread per channel that its layer had in training. The distance of
   the samples from them is the strongest signal: it needs no labels and no confident outputs.
2. **The first bias**, where there is no BatchNormalization: in a trained layer it is about as large as the spread of what it is
   added to. If they differ by a factor of ten or more, the inputs have the wrong range.
3. **Answers of inner layers and margins of classes**, where there is no BatchNormalization: filters respond most to what they
   were trained on, and the recognized class stands out most. Compared between two variants of the same pictures, sample by
   sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import mean_node, pooled, remove_unread
from converter_lite.execution.ordered import map_ordered
from converter_lite.quantization.cost import multiplications
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed, Session
from converter_lite.runtime.serializing import open_session

Vector = NDArray[np.float64]

NORMED_LAYERS = 12
"""Layers with a known distribution that are examined: the first ones depend on the input most directly and cost least."""

DEAD = 0.05
"""Channels with a spread below this share of the median are practically constant, and are ignored."""

LARGEST_TERM = 4.0
"""Bound of one channel's distance: a few outliers should not decide."""

INNER = (0.15, 0.9)
"""Layers, as shares of the depth, whose responses are compared: the first ones see edges, which have no colour."""

LEAST_PROBABILITY = 1e-38
"""Of a class; what is smaller has no logarithm in float32."""


@dataclass(frozen=True, slots=True)
class TrainingStatistics:
    """A layer's distribution in training: float64 ``(channels,)`` each."""

    mean: Vector
    spread: Vector


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the network for some samples.

    Attributes:
        means, squares: Per layer float64 ``(samples, channels)``: mean and mean square over positions.
        responses: Responses, float64 ``(layers, samples)``: mean of the positive part of inner layers.
        margins: Float64 ``(samples,)``: by how much the recognized class stands out, 0 if no output has classes.
    """

    means: list[Vector]
    squares: list[Vector]
    responses: Vector
    margins: Vector

    def first(self, count: int) -> Statistics:
        """The same of the first samples."""
        means, squares = [rows[:count] for rows in self.means], [rows[:count] for rows in self.squares]
        return Statistics(means, squares, self.responses[:, :count], self.margins[:count])

    def then(self, other: Statistics) -> Statistics:
        """The same of these samples and others behind them."""
        pairs = zip((*self.means, *self.squares), (*other.means, *other.squares), strict=True)
        rows = [np.concatenate(pair) for pair in pairs]
        responses = np.concatenate([self.responses, other.responses], axis=1)
        layers = len(self.means)
        return Statistics(rows[:layers], rows[layers:], responses, np.concatenate([self.margins, other.margins]))

    def preferences(self, other: Statistics) -> Vector:
        """Signals, positive where the network prefers the other variant of a sample: float64 ``(2, samples)``."""
        mine, theirs = self.responses, other.responses
        alive = np.all((mine > 0) & (theirs > 0), axis=1)
        responses = np.log(theirs[alive] / mine[alive]).sum(axis=0)
        return np.stack([responses, other.margins - self.margins])


class Probe:
    """A float network with its statistics as outputs.

    Args:
        model: Optimized float graph; not changed.
        context: Runs it.
        first_only: Look at the first layer only.

    Attributes:
        known: Distributions of the observed layers in training; empty where there is no BatchNormalization.
        bias: Absolute biases of the first layer, ``None`` without.
        work: Multiplications per sample.
        whole: Multiplications of the whole model per sample.
        is_observed: Whether there is a layer to examine.
    """

    def __init__(self, model: ir.Model, context: RunContext, *, first_only: bool = False) -> None:
        layers = [node for node in model.graph if node.op_type in ("Conv", "Gemm", "MatMul") and node.outputs[0].name]
        if first_only:
            layers = layers[:1]
        normed = [node for node in layers if "batchnorm" in node.outputs[0].meta][:NORMED_LAYERS]
        self.known = [_known(node) for node in normed]
        self.bias = _first_bias(layers)
        low, high = (int(share * len(layers)) for share in INNER)
        inner = [] if normed or first_only else layers[low : max(high, low + 1)]
        observed = normed or layers[:1]
        graph, self._outputs = _observed(model, observed, inner)
        self._count, self._inner, self._threads = len(observed), len(inner), context.threads
        self.work = sum(map(multiplications, graph.graph))
        self.whole = sum(map(multiplications, model.graph))
        self.is_observed = bool(observed)
        self._graph, self._engine = graph, context.engine
        self._session: Session | None = None

    def __call__(self, feeds: Sequence[Feed]) -> Statistics:
        """Statistics of these samples.

        Raises:
            ModelError: The runtime refuses a sample.
        """
        if self._session is None:  # a check of a large network may have no room for a single run
            self._session = open_session(self._engine, self._graph)
        means: list[list[Vector]] = [[] for _ in range(self._count)]
        squares: list[list[Vector]] = [[] for _ in range(self._count)]
        responses: list[list[float]] = []
        margins: list[float] = []
        for outputs in map_ordered(self._session.run, feeds, self._threads):
            for i in range(self._count):
                means[i].append(outputs[g.observation("mean", i)].astype(np.float64))
                squares[i].append(outputs[g.observation("square", i)].astype(np.float64))
            responses.append([float(outputs[g.observation("response", i)].mean()) for i in range(self._inner)])
            margins.append(sum(_margin(outputs[name]) for name in self._outputs))
        stacked = [np.stack(rows) for rows in means], [np.stack(rows) for rows in squares]
        return Statistics(
            *stacked, np.array(responses, np.float64).reshape(len(responses), self._inner).T, np.array(margins)
        )


def _known(node: ir.Node) -> TrainingStatistics:
    mean, spread = node.outputs[0].meta["batchnorm"]
    return TrainingStatistics(np.asarray(mean, np.float64), np.abs(np.asarray(spread, np.float64)))


def _first_bias(layers: Sequence[ir.Node]) -> Vector | None:
    if not layers or layers[0].op_type != "Conv" or len(layers[0].inputs) < 3:
        return None
    bias = g.constant(layers[0].inputs[2])
    return None if bias is None else np.abs(bias.astype(np.float64)).reshape(-1)


def _observed(model: ir.Model, layers: Sequence[ir.Node], inner: Sequence[ir.Node]) -> tuple[ir.Model, list[str]]:
    """A copy that outputs statistics of layers, responses of inner ones and, with these, its outputs; returns their names."""
    copy = model.clone()
    graph = copy.graph
    values = {output.name: output for node in graph for output in node.outputs}
    last = [value for value in graph.outputs if inner and value.shape is not None and len(value.shape) > 1]
    graph.outputs.clear()
    for i, node in enumerate(layers):
        value = values[node.outputs[0].name]
        square = _derived(graph, "Mul", [value, value], g.observation("squared", i))
        _put_mean(graph, value, g.observation("mean", i))
        _put_mean(graph, square, g.observation("square", i))
    for i, node in enumerate(inner):
        value = values[node.outputs[0].name]
        user = g.single_consumer(value)
        is_positive = user is not None and user.op_type in ("Relu", "Clip")
        positive = (
            user.outputs[0]
            if user is not None and is_positive
            else _derived(graph, "Relu", [value], g.observation("positive", i))
        )
        _put_mean(graph, positive, g.observation("response", i))
    graph.outputs.extend(last)
    remove_unread(graph)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
    return copy, [value.name or "" for value in last]


def _derived(graph: ir.Graph, op_type: str, inputs: Sequence[ir.Value], name: str) -> ir.Value:
    node = ir.node(op_type, inputs)
    result = node.outputs[0]
    result.name, result.shape, result.type = g.unique_name(graph, name), inputs[0].shape, inputs[0].type
    graph.append(node)
    return result


def _put_mean(graph: ir.Graph, value: ir.Value, name: str) -> None:
    result = mean_node(graph, pooled(graph, value, "ReduceMean"))
    result.name, result.dtype = name, ir.DataType.FLOAT
    graph.outputs.append(result)


def _margin(output: NDArray[Any]) -> float:
    """By how much the strongest class stands out, in logits; 0 if the output has no classes.

    1. One answer per sample: the largest logit over the mean of all.
    2. Probabilities at many places, as of a detector: the largest over the mean of all places, mean over the classes.
    """
    if output.ndim < 2 or output.shape[-1] < 2 or not np.issubdtype(output.dtype, np.floating):
        return 0.0
    rows = output.astype(np.float64).reshape(-1, output.shape[-1])
    is_probability = rows.min() >= 0.0 and np.allclose(rows.sum(axis=1), 1.0, atol=1e-2)
    if is_probability:
        rows = np.log(np.maximum(rows, LEAST_PROBABILITY))
    elif output.ndim > 2:
        return 0.0
    margins = rows.max(axis=1) - rows.mean(axis=1) if output.ndim == 2 else rows.max(axis=0) - rows.mean(axis=0)
    return float(margins.mean())


def distances(statistics: Statistics, known: Sequence[TrainingStatistics]) -> Vector:
    """How far each layer is from its distribution in training: squared shift in deviations, plus squared log of the spread."""
    found = []
    for mean, square, want in zip(statistics.means, statistics.squares, known, strict=True):
        center = mean.mean(axis=0)
        spread = np.sqrt(np.maximum(square.mean(axis=0) - center * center, 1e-12))
        alive = want.spread > DEAD * np.median(want.spread)
        shift = ((center - want.mean)[alive] / want.spread[alive]) ** 2
        width = np.log(spread[alive] / want.spread[alive]) ** 2
        found.append(float(np.minimum(shift, LARGEST_TERM).mean() + np.minimum(width, LARGEST_TERM).mean()))
    return np.array(found)


def bias_ratio(statistics: Statistics, bias: Vector) -> float:
    """Natural log of the first layer's typical bias over the typical spread of its output."""
    mean, square = statistics.means[0].mean(axis=0), statistics.squares[0].mean(axis=0)
    spread = np.sqrt(np.maximum(square - mean * mean, 1e-12))
    return float(np.log(max(np.median(bias), 1e-12) / np.median(spread)))
