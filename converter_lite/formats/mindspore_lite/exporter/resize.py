"""Resize.

Only cases in which the runtime agrees with ONNX use its Resize; the others are exact by construction: nearest is a
Gather along each axis, linear and cubic are a product with the matrix of interpolation weights along each axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import CoordinateMode, DataType, Format, NearestMode, ResizeMethod
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    as_image,
    gather_axis,
    refuse_whole_numbers,
    required,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.graph import constant, float_attribute, input_at, int_attribute, ints_attribute, text_attribute
from converter_lite.kernels.interpolation import ROUNDINGS, TRANSFORMS, Filter, nearest, source_positions

_NATIVE_LINEAR = {
    "half_pixel": CoordinateMode.HALF_PIXEL,
    "pytorch_half_pixel": CoordinateMode.HALF_PIXEL,
    "align_corners": CoordinateMode.ALIGN_CORNERS,
    "asymmetric": CoordinateMode.ASYMMETRIC,
}


def _resize(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    before, after = ctx.shape(x), ctx.shape(out)
    mode = text_attribute(node, "mode", "nearest")
    transform = text_attribute(node, "coordinate_transformation_mode", "half_pixel")
    rounding = text_attribute(node, "nearest_mode", "round_prefer_floor")
    if transform == "tf_crop_and_resize":
        raise Unsupported("tf_crop_and_resize")
    if transform not in TRANSFORMS:
        raise Unsupported(f"coordinate_transformation_mode {transform}")
    if mode not in ("nearest", "linear", "cubic"):
        raise Unsupported(f"mode {mode}")
    scales = _scales(ctx, node, before, after)
    centres = {
        axis: source_positions(transform, before[axis], after[axis], scales[axis])
        for axis in range(len(before))
        if before[axis] != after[axis] or scales[axis] != 1.0
    }
    if mode == "nearest":
        if rounding not in ROUNDINGS:
            raise Unsupported(f"nearest_mode {rounding}")
        _nearest(ctx, x, out, {axis: nearest(c, rounding, before[axis]) for axis, c in centres.items()})
        return
    refuse_whole_numbers(ctx, x)
    exact = all(scales[axis] * before[axis] == after[axis] for axis in centres)
    image = len(before) == 4 and set(centres) <= {2, 3}
    single = transform == "pytorch_half_pixel" and 1 in after[2:]
    antialias, excludes = (bool(int_attribute(node, name, 0)) for name in ("antialias", "exclude_outside"))
    is_native = transform in _NATIVE_LINEAR and not single and not (antialias and min(scales) < 1)
    if mode == "linear" and exact and image and is_native:
        _native(ctx, x, out, ResizeMethod.LINEAR, _NATIVE_LINEAR[transform])
        return
    interpolation = Filter(mode, float_attribute(node, "cubic_coeff_a", -0.75), antialias, excludes)
    matrices = {axis: interpolation.weights(c, before[axis], scales[axis]) for axis, c in centres.items()}
    _interpolated(ctx, x, out, matrices)


def _scales(ctx: Lowering, node: ir.Node, before: Sequence[int], after: Sequence[int]) -> list[float]:
    """Scale of every axis: as written, or from the sizes."""
    given = constant(input_at(node, 2))
    if given is None and input_at(node, 2) is not None:
        raise Unsupported("its scales are not constant")
    plain = [b / a for a, b in zip(before, after, strict=True)]
    axes = [a % len(before) for a in ints_attribute(node, "axes", tuple(range(len(before))))]
    written = [float(scale) for scale in given.reshape(-1)] if given is not None else []
    written = written or _common_scale(ctx, node, [before[axis] for axis in axes])
    if written:
        for axis, scale in zip(axes, written, strict=True):
            plain[axis] = scale
    return plain


def _common_scale(ctx: Lowering, node: ir.Node, before: Sequence[int]) -> list[float]:
    """The scale of all axes that keeps the picture's proportions, of which the sizes are rounded; none: each has its own."""
    choose = {"not_larger": min, "not_smaller": max}.get(text_attribute(node, "keep_aspect_ratio_policy", "stretch"))
    if choose is None:
        return []
    sizes = ctx.ints(required(node, 3), "sizes")
    return [choose(size / side for size, side in zip(sizes, before, strict=True))] * len(before)


def _nearest(ctx: Lowering, x: ir.Value, out: ir.Value, picks: dict[int, list[int]]) -> None:
    before, after = ctx.shape(x), ctx.shape(out)
    plain = all(
        picks[axis] == [int(i * before[axis] // after[axis]) for i in range(after[axis])]
        and after[axis] % before[axis] == 0
        for axis in picks
    )
    is_real = ctx.dtype(x) is DataType.FLOAT32
    if plain and picks and is_real and len(before) == 4 and set(picks) <= {2, 3}:
        _native(ctx, x, out, ResizeMethod.NEAREST, CoordinateMode.ASYMMETRIC)
        return
    perm = ctx.best_perm([x], len(before))
    index = ctx.use(x, perm)
    for axis, entries in picks.items():
        index = gather_axis(ctx, index, perm.index(axis), entries)
    if picks:
        ctx.bind(out, index, perm)
    else:
        ctx.alias(out, x, pm.identity(len(before)))


def _native(ctx: Lowering, x: ir.Value, out: ir.Value, method: ResizeMethod, mode: CoordinateMode) -> None:
    height, width = ctx.shape(out)[2:]
    index = ctx.emit(
        "Resize",
        [as_image(ctx, x), ctx.int_constant([height, width], "size")],
        pm.permute(ctx.shape(out), pm.NHWC),
        format=int(Format.NHWC),
        method=int(method),
        new_height=height,
        new_width=width,
        coordinate_transform_mode=int(mode),
        nearest_mode=int(NearestMode.FLOOR if method is ResizeMethod.NEAREST else NearestMode.NORMAL),
    )
    ctx.bind(out, index, pm.NHWC)


def _interpolated(ctx: Lowering, x: ir.Value, out: ir.Value, matrices: dict[int, NDArray[np.float32]]) -> None:
    """One product per axis, which is moved to the end for it."""
    rank = len(ctx.shape(x))
    order = pm.identity(rank)
    index = ctx.use(x)
    for axis, matrix in matrices.items():
        wanted = (*(a for a in range(rank) if a != axis), axis)
        index = _reordered(ctx, index, order, wanted)
        order = wanted
        dims = (*ctx.ms.tensors[index].dims[:-1], matrix.shape[0])
        inputs = [index, ctx.add_constant(np.ascontiguousarray(matrix.T), "interpolation")]
        index = ctx.emit("MatMulFusion", inputs, dims)
    if matrices:
        ctx.bind(out, index, order)
    else:
        ctx.alias(out, x, pm.identity(rank))


def _reordered(ctx: Lowering, index: int, order: pm.Perm, wanted: pm.Perm) -> int:
    step = pm.between(order, wanted)
    if step == pm.identity(len(step)):
        return index
    return ctx.transpose(index, step)


TABLE: dict[str, Lower] = {"Resize": _resize}
