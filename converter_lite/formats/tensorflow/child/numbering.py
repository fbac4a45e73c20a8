"""What would give other bytes each time: the order of sets in tf2onnx, and the numbers in names that it invents."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import tf2onnx.graph

INVENTED = re.compile(r"(.*__)\d+((?::\d+)?)", re.DOTALL)


ADDRESS = re.compile(r"einsum\d+_")
"""How names of what an Einsum becomes begin: with the address of an object."""

_SERIAL = itertools.count()


def order_hashes() -> None:
    """Let sets of nodes have the same order each time: by default a node's hash is its address."""
    tf2onnx.graph.Node.__hash__ = lambda node: node.__dict__.setdefault("_serial", next(_SERIAL))


def renumber(model: Any) -> None:
    """Number invented names of nodes, tensors and sizes in the order in which they appear; inputs and outputs keep theirs."""
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    order = list(dict.fromkeys(name for name in _names(model.graph) if name not in kept))
    taken = {name for name in order if not INVENTED.fullmatch(name)} | kept
    renamed: dict[str, str] = {}
    number = 0
    for name in order:
        invented = INVENTED.fullmatch(name)
        while invented and name not in renamed:
            candidate = f"{ADDRESS.sub('einsum_', invented[1])}{number}{invented[2]}"
            number += 1
            if candidate not in taken:
                renamed[name] = candidate
    _rename(model.graph, renamed)


def _names(graph: Any) -> Iterator[str]:
    for value in (*graph.input, *graph.output):
        yield from _of_value(value)
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)
        for inner in _inner(node):
            yield from _names(inner)
    for value in graph.value_info:
        yield from _of_value(value)
    yield from (tensor.name for tensor in graph.initializer)


def _of_value(value: Any) -> Iterator[str]:
    yield value.name
    yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)


def _inner(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _rename(graph: Any, names: dict[str, str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = names.get(dim.dim_param, dim.dim_param)
    for node in graph.node:
        node.name = names.get(node.name, node.name)
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in _inner(node):
            _rename(inner, names)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    initializers = sorted(graph.initializer, key=lambda tensor: tensor.name)
    del graph.initializer[:]
    graph.initializer.extend(initializers)
