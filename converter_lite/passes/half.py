"""Constants in half the space: float32 initializers stored as float16 behind a Cast, which runtimes fold when they load."""

from __future__ import annotations

from collections.abc import Container, Iterator

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
    names, nodes = g.Names(graph), {node.name or "" for node in g.all_nodes(graph)}
    for name, array in _constants(model, exactly=exactly):
        value = graph.initializers[name]
        stored = g.add_initializer(graph, f"{name}_float16", array.astype(np.float16), names=names)
        cast = ir.node("Cast", [stored], attributes={"to": ir.DataType.FLOAT.value})
        cast.name, wide = g.unique_among(f"{name}_cast", nodes), cast.outputs[0]
        wide.shape, wide.dtype, wide.name = value.shape, ir.DataType.FLOAT, names.unique(f"{name}_float32")
        for node, position in list(value.uses()):
            node.replace_input_with(position, wide)
        graph.insert_before(next(iter(graph)), cast)  # before every reader, those inside of subgraphs included
        del graph.initializers[name]
        count += 1
    return count


def bytes_saved(model: ir.Model, *, integers: Container[str] = ()) -> int:
    """What exact constants in float16 save in a file; those in ``integers`` will not be floats there."""
    constants = ((name, array) for name, array in _constants(model, exactly=True) if name not in integers)
    return sum(array.nbytes // 2 - _cast_bytes(name) for name, array in constants)


def _constants(model: ir.Model, *, exactly: bool) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Float32 constants that can be float16."""
    for name, value in list(model.graph.initializers.items()):
        if value.dtype is not ir.DataType.FLOAT or not value.uses() or value.is_graph_output():
            continue
        if any(node.op_type in KEPT for node, _ in value.uses()):
            continue
        array = g.constant(value)
        if array is None or array.size < SMALLEST:
            continue
        if array.nbytes // 2 > _cast_bytes(name) and is_float16(array) if exactly else _is_in_range(array):
            yield name, array


def is_float16(array: NDArray[np.float32]) -> bool:
    """Whether float16 holds all numbers as they are."""
    with np.errstate(over="ignore"):
        return np.array_equal(array.astype(np.float16), array)


def _is_in_range(array: NDArray[np.float32]) -> bool:
    return float(np.abs(array.astype(np.float64)).max()) <= FLOAT16_MAX


def _cast_bytes(name: str) -> int:
    return CAST + 3 * len(name)
