"""Fourier transforms as products with constant matrices of cosines and sines.

Complex numbers are pairs, real part first, on the last axis. Sources: the ONNX standard, DFT and STFT.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

LARGEST = 1 << 24
"""Most numbers of a matrix: 64 MiB."""

AXIS_AS_INPUT = 20
"""The first operator set in which the axis of DFT is an input."""

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def spell_out_dft(model: ir.Model) -> int:
    """Replace a DFT along one axis by a product.

    ::

        x (.., N, .., parts) ─ Transpose, Reshape (rest, N parts) ─ MatMul (N parts, 2 M) ─ Reshape, Transpose ─ y (.., M, .., 2)

    An inverse one of one side gives real numbers, ``(.., M, .., 1)``.

    Refused: unknown sizes, an axis or a length that is not constant, other types than float32, and matrices beyond
    :data:`LARGEST`.
    """
    return sum(_transform(model.graph, node) for node in list(model.graph) if is_op(node, "DFT"))


def spell_out_stft(model: ir.Model) -> int:
    """Replace an STFT by a convolution whose filters are cosines and sines under the window.

    ::

        x (B, T, parts) ─ Transpose ─ Conv (2 M filters of the length of a frame) ─ Reshape, Transpose ─ y (B, frames, M, 2)

    Refused: unknown sizes, a window, step or length that is not constant, other types than float32, and filters beyond
    :data:`LARGEST`.
    """
    return sum(_frames(model.graph, node) for node in list(model.graph) if is_op(node, "STFT"))


def _transform(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape = node.inputs[0], g.static_shape(node.inputs[0])
    length, axis = _integer(node, 1), _axis(graph, node)
    if (
        x is None
        or x.dtype is not ir.DataType.FLOAT
        or shape is None
        or axis is None
        or (length is None and g.input_at(node, 1))
    ):
        return False
    inverse, onesided = (bool(g.int_attribute(node, name, 0)) for name in ("inverse", "onesided"))
    places, parts, is_real = shape[axis], shape[-1], inverse and onesided
    whole = length if length is not None else 2 * (places - 1) if is_real else places
    count, results = whole // 2 + 1 if onesided and not inverse else whole, 1 if is_real else 2
    if whole < 1 or parts not in ((2,) if is_real else (1, 2)) or results * parts * places * count > LARGEST:
        return False
    last = len(shape) - 2
    turn = [*(a for a in range(len(shape) - 1) if a != axis), axis, len(shape) - 1]
    around = tuple(shape[a] for a in turn[:-2])
    moved = x if axis == last else insert(graph, node, "Transpose", [x], (*around, places, parts), perm=turn)
    rows = reshaped(graph, node, moved, (math.prod(around), places * parts))
    matrix = _matrix(places, whole, count, parts, inverse=inverse)
    if is_real:
        matrix = matrix[:, :, :1] * _both_sides(places, whole)[:, None, None]
    weight = _weight(graph, node, matrix.transpose(1, 0, 3, 2).reshape(places * parts, count * results))
    product = insert(graph, node, "MatMul", [rows, weight], (math.prod(around), count * results))
    result = reshaped(graph, node, product, (*around, count, results))
    back = [int(place) for place in np.argsort(turn)]
    replace([node], ir.node("Transpose", [result], attributes={"perm": back}))
    return True


def _both_sides(places: int, length: int) -> Vector:
    """How often each frequency of one side counts: twice, since the other side is its mirror image, unless it has none."""
    frequencies = np.arange(places)
    return np.where(2 * frequencies > length, 0.0, np.where((frequencies == 0) | (2 * frequencies == length), 1.0, 2.0))


def _frames(graph: ir.Graph, node: ir.Node) -> bool:
    x, shape, step, window = node.inputs[0], g.static_shape(node.inputs[0]), _integer(node, 1), g.input_at(node, 2)
    factors = g.constant(window) if window is not None else None
    length = _integer(node, 3) if g.input_at(node, 3) is not None else None if factors is None else factors.size
    if x is None or x.dtype is not ir.DataType.FLOAT or shape is None or len(shape) != 3 or not step or not length:
        return False
    if window is not None and (factors is None or factors.shape != (length,)):
        return False
    batch, places, parts = shape
    count, frames = length // 2 + 1 if g.int_attribute(node, "onesided", 1) else length, (places - length) // step + 1
    if parts not in (1, 2) or frames < 1 or 2 * parts * length * count > LARGEST:
        return False
    matrix = _matrix(length, length, count, parts, inverse=False)
    if factors is not None:
        matrix = matrix * factors.astype(np.float64)[:, None, None]
    weight = _weight(graph, node, matrix.transpose(2, 3, 0, 1).reshape(2 * count, parts, length))
    signal = insert(graph, node, "Transpose", [x], (batch, parts, places), perm=[0, 2, 1])
    read = insert(
        graph, node, "Conv", [signal, weight], (batch, 2 * count, frames), kernel_shape=[length], strides=[step]
    )
    apart = reshaped(graph, node, read, (batch, 2, count, frames))
    replace([node], ir.node("Transpose", [apart], attributes={"perm": [0, 3, 2, 1]}))
    return True


def _matrix(places: int, length: int, count: int, parts: int, *, inverse: bool) -> Matrix:
    """Factors ``(parts of what is read, places, parts of the result, frequencies)``; places beyond the length count nothing."""
    turns = np.outer(np.arange(places), np.arange(count)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    cosines, sines = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([cosines, sines], axis=1), np.stack([-sines, cosines], axis=1)][:parts])
    matrix[:, length:] = 0.0
    return matrix / length if inverse else matrix


def _weight(graph: ir.Graph, node: ir.Node, matrix: Matrix) -> ir.Value:
    value = g.add_initializer(graph, f"{node.name}_frequencies", np.ascontiguousarray(matrix, np.float32))
    value.meta[g.FREQUENCIES] = True
    return value


def _integer(node: ir.Node, position: int) -> int | None:
    value = g.input_at(node, position)
    constant = g.constant(value) if value is not None else None
    return int(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _axis(graph: ir.Graph, node: ir.Node) -> int | None:
    """The axis that is transformed, counted from the front; ``None`` if it is not constant or the last."""
    rank = len(g.static_shape(node.inputs[0]) or ())
    is_input = graph.opset_imports.get("", 1) >= AXIS_AS_INPUT
    if is_input:
        axis = _integer(node, 2) if g.input_at(node, 2) is not None else -2
    else:
        axis = g.int_attribute(node, "axis", 1)
    if axis is None or not -rank <= axis < rank or axis % rank == rank - 1:
        return None
    return axis % rank
