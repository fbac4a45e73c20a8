"""Minus infinity in masks: rows of a softmax that it may leave empty, and comparisons with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import consumers, for_each, is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reduced

Hidden = NDArray[np.bool_]
"""Where a tensor may be minus infinity; broadcasts to its shape."""

MOVING = ("Expand", "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result holds elements of the first input at other places."""

SINGLE_AXIS = 13
"""The first operator set in which Softmax is over one axis."""


def spell_out_empty_rows(model: ir.Model) -> int:
    """Bound the scores of a Softmax from below where a mask may leave a row nothing but minus infinity.

    Without, MindSpore Lite's kernel ends the whole run. Other rows stay as they are. An empty row gets equal shares instead
    of NaN; an IsNaN behind the Softmax, which current exporters put there, becomes a test of the scores.
    """
    hidden = _hidden(model.graph)
    return sum(_bounded(model, node, hidden) for node in list(model.graph) if is_op(node, "Softmax"))


def _hidden(graph: ir.Graph) -> dict[ir.Value, Hidden]:
    """Tensors that may hold minus infinity because a constant does."""
    found: dict[ir.Value, Hidden] = {}

    def places(value: ir.Value | None) -> Hidden:
        array = g.constant(value) if value is not None and value not in found else None
        if value is not None and array is not None and np.issubdtype(array.dtype, np.floating):
            found[value] = np.isneginf(array)
        return found.get(value, np.array(False)) if value is not None else np.array(False)

    for node in graph:
        if is_op(node, "Where"):
            chosen = g.constant(node.inputs[0])
            first, second = places(node.inputs[1]), places(node.inputs[2])
            result = first | second if chosen is None else np.where(chosen, first, second)
        elif is_op(node, "Add", "Sub", "Cast", "Identity"):
            result = np.array(False)
            for value in node.inputs:
                result = result | places(value)
        elif is_op(node, "Concat", "Pad"):
            result = np.array(any(places(value).any() for value in node.inputs))
        elif is_op(node, *MOVING):
            result = np.array(node.inputs[0] in found)
        else:
            continue
        if result.any():
            found[node.outputs[0]] = result
    return found


def _bounded(model: ir.Model, node: ir.Node, hidden: Mapping[ir.Value, Hidden]) -> bool:
    x, result = node.inputs[0], node.outputs[0]
    shape = g.static_shape(x)
    if x is None or x.dtype is None or shape is None:
        return False
    axes = _axes(model, node, len(shape))
    tests = [reader for reader in consumers(result) if is_op(reader, "IsNaN")]
    chosen = [reader for test in tests for reader in consumers(test.outputs[0])]
    if not all(is_op(reader, "Where") and result in reader.inputs[1:] for reader in chosen):
        return False
    if not tests and not _may_be_empty(hidden.get(x), len(shape), axes):
        return False
    graph, kind = model.graph, x.dtype.numpy()
    lowest = g.add_initializer(graph, f"{node.name}_lowest", np.array(-_most(kind), kind))
    for test in tests:
        largest = _largest(model, test, x, axes)
        replace([test], ir.node("Less", [largest, lowest]))
    node.replace_input_with(0, insert(graph, node, "Max", [x, lowest], shape))
    return True


def _axes(model: ir.Model, node: ir.Node, rank: int) -> tuple[int, ...]:
    if g.opset(model) >= SINGLE_AXIS:
        return (g.int_attribute(node, "axis", -1) % rank,)
    return tuple(range(g.int_attribute(node, "axis", 1) % rank, rank))


def _may_be_empty(hidden: Hidden | None, rank: int, axes: tuple[int, ...]) -> bool:
    if hidden is None:
        return False
    return bool(hidden.reshape((1,) * (rank - hidden.ndim) + hidden.shape).all(axes).any())


def _largest(model: ir.Model, node: ir.Node, x: ir.Value, axes: tuple[int, ...]) -> ir.Value:
    largest = reduced(model.graph, node, "ReduceMax", x, axes)
    largest.type = x.type
    return largest


@for_each("Equal")
def spell_out_infinite_equals(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a comparison for equality with infinity, of which Paddle-Lite takes the difference, by "beyond all numbers"."""
    for x, other in (node.inputs, reversed(node.inputs)):
        number = g.scalar(other)
        if x is not None and x.dtype is not None and number is not None and np.isinf(number):
            kind = x.dtype.numpy()
            last = g.add_initializer(graph, f"{node.name}_last", np.array(np.copysign(_most(kind), number), kind))
            replace([node], ir.node("Less" if number < 0 else "Greater", [x, last]))
            return True
    return False


def _most(kind: np.dtype[Any]) -> float:
    """The largest number of a type, also where doubles are computed as floats."""
    return min(float(np.finfo(kind).max), g.FLOAT_MAX)
