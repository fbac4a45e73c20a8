"""Fourier transforms as products with constant matrices of cosines and sines.

Complex numbers are pairs, real part first, on the last axis. Source: the ONNX standard, DFT and STFT.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.fourier import factor_of, frequencies, in_two_steps, part, stored
from converter_lite.passes.spelled_out.inserting import insert, reshaped

LARGEST = 1 << 24
"""Most numbers of a matrix: 64 MiB."""

MOST_OVERLAP = 16
"""Most frames that a place belongs to where frames are laid side by side."""

AXIS_AS_INPUT = 20
"""The first operator set in which the axis of DFT is an input."""

Vector = NDArray[np.float64]


@for_each("DFT")
def spell_out_dft(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a DFT along one axis by a product.

    ::

        x (.., N, .., parts) ─ Transpose, Reshape (rest, N parts) ─ MatMul (N parts, 2 M) ─ Reshape, Transpose ─ y (.., M, .., 2)

    An inverse one of one side gives real numbers, ``(.., M, .., 1)``. Long ones become two products.

    Refused: unknown sizes, an axis or a length that is not constant, other types than float32, and matrices beyond
    :data:`LARGEST`.
    """
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
    if whole < 1 or parts not in ((2,) if is_real else (1, 2)):
        return False
    factor = None if is_real or places != whole else factor_of(whole)
    if factor is None and results * parts * places * count > LARGEST:
        return False
    last = len(shape) - 2
    turn = [*(a for a in range(len(shape) - 1) if a != axis), axis, len(shape) - 1]
    around = tuple(shape[a] for a in turn[:-2])
    moved = x if axis == last else insert(graph, node, "Transpose", [x], (*around, places, parts), perm=turn)
    rows = math.prod(around)
    if factor is not None:
        product = in_two_steps(graph, node, moved, (rows, whole, parts), (factor, count), inverse=inverse)
    else:
        matrix = frequencies(places, whole, count, parts, inverse=inverse)
        if is_real:
            matrix = matrix[:, :, :1] * _both_sides(places, whole)[:, None, None]
        weight = stored(graph, node, matrix.transpose(1, 0, 3, 2).reshape(places * parts, count * results))
        signals = reshaped(graph, node, moved, (rows, places * parts))
        product = insert(graph, node, "MatMul", [signals, weight], (rows, count * results))
    result = reshaped(graph, node, product, (*around, count, results))
    back = [int(place) for place in np.argsort(turn)]
    replace([node], ir.node("Transpose", [result], attributes={"perm": back}))
    return True


@for_each("STFT")
def spell_out_stft(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an STFT by a convolution whose filters are cosines and sines under the window.

    ::

        x (B, T, parts) ─ Transpose ─ Conv (2 M filters of the length of a frame) ─ Reshape, Transpose ─ y (B, frames, M, 2)

    Long frames of a whole number of steps are laid side by side instead, and transformed as by :func:`spell_out_dft`. Real
    signals may lack the last axis, as in onnxruntime.

    Refused: unknown sizes, a window, step or length that is not constant, other types than float32, and filters beyond
    :data:`LARGEST`.
    """
    x, shape, step, window = node.inputs[0], g.static_shape(node.inputs[0]), _integer(node, 1), g.input_at(node, 2)
    factors = g.constant(window) if window is not None else None
    length = _integer(node, 3) if g.input_at(node, 3) is not None else None if factors is None else factors.size
    if (
        x is None
        or x.dtype is not ir.DataType.FLOAT
        or shape is None
        or len(shape) not in (2, 3)
        or not step
        or not length
    ):
        return False
    if window is not None and (factors is None or factors.shape != (length,)):
        return False
    batch, places, parts = shape if len(shape) == 3 else (*shape, 1)
    count, frames = length // 2 + 1 if g.int_attribute(node, "onesided", 1) else length, (places - length) // step + 1
    if parts not in (1, 2) or frames < 1:
        return False
    if len(shape) == 2:  # the standard does not know it, nor does inference
        node.outputs[0].type = x.type
        x = reshaped(graph, node, x, (batch, places, parts))
    factor = factor_of(length) if length % step == 0 and length <= MOST_OVERLAP * step else None
    if factor is not None:
        signals = _side_by_side(graph, node, x, (length, step, frames))
        if factors is not None:
            shown = stored(graph, node, np.repeat(factors.astype(np.float64), parts)[None])
            signals = insert(graph, node, "Mul", [signals, shown], (batch * frames, length * parts))
        found = in_two_steps(graph, node, signals, (batch * frames, length, parts), (factor, count), inverse=False)
        target = g.add_initializer(graph, f"{node.name}_shape", np.array((batch, frames, count, 2)))
        replace([node], ir.node("Reshape", [found, target]))
        return True
    if 2 * parts * length * count > LARGEST:
        return False
    matrix = frequencies(length, length, count, parts, inverse=False)
    if factors is not None:
        matrix = matrix * factors.astype(np.float64)[:, None, None]
    weight = stored(graph, node, matrix.transpose(2, 3, 0, 1).reshape(2 * count, parts, length))
    signal = insert(graph, node, "Transpose", [x], (batch, parts, places), perm=[0, 2, 1])
    read = insert(
        graph, node, "Conv", [signal, weight], (batch, 2 * count, frames), kernel_shape=[length], strides=[step]
    )
    apart = reshaped(graph, node, read, (batch, 2, count, frames))
    replace([node], ir.node("Transpose", [apart], attributes={"perm": [0, 3, 2, 1]}))
    return True


def _both_sides(places: int, length: int) -> Vector:
    """How often each frequency of one side counts: twice, since the other side is its mirror image, unless it has none."""
    frequencies = np.arange(places)
    return np.where(2 * frequencies > length, 0.0, np.where((frequencies == 0) | (2 * frequencies == length), 1.0, 2.0))


def _side_by_side(graph: ir.Graph, node: ir.Node, x: ir.Value, sizes: tuple[int, int, int]) -> ir.Value:
    """Overlapping frames of signals ``(batch, places, parts)``, one behind the other: ``(batch frames, length parts)``."""
    (batch, _, parts), (length, step, frames) = g.static_shape(x) or (), sizes
    overlap = length // step
    whole = part(graph, node, x, 0, (frames + overlap - 1) * step)
    steps = reshaped(graph, node, whole, (batch, frames + overlap - 1, step * parts))
    pieces = [part(graph, node, steps, place, frames) for place in range(overlap)]
    beside = insert(graph, node, "Concat", pieces, (batch, frames, length * parts), axis=2)
    return reshaped(graph, node, beside, (batch * frames, length * parts))


def _integer(node: ir.Node, position: int) -> int | None:
    value = g.input_at(node, position)
    constant = g.constant(value) if value is not None else None
    return int(constant.reshape(-1)[0]) if constant is not None and constant.size == 1 else None


def _axis(graph: ir.Graph, node: ir.Node) -> int | None:
    """The axis that is transformed, counted from the front; ``None`` if it is not constant or the last."""
    rank = len(g.static_shape(node.inputs[0]) or ())
    is_input = g.opset(graph) >= AXIS_AS_INPUT
    if is_input:
        axis = _integer(node, 2) if g.input_at(node, 2) is not None else -2
    else:
        axis = g.int_attribute(node, "axis", 1)
    if axis is None or not -rank <= axis < rank or axis % rank == rank - 1:
        return None
    return axis % rank
