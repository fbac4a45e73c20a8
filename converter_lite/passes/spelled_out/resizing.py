"""Resize."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.kernels.interpolation import (
    ROUNDINGS,
    TRANSFORMS,
    Filter,
    nearest,
    nearest_by_ratio,
    source_positions,
)
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

PLAIN_LINEAR = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
"""Coordinate modes in which runtimes interpolate pictures themselves."""

ROUNDED = 1e-5
"""Elements by which a size may differ from factor times input: a factor is a float32."""

SCALES = 2
"""Place of a Resize's factors since operator set 11; earlier, it is not spelled out."""


@for_each("Resize")
def spell_out_resize(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a Resize that runtimes lack: over other axes, cubic, antialias, of factors that are not those of the sizes.

    ::

        nearest:          a Gather along each axis
        linear, cubic:    Transpose ─ MatMul(weights of interpolation, x) ─ Transpose for each axis

    Weights come first in the product, so that no plan quantizes them.

    Refused: unknown sizes and factors, and regions.
    """
    return _resize(graph, node)


@for_each("Resize")
def spell_out_fractions(graph: ir.Graph, node: ir.Node) -> bool:
    """:func:`spell_out_resize`, and nearest elements by factors that are not whole: oneDNN takes others than Paddle's kernel."""
    return _resize(graph, node, only_whole=True)


def _resize(graph: ir.Graph, node: ir.Node, *, only_whole: bool = False) -> bool:
    x, before, after = node.inputs[0], g.static_shape(node.inputs[0]), g.static_shape(node.outputs[0])
    mode, transform, rounding = (
        g.text_attribute(node, name, default)
        for name, default in (
            ("mode", "nearest"),
            ("coordinate_transformation_mode", "half_pixel"),
            ("nearest_mode", "round_prefer_floor"),
        )
    )
    if x is None or x.dtype is not ir.DataType.FLOAT or before is None or after is None:
        return False
    if 0 in (*before, *after):
        return False
    if mode not in ("nearest", "linear", "cubic") or transform not in TRANSFORMS or rounding not in ROUNDINGS:
        return False
    factors = _factors(node, before, after)
    if factors is None:
        return False
    is_whole = mode != "nearest" or all(factor.is_integer() for factor in factors)
    if _is_plain(node, (before, after), factors, (mode, transform, rounding)) and (is_whole or not only_whole):
        return False
    coefficient = g.float_attribute(node, "cubic_coeff_a", -0.75)
    antialias, excludes = (bool(g.int_attribute(node, name, 0)) for name in ("antialias", "exclude_outside"))
    interpolation = Filter(mode, coefficient, antialias, excludes)
    sizes = list(before)
    for axis, (size, result, factor) in enumerate(zip(before, after, factors, strict=True)):
        if size == result and factor == 1.0:
            continue
        positions = source_positions(transform, size, result, factor)
        sizes[axis] = result
        if mode == "nearest":
            index = g.add_initializer(
                graph, f"{node.name}_axis_{axis}", np.array(nearest(positions, rounding, size), np.int64)
            )
            x = insert(graph, node, "Gather", [x, index], sizes, axis=axis)
        else:
            x = _product(graph, node, x, axis, interpolation.weights(positions, size, factor))
    replace([node], ir.node("Identity", [x]))
    return True


def _factors(node: ir.Node, before: tuple[int, ...], after: tuple[int, ...]) -> list[float] | None:
    """Factor of every axis, or ``None`` if they are not known."""
    if len(node.inputs) <= SCALES or g.text_attribute(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    found = [result / size for size, result in zip(before, after, strict=True)]
    given = node.inputs[SCALES]
    written = g.constant(given)
    if given is None or (written is not None and not written.size):
        return found
    if written is None:
        return None
    axes = g.ints_attribute(node, "axes", tuple(range(len(before))))
    for axis, factor in zip(axes, written.reshape(-1), strict=True):
        found[axis] = float(factor)
    return found


def _is_plain(
    node: ir.Node, sizes: tuple[tuple[int, ...], tuple[int, ...]], factors: list[float], modes: tuple[str, str, str]
) -> bool:
    """Whether runtimes have it: height and width of pictures, by factors that are those of the sizes."""
    (mode, transform, rounding), (before, after) = modes, sizes
    if len(before) != 4 or "axes" in node.attributes or before[:2] != after[:2] or factors[:2] != [1.0, 1.0]:
        return False
    allowed = ROUNDED if mode == "linear" else 0.0
    if any(abs(s * f - r) > allowed for s, f, r in zip(before, factors, after, strict=True)):
        return False
    if mode == "linear":
        sides = zip(before[2:], after[2:], strict=True)
        to_a_line = any(new == 1 and (old > 1 or transform == "align_corners") for old, new in sides)
        is_wide = g.int_attribute(node, "antialias", 0) and min(factors) < 1
        return transform in PLAIN_LINEAR and not to_a_line and not is_wide
    if mode == "cubic":
        return False
    for size, factor, result in zip(before, factors, after, strict=True):
        if nearest(source_positions(transform, size, result, factor), rounding, size) != nearest_by_ratio(
            "asymmetric", size, result
        ):
            return False  # Paddle-Lite multiplies
    grows = all(factor >= 1 and factor.is_integer() for factor in map(float, factors))
    return (transform == "asymmetric" and rounding == "floor") or (
        grows and transform == "half_pixel" and rounding.startswith("round_prefer")
    )


def _product(graph: ir.Graph, node: ir.Node, x: ir.Value, axis: int, matrix: NDArray[np.float32]) -> ir.Value:
    """The matrix times an axis of a tensor."""
    shape = g.static_shape(x)
    assert shape is not None
    order = [axis, *(a for a in range(len(shape)) if a != axis)]
    others = [shape[a] for a in order[1:]]
    turned = insert(graph, node, "Transpose", [x], [shape[axis], *others], perm=order) if axis else x
    flat = reshaped(graph, node, turned, (shape[axis], math.prod(others)))
    stored = g.add_initializer(graph, f"{node.name}_weights_{axis}", matrix)
    made = insert(graph, node, "MatMul", [stored, flat], (len(matrix), math.prod(others)))
    back = reshaped(graph, node, made, (len(matrix), *others))
    if not axis:
        return back
    result = [*shape[:axis], len(matrix), *shape[axis + 1 :]]
    return insert(graph, node, "Transpose", [back], result, perm=[order.index(a) for a in range(len(shape))])
