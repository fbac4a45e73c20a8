"""What a network feels of its inputs: statistics of its layers, against what training left behind in it.

Three signals, whichever the network has:

1. **BatchNormalization.** A folded one tells the mean and the spread per channel that its layer had in training. How far the
   samples are from them is the strongest signal: it needs no labels and no confident outputs.
2. **The first bias**, where there is no BatchNormalization: in a trained layer it is about as large as the spread of what it is
   added to. A factor of ten and more between both shows inputs of another range.
3. **Spread of deep layers and entropy of a classification**, where there is no BatchNormalization: filters answer most to what
   they were trained on. Compared between two variants of the same pictures, sample by sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.runner import channel_node, map_ordered, remove_unused
from converter_lite.engine import Engine, Feed
from converter_lite.loading import open_session
from converter_lite.quantization.rescue import multiplications

Vector = NDArray[np.float64]

NORMED_LAYERS = 12
"""Layers with a known distribution that are looked at: the first ones feel the input most and cost least."""

DEAD = 0.05
"""Channels with a spread below this share of the median are as good as constant, and say nothing."""

LARGEST_TERM = 4.0
"""Bound of one channel's distance: a few wild channels shall not decide."""

DEEP = (0.5, 0.9)
"""Layers, as shares of the depth, whose spread is compared."""


@dataclass(frozen=True, slots=True)
class Known:
    """A layer's distribution in training: float64 ``(channels,)`` each."""

    mean: Vector
    spread: Vector


@dataclass(frozen=True, slots=True)
class Feeling:
    """What the network feels of some samples.

    Attributes:
        means, squares: Per layer float64 ``(samples, channels)``: mean and mean square over positions.
        entropy: Of the class probabilities per sample, ``None`` where the output is no classification.
    """

    means: list[Vector]
    squares: list[Vector]
    entropy: Vector | None

    def spreads(self) -> Vector:
        """Log of the variance of every layer per sample, ``(layers, samples)``; layers that are constant are left out."""
        rows = []
        for mean, square in zip(self.means, self.squares, strict=True):
            variance = np.maximum(square - mean * mean, 0.0).mean(axis=1)
            if np.all(variance > 0):
                rows.append(np.log(variance))
        return np.array(rows)


class Probe:
    """A float network with its statistics as outputs.

    Args:
        model: Optimized float graph; not changed.
        first_only: Look at the first layer only.
        engine: Runs it.
        threads: Samples side by side.

    Attributes:
        known: Distributions of the observed layers in training; empty where there is no BatchNormalization.
        bias: Absolute biases of the first layer, ``None`` without.
        work: Multiplications per sample.
        whole: Multiplications of the whole model per sample.
    """

    def __init__(self, model: ir.Model, *, first_only: bool = False, engine: Engine, threads: int) -> None:
        layers = [node for node in model.graph if node.op_type in ("Conv", "Gemm", "MatMul") and node.outputs[0].name]
        if first_only:
            layers = layers[:1]
        normed = [node for node in layers if "batchnorm" in node.outputs[0].meta][:NORMED_LAYERS]
        self.known = [_known(node) for node in normed]
        self.bias = _first_bias(layers)
        low, high = (int(share * len(layers)) for share in DEEP)
        observed = normed if normed else list(dict.fromkeys([*layers[:1], *layers[low : max(high, low + 1)]]))
        outputs = model.graph.outputs
        is_single = len(outputs) == 1 and not first_only
        is_class = not normed and is_single and outputs[0].shape is not None and len(outputs[0].shape) == 2
        graph, self._class = _observed(model, observed, is_class=is_class)
        self._count, self._threads = len(observed), threads
        self.work = sum(map(multiplications, graph.graph))
        self.whole = sum(map(multiplications, model.graph))
        self._session = open_session(engine, graph) if observed else None

    @property
    def can_feel(self) -> bool:
        """Whether there is a layer to look at."""
        return self._session is not None

    def __call__(self, feeds: Sequence[Feed]) -> Feeling:
        """Statistics of these samples.

        Raises:
            ModelError: The runtime refuses a sample.
        """
        assert self._session is not None
        means: list[list[Vector]] = [[] for _ in range(self._count)]
        squares: list[list[Vector]] = [[] for _ in range(self._count)]
        entropies: list[float] = []
        for outputs in map_ordered(self._session.run, feeds, self._threads):
            for i in range(self._count):
                means[i].append(outputs[f"mean_{i}"].astype(np.float64))
                squares[i].append(outputs[f"square_{i}"].astype(np.float64))
            if self._class is not None:
                entropies.append(_entropy(outputs[self._class]))
        entropy = np.array(entropies) if self._class is not None else None
        return Feeling([np.stack(rows) for rows in means], [np.stack(rows) for rows in squares], entropy)


def _known(node: ir.Node) -> Known:
    mean, spread = node.outputs[0].meta["batchnorm"]
    return Known(np.asarray(mean, np.float64), np.abs(np.asarray(spread, np.float64)))


def _first_bias(layers: Sequence[ir.Node]) -> Vector | None:
    if not layers or layers[0].op_type != "Conv" or len(layers[0].inputs) < 3:
        return None
    bias = g.constant(layers[0].inputs[2])
    return None if bias is None else np.abs(bias.astype(np.float64)).reshape(-1)


def _observed(model: ir.Model, layers: Sequence[ir.Node], *, is_class: bool) -> tuple[ir.Model, str | None]:
    copy = model.clone()
    graph = copy.graph
    values = {output.name: output for node in graph for output in node.outputs}
    last = graph.outputs[0] if is_class else None
    graph.outputs.clear()
    for i, node in enumerate(layers):
        value = values[node.outputs[0].name]
        square = ir.node("Mul", [value, value])
        square.outputs[0].name = g.unique_name(graph, f"squared_{i}")
        square.outputs[0].shape, square.outputs[0].type = value.shape, value.type
        graph.append(square)
        for name, source in ((f"mean_{i}", value), (f"square_{i}", square.outputs[0])):
            result = channel_node(graph, source, "ReduceMean")
            result.name, result.dtype = name, ir.DataType.FLOAT
            graph.outputs.append(result)
    if last is not None:
        graph.outputs.append(last)
    remove_unused(graph)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            del graph.initializers[name]
    return copy, None if last is None else last.name


def _entropy(output: NDArray[Any]) -> float:
    """Of class probabilities, or of the probabilities that logits stand for; mean over the rows."""
    rows = output.astype(np.float64).reshape(output.shape[0], -1)
    is_probability = rows.min() >= 0.0 and np.allclose(rows.sum(axis=1), 1.0, atol=1e-2)
    if not is_probability:
        rows = np.exp(rows - rows.max(axis=1, keepdims=True))
        rows /= rows.sum(axis=1, keepdims=True)
    return float(-(rows * np.log(rows + 1e-12)).sum(axis=1).mean())


def distances(feeling: Feeling, known: Sequence[Known]) -> Vector:
    """How far each layer is from its distribution in training: squared shift in deviations, plus squared log of the spread."""
    found = []
    for mean, square, want in zip(feeling.means, feeling.squares, known, strict=True):
        center = mean.mean(axis=0)
        spread = np.sqrt(np.maximum(square.mean(axis=0) - center * center, 1e-12))
        alive = want.spread > DEAD * np.median(want.spread)
        shift = ((center - want.mean)[alive] / want.spread[alive]) ** 2
        width = np.log(spread[alive] / want.spread[alive]) ** 2
        found.append(float(np.minimum(shift, LARGEST_TERM).mean() + np.minimum(width, LARGEST_TERM).mean()))
    return np.array(found)


def bias_ratio(feeling: Feeling, bias: Vector) -> float:
    """Natural log of the first layer's typical bias over the typical spread of what it gives."""
    mean, square = feeling.means[0].mean(axis=0), feeling.squares[0].mean(axis=0)
    spread = np.sqrt(np.maximum(square - mean * mean, 1e-12))
    return float(np.log(max(np.median(bias), 1e-12) / np.median(spread)))
