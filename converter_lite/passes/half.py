"""Constants in half the space: float32 initializers stored as float16 behind a Cast, which runtimes fold when they load."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g

SMALLEST = 64
"""Constants with fewer elements stay: the Cast would take more space than is saved, and scales keep their precision."""

CAST = 65
"""Bytes of a Cast in a file, without the name of its constant, which it repeats three times."""

FLOAT16_MAX = float(np.finfo(np.float16).max)

KEPT = ("QuantizeLinear", "DequantizeLinear")
"""Readers that require float32 scales."""


def store_constants_as_float16(model: ir.Model, *, exactly: bool = False) -> int:
    """Store large float32 constants as float16, in place; returns how many.

    Args:
        model: Values beyond float16's range stay float32.
        exactly: And so do constants that float16 would round, or that take more space with a Cast.
    """
    graph = model.graph
    count = 0
    for name, value in list(graph.initializers.items()):
        if value.dtype is not ir.DataType.FLOAT or not value.uses() or value.is_graph_output():
            continue
        if any(node.op_type in KEPT for node, _ in value.uses()):
            continue
        array = g.constant(value)
        if array is None or array.size < SMALLEST:
            continue
        if not (_saves(name, array) and is_float16(array) if exactly else _is_in_range(array)):
            continue
        stored = g.add_initializer(graph, f"{name}_float16", array.astype(np.float16))
        cast = ir.node("Cast", [stored], attributes={"to": ir.DataType.FLOAT.value}, name=f"{name}_cast")
        cast.outputs[0].shape, cast.outputs[0].dtype, cast.outputs[0].name = value.shape, value.dtype, f"{name}_float32"
        for node, position in list(value.uses()):
            node.replace_input_with(position, cast.outputs[0])
        graph.insert_before(next(iter(graph)), cast)  # before every reader, those inside of subgraphs included
        del graph.initializers[name]
        count += 1
    return count


def is_float16(array: NDArray[np.float32]) -> bool:
    """Whether float16 holds all numbers as they are."""
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(np.float16), array)


def _is_in_range(array: NDArray[np.float32]) -> bool:
    return float(np.abs(array.astype(np.float64)).max()) <= FLOAT16_MAX


def _saves(name: str, array: NDArray[np.float32]) -> bool:
    return array.nbytes // 2 > CAST + 3 * len(name)
