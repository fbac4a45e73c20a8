"""Running a model that is larger than memory: block by block, with the constants of one block at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import Feed, Session
from converter_lite.runtime.parts import Part, parts
from converter_lite.runtime.serializing import constant_bytes, open_session

BLOCKWISE_FROM = 1_500_000_000
"""Bytes of a float model's constants from which it, and models made from it, are run in blocks."""

BLOCK_VALUES = 1 << 25
"""Most elements of a block's constants, unless a single operator has more: 128 MB as floats, of which a runtime makes copies."""


def is_larger_than_memory(model: ir.Model) -> bool:
    """Whether a float model should be run in blocks: a runtime holds its constants twice, as read and repacked."""
    return constant_bytes(model) > BLOCKWISE_FROM


class BlockSession:
    """A :class:`converter_lite.runtime.engine.Session` that loads one part of the graph, runs it, and frees it before the next.

    Every call reads all constants anew, at the speed of the disk.

    Args:
        model: The graph, sorted, with types and shapes of inner values; its large constants should lie in files.
        context: Runs the blocks, with all its threads inside one operator.
    """

    def __init__(self, model: ir.Model, context: RunContext) -> None:
        self.output_names = [value.name or "" for value in model.graph.outputs]
        self._model = model
        self._context = context
        groups = (_values(model.graph, nodes) for nodes in _groups(model.graph))
        self._blocks = parts(groups, self.output_names)

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs by name for one sample.

        Raises:
            ModelError: The runtime refuses a block or the sample.
        """
        (outputs,) = self.run_all([feed])
        return outputs

    def run_all(self, feeds: Sequence[Feed]) -> list[dict[str, NDArray[Any]]]:
        """Outputs of several samples, for which the constants are read once.

        Raises:
            ModelError: The runtime refuses a block or a sample.
        """
        constants = ((value.name or "", value.const_value) for value in self._model.graph.outputs)
        held = {name: tensor.numpy() for name, tensor in constants if tensor is not None}
        found: list[dict[str, NDArray[Any]]] = [{**held, **feed} for feed in feeds]
        for block in self._context.log.track(self._blocks, "running blocks", len(self._blocks)):
            session = open_session(
                self._context.engine, self._extracted(block), beside_from=0, threads=self._context.threads
            )
            for values in found:
                values.update(session.run({name: values[name] for name in block.inputs}))
                for name in block.dropped:
                    del values[name]
            del session
        return [{name: values[name] for name in self.output_names} for values in found]

    def _extracted(self, block: Part) -> ir.Model:
        graph = ir.convenience.extract(self._model.graph, list(block.inputs), list(block.outputs))
        return ir.Model(graph, ir_version=self._model.ir_version)


def run_each(session: Session, feeds: Iterable[Feed]) -> Iterator[dict[str, NDArray[Any]]]:
    """Outputs of every sample, in order: one sample at a time, or all of them while the constants are read once.

    Raises:
        ModelError: The runtime refuses a sample.
    """
    if isinstance(session, BlockSession):
        yield from session.run_all(list(feeds))
    else:
        for feed in feeds:
            yield session.run(feed)


def _groups(graph: ir.Graph) -> Iterator[list[ir.Node]]:
    """Nodes in order, cut where the constants would exceed ``BLOCK_VALUES``."""
    group: list[ir.Node] = []
    seen: set[ir.Value] = set()
    room = BLOCK_VALUES
    for node in graph:
        constants = {v for v in g.values_read(node) if v.const_value is not None and v not in seen}
        size = sum(prod(v.const_value.shape.numpy()) for v in constants if v.const_value is not None)
        if group and size and size > room:
            yield group
            group, seen, room = [], set(), BLOCK_VALUES
        group.append(node)
        seen |= constants
        room -= size
    if group:
        yield group


def _values(graph: ir.Graph, nodes: Sequence[ir.Node]) -> tuple[set[str], list[str]]:
    """Names of what nodes read, without constants, and of what they compute."""
    values = {v for node in nodes for v in g.values_read(node) if v.graph is graph}
    read = {v.name or "" for v in values if v.const_value is None or v.is_graph_input()}
    return read, [output.name or "" for node in nodes for output in node.outputs]
