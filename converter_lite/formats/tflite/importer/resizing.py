"""Pictures of another size."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.values import shape_of


def _resize(ctx: Importer, op: Operator) -> None:
    """Coordinates of the corners, of the middles of elements, or of their beginnings are mapped.

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
    made = ctx.add(
        "Resize",
        [value, None, *_scales_or_sizes(ctx, op, value)],
        mode="linear" if linear else "nearest",
        coordinate_transformation_mode=mode,
        nearest_mode=rounding,
    )
    ctx.bind_picture(op.outputs[0], made)


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
