"""The content of a ``.mindir`` file, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from converter_lite.formats.base import Block
from converter_lite.formats.mindir.importer.graph import CONSTANT, REFERENCE, operator_of
from converter_lite.formats.mindir.importer.table import KINDS
from converter_lite.formats.mindir.program import Graph, Node, Program, Tensor, shape_text, type_name
from converter_lite.formats.mindir.reader import Reader

HIDDEN = ("input_names", "output_names", "shape", "checkpoint")
"""Attributes that say nothing about what a node computes."""


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Inputs, nodes and weights of each graph.

    Raises:
        ModelError: The file is damaged or encrypted.
    """
    del confined
    data = path.read_bytes()
    reader = Reader(data, str(path))
    program = reader.program()
    graphs = [program.graph, *program.functions.values()]
    nodes = sum(node.operator != CONSTANT for graph in graphs for node in graph.nodes)
    yield f"MindIR of {program.producer or 'an unknown program'}, format {program.version}, {nodes} nodes, {len(data):,} bytes"
    for graph in graphs:
        if graph is not program.graph:
            yield f"function {graph.name}"
        yield _inputs(graph)
        yield _nodes(program, reader, graph)
        if graph.parameters:
            yield _weights(graph)


def _inputs(graph: Graph) -> Block:
    rows = [[graph.short(t.name), type_name(t.kind), shape_text(t.dims)] for t in graph.inputs]
    return [["input", "type", "shape"], *rows]


def _nodes(program: Program, reader: Reader, graph: Graph) -> Block:
    rows = [["name", "operator", "inputs", "result", "attributes"]]
    constants = {
        node.output: _shown(reader.value(node.attributes["value"]))
        for node in graph.nodes
        if node.operator == CONSTANT and "value" in node.attributes
    }
    names = {node.output: node.scope or graph.short(node.output) for node in graph.nodes if node.operator != CONSTANT}
    for node in graph.nodes:
        if node.operator != CONSTANT:
            inputs = ", ".join(constants.get(name) or names.get(name) or graph.short(name) for name in node.inputs)
            result = _shown(reader.value(node.attributes["shape"])) if "shape" in node.attributes else ""
            rows.append([names[node.output], _kind(program, node), inputs, result, _attributes(program, reader, node)])
    return rows


def _kind(program: Program, node: Node) -> str:
    reference = node.operator.removeprefix(REFERENCE)
    if reference in program.functions:
        return f"call of {reference}"
    operator = operator_of(program, node).operator
    return operator if operator in KINDS else f"{operator} (refused)"


def _attributes(program: Program, reader: Reader, node: Node) -> str:
    given = operator_of(program, node).attributes
    return " ".join(f"{name}={_shown(reader.value(span))}" for name, span in given.items() if name not in HIDDEN)


def _shown(value: Any) -> str:
    """A value of the file in a few words."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Tensor):
        return f"{type_name(value.kind)} {shape_text(value.dims)}"
    if isinstance(value, float):
        return f"{value:g}"
    if value is None or isinstance(value, int | str):
        return str(value)
    return str(getattr(value, "kind", "-"))


def _weights(graph: Graph) -> Block:
    rows = [["weight", "type", "shape", "bytes", "file"]]
    for tensor in graph.parameters:
        size = tensor.apart.length if tensor.apart is not None else len(tensor.data or b"")
        place = tensor.apart.location if tensor.apart is not None else ""
        rows.append(
            [tensor.key or graph.short(tensor.name), type_name(tensor.kind), shape_text(tensor.dims), str(size), place]
        )
    return rows
