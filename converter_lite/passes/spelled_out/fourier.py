"""Matrices of cosines and sines, and long Fourier transforms as two products with small ones.

A transform of length N multiplies each row with N² numbers, one in two steps with about 4 N √N. Source: Cooley and Tukey, An
Algorithm for the Machine Calculation of Complex Fourier Series, Mathematics of Computation, 1965.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.spelled_out.inserting import insert, reshaped

LONG = 256
"""Length from which two small products are faster than a large one (measured, docs/decisions/0036-long-transforms.md)."""

Matrix = NDArray[np.float64]


def frequencies(places: int, length: int, count: int, parts: int, *, inverse: bool) -> Matrix:
    """Factors ``(parts of what is read, places, parts of the result, frequencies)``; places beyond the length count nothing."""
    turns = np.outer(np.arange(places), np.arange(count)) % length
    angle = 2 * np.pi * turns / length * (1 if inverse else -1)
    cosines, sines = np.cos(angle), np.sin(angle)
    matrix = np.stack([np.stack([cosines, sines], axis=1), np.stack([-sines, cosines], axis=1)][:parts])
    matrix[:, length:] = 0.0
    return matrix / length if inverse else matrix


def stored(graph: ir.Graph, node: ir.Node, matrix: Matrix) -> ir.Value:
    """A matrix as a constant in float32 that is no learnt weight."""
    value = g.add_initializer(graph, f"{node.name}_frequencies", np.ascontiguousarray(matrix, np.float32))
    value.meta[g.FREQUENCIES] = True
    return value


def factor_of(length: int) -> int | None:
    """The larger of two factors of the length that are nearest to each other, if a transform in two steps is worth it."""
    factor = next(f for f in range(math.isqrt(length - 1) + 1, length + 1) if length % f == 0) if length > 1 else 1
    return factor if length >= LONG and factor + length // factor <= length // 8 else None


def in_two_steps(
    graph: ir.Graph,
    node: ir.Node,
    signals: ir.Value,
    shape: tuple[int, int, int],
    sizes: tuple[int, int],
    *,
    inverse: bool,
) -> ir.Value:
    """The first frequencies of rows of signals, ``(rows, frequencies, 2)``.

    Args:
        graph: Of the node.
        node: The new ones are inserted in front of it.
        signals: As many numbers as ``shape`` says.
        shape: ``(rows, length, parts)``; 1 part of real numbers, 2 of complex ones.
        sizes: A factor of the length, and how many frequencies are wanted.
        inverse: Turns the other way, and divides by the length.

    Place ``B a + b`` of ``A B`` and frequency ``c + A d``, with a and c below A, b and d below B: the sum over a is one product,
    and that over b, with the angle that depends on b and c, another one for each c.

    ::

        (rows, A, B, parts) ─ Transpose ─ MatMul (A parts, 2 A) ─ (rows, B, 2, A) ─ Transpose ─ MatMul (A, 2 B, 2 D)
        ─ (A, rows, D, 2) ─ Transpose ─ (rows, D A, 2) ─ Slice
    """
    (rows, length, parts), (many, count) = shape, sizes
    few = length // many
    tail = (2,) * (parts - 1)
    apart = reshaped(graph, node, signals, (rows, many, few, *tail))
    turned = insert(graph, node, "Transpose", [apart], (rows, few, many, *tail), perm=[0, 2, 1, 3][: 2 + parts])
    first = frequencies(many, many, many, parts, inverse=inverse).transpose(1, 0, 2, 3).reshape(many * parts, 2 * many)
    sums = insert(
        graph,
        node,
        "MatMul",
        [reshaped(graph, node, turned, (rows * few, many * parts)), stored(graph, node, first)],
        (rows * few, 2 * many),
    )
    pairs = reshaped(graph, node, sums, (rows, few, 2, many))
    by_frequency = insert(graph, node, "Transpose", [pairs], (many, rows, few, 2), perm=[3, 0, 1, 2])
    blocks = -(-count // many)
    second = frequencies(few, length, many * blocks, 2, inverse=inverse) * (many if inverse else 1)
    second = second.reshape(2, few, 2, blocks, many).transpose(4, 1, 0, 3, 2).reshape(many, few * 2, blocks * 2)
    read = reshaped(graph, node, by_frequency, (many, rows, few * 2))
    found = insert(graph, node, "MatMul", [read, stored(graph, node, second)], (many, rows, blocks * 2))
    separate = reshaped(graph, node, found, (many, rows, blocks, 2))
    ordered = insert(graph, node, "Transpose", [separate], (rows, blocks, many, 2), perm=[1, 2, 0, 3])
    return part(graph, node, reshaped(graph, node, ordered, (rows, blocks * many, 2)), 0, count)


def part(graph: ir.Graph, node: ir.Node, value: ir.Value, first: int, count: int) -> ir.Value:
    """Some places along axis 1."""
    rows, places, width = g.static_shape(value) or ()
    if (first, count) == (0, places):
        return value
    numbers = {"first": first, "end": first + count, "axis": 1}
    bounds = [g.add_initializer(graph, f"{node.name}_{name}", np.array([number])) for name, number in numbers.items()]
    return insert(graph, node, "Slice", [value, *bounds], (rows, count, width))
