"""Constants behind nodes: what a program computes from weights alone, where a translation needs the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Array = NDArray[Any]


def folded(value: ir.Value, left: int = 64) -> Array | None:
    """The numbers of a constant, or of what is computed from constants; ``None`` if they are known at run time only."""
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None or not left or node.op_type not in FUNCTIONS or len(node.outputs) != 1:
        return None
    arrays = [None if source is None else folded(source, left - 1) for source in node.inputs]
    if any(array is None for array in arrays):
        return None
    return FUNCTIONS[node.op_type](node, [array for array in arrays if array is not None])


def _reshape(node: ir.Node, arrays: list[Array]) -> Array:
    return arrays[0].reshape(arrays[1].tolist())


def _transpose(node: ir.Node, arrays: list[Array]) -> Array:
    return arrays[0].transpose(list(node.attributes["perm"].as_ints()))


def _concat(node: ir.Node, arrays: list[Array]) -> Array:
    return np.concatenate(arrays, node.attributes["axis"].as_int())


def _unsqueeze(node: ir.Node, arrays: list[Array]) -> Array:
    return np.expand_dims(arrays[0], tuple(arrays[1].tolist()))


def _squeeze(node: ir.Node, arrays: list[Array]) -> Array:
    return np.squeeze(arrays[0], tuple(arrays[1].tolist()))


def _add(node: ir.Node, arrays: list[Array]) -> Array:
    return np.add(*arrays)


def _slice(node: ir.Node, arrays: list[Array]) -> Array:
    array, starts, ends, axes, steps = arrays
    places = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes.tolist(), steps.tolist(), strict=True):
        places[axis] = slice(start, None if step < 0 and end < -array.shape[axis] else end, step)
    return array[tuple(places)]


FUNCTIONS: dict[str, Callable[[ir.Node, list[Array]], Array]] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Add": _add,
    "Slice": _slice,
}
