"""Runs the float model over the calibration samples and collects statistics.

Reductions are part of the graph that runs, so that only a few numbers (or, for distributions, an evenly spaced subset of the
values) leave the runtime. Memory is bounded by the samples under way, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.calibration.cache import identity
from converter_lite.calibration.context import CalibrationContext
from converter_lite.calibration.shards import SHARD, Shard, ShardObserver
from converter_lite.calibration.statistics import CalibrationStats, Need
from converter_lite.errors import ConverterError
from converter_lite.execution.executor import Executor
from converter_lite.execution.ordered import map_ordered
from converter_lite.log import Log
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed
from converter_lite.runtime.serializing import message, open_session

OBSERVED_VALUES = 8_192
"""Values per tensor and sample from which a distribution is taken from an evenly spaced subset."""

GROUP = 256
"""Tensors observed in one pass over the data when distributions are collected: 256 tensors x 0.5 MB bound the memory."""

EVERYTHING = Need.MINMAX | Need.OUTLIER | Need.HISTOGRAM
"""The kinds of statistics in a cache."""

LOW_SHARE, HIGH_SHARE = 0.0001, 0.9999
"""Positions of REMOVAL_OUTLIER in the sorted values (measured behaviour of the original)."""

MEAN_SQUARE = "MeanSquare"
"""A reduction to the mean of the squares."""

PICTURE_RANK = 4
"""Axes of a picture."""

POOLS = MappingProxyType({"ReduceMax": "GlobalMaxPool", "ReduceMean": "GlobalAveragePool"})
"""Reductions over the positions of a picture, and the pools that do the same."""


class Samples(Protocol):
    """Calibration samples that can be read several times."""

    def __len__(self) -> int:
        """Samples in one pass."""

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        """One pass over the feeds."""

    def tail(self, start: int) -> Iterator[dict[str, NDArray[Any]]]:
        """One pass over the feeds from number ``start`` on."""

    def part(self, start: int, stop: int) -> Iterable[Feed]:
        """Some samples, in a form that can be sent to another process."""

    def head(self, count: int) -> list[dict[str, NDArray[Any]]]:
        """The first samples, held in memory; fewer than ``count`` if memory is short."""


def collect(
    model: ir.Model,
    names: list[str],
    need: Need,
    samples: Samples,
    context: CalibrationContext,
) -> CalibrationStats:
    """Statistics of the named tensors over all samples.

    Args:
        model: Float graph, not changed.
        names: Tensors to observe.
        need: What to collect.
        samples: Feeds by input name; iterated once per group of ``GROUP`` tensors when distributions are needed.
        context: What observes them, and what is known already; samples run with one thread each.

    Raises:
        CalibrationError: A tensor is NaN or infinite.
        ClusterError: The workers are lost.
        ModelError: The runtime refuses the model or a sample.
    """
    stats, graph, cache = CalibrationStats(), "", context.cache
    if cache is not None:
        need = EVERYTHING if cache.is_lasting else need
        graph = identity(model)
        for name, part in cache.known(graph, names, need).items():
            stats.add(name, part)
    unknown = [name for name in names if name not in stats.tensors]
    size = GROUP if Need.HISTOGRAM in need else max(len(unknown), 1)
    for start in range(0, len(unknown), size):
        group = unknown[start : start + size]
        observer = ShardObserver(message(_observed(model, group, need)), group, need, context.engine)
        _collect_group(stats, observer, samples, context)
    if cache is not None:
        cache.remember(graph, {name: stats[name] for name in unknown}, need)
    return stats


def _collect_group(
    stats: CalibrationStats, observer: ShardObserver, samples: Samples, context: CalibrationContext
) -> None:
    """Observe tensors over all samples, or over those that the cache does not cover yet."""
    group, cache, log = observer.names, context.cache, context.log
    path = cache.path(observer.graph.digest(), group) if cache is not None else None
    done, known = cache.load(path, group) if cache is not None and path is not None else (0, [])
    for name, part in zip(group, known or [], strict=False):
        stats.add(name, part)
    if done:
        log.info(f"{done} of {len(samples)} samples are known from earlier runs")
    if done >= len(samples):
        return
    if context.executor is None:
        shards = _observe_here(observer, samples, done, context)
    else:
        shards = _observe_on(context.executor, observer, samples, done, log)
    for shard in shards:
        stats.merge(shard)
        if cache is not None and path is not None:
            cache.save(path, stats[group[0]].samples, [stats[name] for name in group])


def _observe_here(
    observer: ShardObserver, samples: Samples, done: int, context: RunContext
) -> Iterator[CalibrationStats]:
    """Statistics of the shards that are left; samples run side by side across the ends of shards."""
    feeds = samples.tail(done) if done else samples
    observed = map_ordered(observer.observe, feeds, context.threads)
    yield from observer.gather(context.log.track(observed, "calibrating", len(samples) - done), done)


def _observe_on(
    executor: Executor, observer: ShardObserver, samples: Samples, done: int, log: Log
) -> Iterator[CalibrationStats]:
    """The same, with whole shards side by side."""
    starts = range(done, len(samples), SHARD)
    shards = [Shard(samples.part(start, min(start + SHARD, len(samples))), start) for start in starts]
    with closing(executor.run(observer, shards, ordered=True)) as outcomes:
        for _, outcome in log.track(outcomes, f"calibrating, {SHARD} samples at a time", len(shards)):
            if isinstance(outcome, ConverterError):
                raise outcome
            yield outcome


def sample_means(
    model: ir.Model, names: list[str], feeds: Iterable[Feed], context: RunContext
) -> list[NDArray[np.float64]]:
    """Mean per channel of the named tensors for each sample: float64 ``(samples, channels)`` each.

    The channel axis is 1 from rank 3 on, else the last.
    """
    wanted = [(name, "ReduceMean") for name in names]
    rows = list(channel_reductions(model, wanted, feeds, context))
    return [np.stack(row) for row in zip(*rows, strict=True)]


def channel_magnitudes(
    model: ir.Model, names: list[str], feeds: Iterable[Feed], context: RunContext, *, samples: int
) -> dict[str, NDArray[np.float32]]:
    """Largest absolute value per channel of the named tensors in each of so many samples: ``(samples, channels)`` each.

    It is 0 where a tensor held no value. The channel axis is as in :func:`sample_means`.
    """
    producers = {output.name: node for node in model.graph for output in node.outputs}
    signed = [name for name in names if (g.clamp_bounds(producers[name]) or (-1.0, 0.0))[0] < 0]
    wanted = [*((name, "ReduceMax") for name in names), *((name, "ReduceMin") for name in signed)]
    found: dict[str, NDArray[np.float32]] = {}
    for number, rows in enumerate(channel_reductions(model, wanted, feeds, context)):
        for (name, op_type), row in zip(wanted, rows, strict=True):
            if name not in found:
                found[name] = np.zeros((samples, len(row)), np.float32)
            high = -row if op_type == "ReduceMin" else row
            found[name][number] = np.maximum(high, found[name][number])
    return found


def channel_reductions(
    model: ir.Model, wanted: Sequence[tuple[str, str]], feeds: Iterable[Feed], context: RunContext
) -> Iterator[list[NDArray[np.float64]]]:
    """For every sample, the vector of each tensor and reduction operator, or of :data:`MEAN_SQUARE`: float64 ``(channels,)``."""
    observed = model.clone()
    graph = observed.graph
    values = {o.name: o for n in graph for o in n.outputs}
    graph.outputs.clear()
    build = _Builder(graph)
    axes: dict[tuple[int, ...], ir.Value] = {}
    outputs = [g.observation(op_type, i) for i, (_, op_type) in enumerate(wanted)]
    for output, (name, op_type) in zip(outputs, wanted, strict=True):
        value = values[name]
        if op_type == "ReduceMax":
            value = pooled(graph, value, op_type)
        elif op_type == MEAN_SQUARE:
            value, op_type = _square(graph, value), "ReduceMean"
        build.output(output, channel_node(graph, value, op_type, known=axes))
    remove_unread(graph)
    session = open_session(context.engine, observed)
    for found in map_ordered(session.run, feeds, context.threads):
        yield [found[output].astype(np.float64) for output in outputs]


def _square(graph: ir.Graph, value: ir.Value) -> ir.Value:
    node = ir.node("Mul", [value, value])
    node.outputs[0].shape, node.outputs[0].dtype = value.shape, ir.DataType.FLOAT
    insert_behind(graph, value.producer(), node)
    return pooled(graph, node.outputs[0], "ReduceMean")


def mean_node(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """Append the mean per channel of ``value`` to the graph and return it."""
    return channel_node(graph, value, "ReduceMean")


def channel_node(
    graph: ir.Graph,
    value: ir.Value,
    op_type: str,
    *,
    known: dict[tuple[int, ...], ir.Value] | None = None,
) -> ir.Value:
    """Add a reduction of ``value`` over all axes but that of the channels behind its producer; return its result.

    ``known`` collects the constants with axes, which later calls share.
    """
    rank = _rank(value)
    channel = g.channel_axis(rank)
    axes = tuple(i for i in range(rank) if i != channel)
    known = {} if known is None else known
    axes_are_inputs = g.opset(graph) >= (18 if op_type != "ReduceSum" else 13)
    if axes_are_inputs:
        if axes not in known:
            known[axes] = g.add_initializer(graph, "reduced_axes", np.array(axes, np.int64))
        node = ir.node(op_type, [value, known[axes]], attributes={"keepdims": 0})
    else:
        # A tuple would be examined element by element, which takes as long as the rest.
        node = ir.node(op_type, [value], attributes={"axes": ir.AttrInt64s("axes", axes), "keepdims": 0})
    insert_behind(graph, value.producer(), node)
    return node.outputs[0]


def _rank(value: ir.Value) -> int:
    """Axes of a tensor; where its shape is not known, those of the filters that gave it, else of a picture."""
    producer, shape = value.producer(), value.shape
    if shape is None and producer is not None and producer.op_type in ("Conv", "ConvTranspose"):
        filters = producer.inputs[1]
        shape = None if filters is None else filters.shape
    return PICTURE_RANK if shape is None else len(shape)


def pooled(graph: ir.Graph, value: ir.Value, op_type: str) -> ir.Value:
    """What is left to reduce of a picture behind a pool over its positions, which reads channels as convolutions leave them.

    The largest value stays the same number; a mean may have other last digits.
    """
    if value.dtype is not ir.DataType.FLOAT or value.shape is None or len(value.shape) != 4:
        return value
    node = ir.node(POOLS[op_type], [value])
    pool = node.outputs[0]
    pool.shape, pool.dtype = ir.Shape([*value.shape[:2], 1, 1]), value.dtype
    insert_behind(graph, value.producer(), node)
    return pool


def insert_behind(graph: ir.Graph, producer: ir.Node | None, node: ir.Node) -> None:
    """Put a node behind the one that it reads, at the end without one.

    The runtime sorts nodes by their place when it loads a graph; with many that are ready early and stand at the end, that
    takes the square of their number (4,000 nodes with three reductions each: 68 s at the end, 4.5 s here).
    """
    if producer is None:
        graph.append(node)
    else:
        graph.insert_after(producer, node)


def _observed(model: ir.Model, names: list[str], need: Need) -> ir.Model:
    """The float graph with reductions of the named tensors as its only outputs."""
    observed = model.clone()
    graph = observed.graph
    values = {v.name: v for v in (*graph.inputs, *(o for n in graph for o in n.outputs))}
    graph.outputs.clear()
    build = _Builder(graph)
    for i, name in enumerate(names):
        value = values[name]
        build.last = value.producer()
        high = total = value
        if need is Need.MINMAX and _is_positive_picture(value):
            high, total = build.node("GlobalMaxPool", [value]), build.node("GlobalAveragePool", [value])
        else:
            build.output(g.observation("min", i), build.node("ReduceMin", [value], keepdims=0))
        build.output(g.observation("max", i), build.node("ReduceMax", [high], keepdims=0))
        # onnxruntime's ReduceMin and ReduceMax pass over NaN
        build.output(g.observation("sum", i), build.node("ReduceSum", [total], keepdims=0))
        if Need.OUTLIER not in need and Need.HISTOGRAM not in need:
            continue
        flat = build.node("Reshape", [value, build.int64(-1)])
        size = build.node("Reshape", [build.node("Size", [value]), build.int64(-1)])
        if Need.OUTLIER in need:
            build.output(g.observation("low", i), _extreme(build, flat, size, largest=False))
            build.output(g.observation("high", i), _extreme(build, flat, size, largest=True))
        if Need.HISTOGRAM in need:
            build.output(g.observation("values", i), _subset(build, flat, size))
    remove_unread(graph)
    return observed


def _is_positive_picture(value: ir.Value) -> bool:
    """Whether pools can reduce a tensor in the order in which convolutions leave it: only its least value needs another one.

    A function that clamps it at zero makes that value known, up to what no range depends on.
    """
    producer = value.producer()
    bounds = g.clamp_bounds(producer) if producer is not None else None
    is_picture = value.dtype is ir.DataType.FLOAT and value.shape is not None and len(value.shape) == 4
    return is_picture and bounds is not None and bounds[0] >= 0


def _extreme(build: _Builder, flat: ir.Value, size: ir.Value, *, largest: bool) -> ir.Value:
    """Sorted values from the extreme up to the position of REMOVAL_OUTLIER; the last one is the wanted value."""
    share = build.add_constant(np.array([HIGH_SHARE if largest else LOW_SHARE], np.float32))
    position = build.node("Mul", [build.node("Cast", [size], to=ir.DataType.FLOAT.value), share])
    index = build.node("Cast", [position], to=ir.DataType.INT64.value)
    count = build.node("Sub", [size, index]) if largest else build.node("Add", [index, build.int64(1)])
    count = build.node("Min", [count, size])  # a tensor may hold no value
    return build.node("TopK", [flat, count], largest=int(largest), sorted=1, outputs=2)


def _subset(build: _Builder, flat: ir.Value, size: ir.Value) -> ir.Value:
    """Every n-th value with an odd n (so that it does not step along one column of a picture); all of them for small tensors."""
    half = build.node("Div", [size, build.int64(2 * OBSERVED_VALUES)])
    step = build.node("Add", [build.node("Mul", [half, build.int64(2)]), build.int64(1)])
    end = build.int64(np.iinfo(np.int64).max)
    return build.node("Slice", [flat, build.int64(0), end, build.int64(0), step])


def remove_unread(graph: ir.Graph) -> None:
    """Remove nodes whose results nobody reads."""
    for node in reversed(graph):
        if all(not output.uses() and not output.is_graph_output() for output in node.outputs):
            graph.remove(node, safe=True)
            for inner in (inner for body in g.subgraphs(node) for inner in g.all_nodes(body)):
                for place in range(len(inner.inputs)):
                    inner.replace_input_with(place, None)  # they no longer read what is around the body


class _Builder:
    """Adds nodes to a graph, each behind the ``last`` one; equal constants are shared."""

    def __init__(self, graph: ir.Graph) -> None:
        self.graph = graph
        self.last: ir.Node | None = None
        self._constants: dict[tuple[str, bytes], ir.Value] = {}

    def add_constant(self, array: NDArray[Any]) -> ir.Value:
        key = array.dtype.str, array.tobytes()
        if key not in self._constants:
            self._constants[key] = g.add_initializer(self.graph, "observer_constant", array)
        return self._constants[key]

    def int64(self, number: int) -> ir.Value:
        return self.add_constant(np.array([number], np.int64))

    def node(self, op_type: str, inputs: list[ir.Value], *, outputs: int = 1, **attributes: int) -> ir.Value:
        made = ir.node(op_type, inputs, attributes=attributes, num_outputs=outputs)
        insert_behind(self.graph, self.last, made)
        self.last = made if self.last is not None else None
        return made.outputs[0]

    def output(self, name: str, value: ir.Value) -> None:
        value.name = name
        value.dtype = ir.DataType.FLOAT
        self.graph.outputs.append(value)
