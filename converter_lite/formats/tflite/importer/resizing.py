"""Pictures of another size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.halves import UP_A_LITTLE, UP_A_TRIFLE, moved, narrow_params
from converter_lite.formats.tflite.importer.values import shape_of
from converter_lite.kernels.interpolation import nearest_by_ratio, nearest_of_onnx


def _resize(ctx: Importer, op: Operator) -> None:
    """Coordinates of the corners, of the middles of elements, or of their beginnings are mapped; halves of integers go up.

    Source: the runtime's ``reference/resize_nearest_neighbor.h``, which rounds down, with corners to the nearest (halves up).
    """
    corners, middles = bool(op.get("align_corners")), bool(op.get("half_pixel_centers"))
    linear = op.kind == "RESIZE_BILINEAR"
    if corners and middles:
        raise ModelError("align_corners and half_pixel_centers exclude one another")
    if not linear or ctx.params(op.inputs[0]) is not None:
        ctx.check_same_grid(op, 0)
    value = ctx.picture(op.inputs[0])
    mode = "align_corners" if corners else "half_pixel" if middles else "asymmetric"
    rounding = None if linear else "round_prefer_ceil" if corners or middles else "floor"
    if linear and narrow_params(ctx, op.outputs[0]) is not None:
        places = [_Places.of(old, new, mode) for old, new in _known_sizes(ctx, op, value)]
        if any(place.is_odd for place in places):
            for axis, place in zip((2, 3), places, strict=True):
                value = _between(ctx, value, axis, place)
            ctx.bind_picture(op.outputs[0], moved(ctx, op, value, UP_A_TRIFLE))
            return
    if not linear and (gathered := _by_ratio(ctx, op, value, mode)) is not None:
        ctx.bind_picture(op.outputs[0], gathered)
        return
    made = ctx.add(
        "Resize",
        [value, None, *_scales_or_sizes(ctx, op, value)],
        mode="linear" if linear else "nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )
    ctx.bind_picture(op.outputs[0], moved(ctx, op, made, UP_A_LITTLE) if linear else made)


def _by_ratio(ctx: Importer, op: Operator, value: ir.Value, mode: str) -> ir.Value | None:
    """The nearest elements, gathered, where ONNX's Resize, which does not multiply by the ratio, takes others."""
    sizes, rounding = _known_sizes(ctx, op, value), "floor" if mode == "asymmetric" else "round_prefer_ceil"
    wanted = [nearest_by_ratio(mode, old, new) for old, new in sizes]
    if wanted == [nearest_of_onnx(mode, rounding, old, new) for old, new in sizes]:
        return None
    for axis, elements in zip((2, 3), wanted, strict=True):
        value = ctx.add("Gather", [value, ctx.int64(elements, "places")], axis=axis)
    return value


@dataclass(frozen=True)
class _Places:
    """Where the elements of a longer or shorter axis lie in the old one.

    Attributes:
        before: The element in front of each.
        after: The one behind it.
        part: How near it is to that one.
    """

    before: list[int]
    after: list[int]
    part: NDArray[np.float32]

    @classmethod
    def of(cls, old: int, new: int, mode: str) -> _Places:
        """Places by the mapping of a Resize, in float32 as the runtime finds them, and in steps of 1/2048."""
        is_aligned = mode == "align_corners" and new > 1
        scale = np.float32(old - is_aligned) / np.float32(new - is_aligned)
        first = np.float32(0.5) * scale - np.float32(0.5) if mode == "half_pixel" else np.float32(0)
        places = np.clip(np.arange(new, dtype=np.float32) * scale + first, 0, old - 1)
        before = places.astype(np.int64)
        part = np.rint((places - before.astype(np.float32)) * PARTS) / PARTS
        return cls(before.tolist(), np.minimum(before + 1, old - 1).tolist(), part.astype(np.float32))

    @property
    def is_odd(self) -> bool:
        """Whether they are no multiples of what a few halvings give, so that it matters in which steps they are taken."""
        return bool(np.any(self.part * FEW_HALVINGS % 1))


PARTS = 2048
"""Steps of one in which the runtime's integer kernel knows places."""

FEW_HALVINGS = 64


def _known_sizes(ctx: Importer, op: Operator, value: ir.Value) -> list[tuple[int, int]]:
    """Old and new height and width; nothing where one is unknown."""
    old, wanted = shape_of(value)[2:], ctx.sizes(op.inputs[1]) or ()
    new = [size for size in wanted if isinstance(size, int) and size > 0]
    return list(zip(old, new, strict=True)) if len(new) == len(old) and min(old) > 0 else []


def _between(ctx: Importer, value: ir.Value, axis: int, places: _Places) -> ir.Value:
    """Elements between those along an axis."""
    before, after = (
        ctx.add("Gather", [value, ctx.int64(each, "places")], axis=axis) for each in (places.before, places.after)
    )
    part = ctx.builder.constant(places.part.reshape((-1, 1) if axis == 2 else (-1,)), np.float32, "parts")
    return ctx.add("Add", [before, ctx.add("Mul", [ctx.add("Sub", [after, before]), part])])


def _scales_or_sizes(ctx: Importer, op: Operator, value: ir.Value) -> list[ir.Value | None]:
    """Scales where they are whole numbers, which leave the batch open; sizes otherwise."""
    shape, wanted = shape_of(value), ctx.sizes(op.inputs[1])
    if wanted is not None and len(wanted) != 2:
        raise ModelError(f"its new size is {wanted}")
    sizes = [size for size in wanted or () if isinstance(size, int)]
    if len(sizes) != 2:
        size = ctx.as_int64(op.inputs[1])
    else:
        if min(sizes) < 1:
            raise ModelError(f"its new size is {sizes}")
        if all(old > 0 and new % old == 0 for old, new in zip(shape[2:], sizes, strict=True)):
            scales = [1, 1, *(new // old for old, new in zip(shape[2:], sizes, strict=True))]
            return [ctx.builder.constant(scales, np.float32, "scales")]
        if -1 not in shape[:2]:
            return [None, ctx.int64([*shape[:2], *sizes], "sizes")]
        size = ctx.int64(sizes, "size")
    kept = ctx.add("Gather", [ctx.add("Shape", [value]), ctx.int64([0, 1], "axes")])
    return [None, ctx.add("Concat", [kept, size], axis=0)]


HANDLERS: dict[str, Handler] = {"RESIZE_BILINEAR": _resize, "RESIZE_NEAREST_NEIGHBOR": _resize}
