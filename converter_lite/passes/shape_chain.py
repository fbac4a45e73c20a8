"""Sizes that are known while others are not."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.graph import Names, absorb_names, add_initializer, constant, input_at, int_attribute, static_shape
from converter_lite.passes.rewrite import consumers, int_values, is_op, remove

Sizes = list["int | None"]
"""Known sizes of a shape vector; ``None`` where a size depends on the input."""


def fold_shapes(model: ir.Model) -> int:
    """Replace computations of sizes by their result where it is known.

    ::

        x (N, 3, 224, 224) ─ Shape ─ Gather(1) ─ y       becomes      y = 3

    1. Shape of a tensor whose (selected) dimensions are all known, and Size likewise;
    2. Gather or Slice that picks known sizes out of a partly dynamic Shape.

    Refused: a graph output (it needs a node), constants or indices that are computed.
    """
    answers = {
        node: answer
        for node in model.graph
        if is_op(node, "Shape", "Size", "Gather", "Slice") and not node.outputs[0].is_graph_output()
        if (answer := _answer(node)) is not None
    }
    names = Names(model.graph) if answers else None
    for node, answer in answers.items():
        _settle(model.graph, node, answer, names)
    return len(answers)


def share_sizes(model: ir.Model) -> int:
    """Read a size that several tensors share from the first of them only.

    ::

        x (B, 4) ─ Shape ─ Gather(0) ─ m        becomes      x ─ Shape ─ Gather(0) ─┬─ m
        y (B, 9) ─ Shape ─ Gather(0) ─ n                                            └─ n

    Sizes are the same when their symbolic names are. Refused: several indices at once, nodes inside of branches, results
    that are graph outputs.
    """
    known: dict[tuple[str, int], ir.Node] = {}
    shared = 0
    for node in list(model.graph):
        key = _symbol(node)
        if key is None or known.setdefault(key, node) is node or node.outputs[0].is_graph_output():
            continue
        node.outputs[0].replace_all_uses_with(known[key].outputs[0])
        absorb_names(known[key], [node])
        remove(node)
        shared += 1
    return shared


def _symbol(node: ir.Node) -> tuple[str, int] | None:
    """Name of the one dimension that a Gather reads off a Shape, and the rank of the result."""
    shape = node.inputs[0].producer() if is_op(node, "Gather") and node.inputs[0] is not None else None
    indices = input_at(node, 1) if shape is not None else None
    numbers = int_values(indices)
    if shape is None or indices is None or numbers is None or len(numbers) != 1 or not is_op(shape, "Shape"):
        return None
    source = shape.inputs[0]
    if (
        source is None
        or source.shape is None
        or shape.attributes
        or not -len(source.shape) <= numbers[0] < len(source.shape)
    ):
        return None
    dim = source.shape[numbers[0]]
    if isinstance(dim, int) or dim.value is None or indices.shape is None:
        return None
    return str(dim.value), len(indices.shape)


def _answer(node: ir.Node) -> NDArray[np.int64] | None:
    if is_op(node, "Shape"):
        return _vector(_sizes(node))
    source = node.inputs[0]
    if is_op(node, "Size"):
        size = static_shape(source)
        return None if size is None else np.array(np.prod(size, dtype=np.int64))
    producer = source.producer() if source is not None else None
    if producer is None or not is_op(producer, "Shape"):
        return None
    sizes = _sizes(producer)
    if sizes is None:
        return None
    return _gathered(node, sizes) if is_op(node, "Gather") else _sliced(node, sizes)


def _sizes(shape: ir.Node) -> Sizes | None:
    source = shape.inputs[0]
    if source is None or source.shape is None:
        return None
    sizes: Sizes = [size if isinstance(size, int) else None for size in source.shape]
    end = int_attribute(shape, "end", len(sizes))
    return sizes[int_attribute(shape, "start", 0) : end]


def _vector(sizes: Sizes | None) -> NDArray[np.int64] | None:
    if sizes is None or any(size is None for size in sizes):
        return None
    return np.array(sizes, np.int64)


def _gathered(node: ir.Node, sizes: Sizes) -> NDArray[np.int64] | None:
    indices = constant(input_at(node, 1))
    if indices is None or any(not -len(sizes) <= i < len(sizes) for i in indices.reshape(-1).tolist()):
        return None
    picked = _vector([sizes[i] for i in indices.reshape(-1).tolist()])
    return None if picked is None else picked.reshape(indices.shape)


def _sliced(node: ir.Node, sizes: Sizes) -> NDArray[np.int64] | None:
    start, end = int_values(input_at(node, 1)), int_values(input_at(node, 2))
    step = int_values(input_at(node, 4)) if input_at(node, 4) is not None else (1,)
    if start is None or end is None or step is None or len(start) != 1 or step[0] < 1:
        return None
    return _vector(sizes[start[0] : end[0] : step[0]])


def _settle(graph: ir.Graph, node: ir.Node, answer: NDArray[np.int64], names: Names | None) -> None:
    result = node.outputs[0]
    for reader in consumers(result):
        absorb_names(reader, [node])
    result.replace_all_uses_with(add_initializer(graph, f"{result.name}_folded", answer, names=names))
    remove(node)
