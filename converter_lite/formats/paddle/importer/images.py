"""Pictures: channels and blocks of pixels exchanged, sampled at other places, resized."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.sizes import integers, known, list_of, sizes, vector
from converter_lite.formats.paddle.program import Operator

PLANAR = ("NCHW", "NCDHW", "NCW", "AnyLayout")
"""Layouts with channels before positions."""

CUBIC = -0.75
"""Coefficient of the runtime's cubic interpolation."""


def planar(importer: Importer, op: Operator, value: ir.Value, layout: str) -> ir.Value:
    """A picture with its channels in front, whatever the operator's layout is."""
    if str(op.get(layout, "NCHW")) in PLANAR:
        return value
    rank = importer.rank(value)
    return importer.compute("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])


def back(importer: Importer, op: Operator, value: ir.Value, layout: str, name: str) -> None:
    """The result of an operator in its own layout."""
    if str(op.get(layout, "NCHW")) in PLANAR:
        importer.bind(name, value)
    else:
        importer.finish(name, "Transpose", value, perm=[0, *range(2, importer.rank(value)), 1])


def inner(op: Operator, layout: str, name: str) -> str:
    """Name for the planar result: the variable's own where nothing follows."""
    return name if str(op.get(layout, "NCHW")) in PLANAR else f"{name}.planar"


def _channels(importer: Importer, value: ir.Value) -> int:
    shape = importer.shape(value) or []
    if len(shape) != 4 or shape[1] < 1:
        raise ModelError("the number of channels is not known")
    return shape[1]


def _pixel_shuffle(importer: Importer, op: Operator) -> None:
    name, block = output(op), int(op.get("upscale_factor", 1))
    value = planar(importer, op, importer.value(op.input("X")), "data_format")
    attributes = {"blocksize": block, "mode": "CRD"}
    made = importer.node("DepthToSpace", [value], attributes, names=[inner(op, "data_format", name)])[0]
    back(importer, op, made, "data_format", name)


def _pixel_unshuffle(importer: Importer, op: Operator) -> None:
    """Channels of the result are those of the input, each as its block of pixels."""
    name, block = output(op), int(op.get("downscale_factor", 1))
    value = planar(importer, op, importer.value(op.input("X")), "data_format")
    channels = _channels(importer, value)
    height, width = known(importer, value)[2:]
    if min(height, width) < 1 or block < 1 or height % block or width % block:
        raise ModelError(f"a picture of {height} x {width} pixels in blocks of {block}")
    split = importer.add_constant("shape", [-1, channels, height // block, block, width // block, block])
    turned = importer.compute("Transpose", importer.compute("Reshape", value, split), perm=[0, 1, 3, 5, 2, 4])
    shape = importer.add_constant("shape", [-1, channels * block * block, height // block, width // block])
    made = importer.node("Reshape", [turned, shape], names=[inner(op, "data_format", name)])[0]
    back(importer, op, made, "data_format", name)


def _shuffle_channel(importer: Importer, op: Operator) -> None:
    name, groups = output(op), int(op.get("groups", op.get("group", 1)))
    value = planar(importer, op, importer.value(op.input("X")), "data_format")
    shape = importer.shape(value) or []
    if len(shape) != 4 or min(shape[1:]) < 1 or groups < 1 or shape[1] % groups:
        raise ModelError("the channels cannot be shuffled: their number is not known or no multiple")
    split = importer.add_constant("shape", [-1, groups, shape[1] // groups, *shape[2:]])
    turned = importer.compute("Transpose", importer.compute("Reshape", value, split), perm=[0, 2, 1, 3, 4])
    target = importer.add_constant("shape", [-1, *shape[1:]])
    made = importer.node("Reshape", [turned, target], names=[inner(op, "data_format", name)])[0]
    back(importer, op, made, "data_format", name)


def _unfold(importer: Importer, op: Operator) -> None:
    """Windows as columns: a convolution with one filter of a single 1 for each channel and place in the window."""
    value = importer.value(op.input("X"))
    channels, kernel = _channels(importer, value), [int(size) for size in op.get("kernel_sizes", ())]
    places = kernel[0] * kernel[1]
    importer.filled_left -= check_filled(importer, [channels * places, places])
    filters = np.tile(np.eye(places, dtype=np.float32), (channels, 1)).reshape(channels * places, 1, *kernel)
    top, left, bottom, right = (int(size) for size in op.get("paddings", (0, 0, 0, 0)))
    attributes: dict[str, Any] = {"strides": list(op.get("strides", (1, 1))), "pads": [top, left, bottom, right]}
    attributes |= {"dilations": list(op.get("dilations", (1, 1))), "group": channels}
    columns = importer.compute("Conv", value, importer.initializer("unfold", filters), **attributes)
    shape = importer.add_constant("shape", [0, channels * places, -1])
    importer.finish(output(op, "Y"), "Reshape", columns, shape)


def _fold(importer: Importer, op: Operator) -> None:
    """Columns as windows of a picture, which are added up."""
    size, kernel = (
        importer.add_constant(key, [int(n) for n in op.get(key, ())]) for key in ("output_sizes", "kernel_sizes")
    )
    attributes = {
        "strides": list(op.get("strides", (1, 1))),
        "pads": list(op.get("paddings", (0, 0, 0, 0))),
        "dilations": list(op.get("dilations", (1, 1))),
    }
    importer.finish(output(op, "Y"), "Col2Im", importer.value(op.input("X")), size, kernel, **attributes)


def _temporal_shift(importer: Importer, op: Operator) -> None:
    """The first channels are those of the picture before, the next ones those of the picture behind."""
    name, layout, count = output(op), "data_format", int(op.get("seg_num", 1))
    value = planar(importer, op, importer.value(op.input("X")), layout)
    channels, (height, width) = _channels(importer, value), known(importer, value)[2:]
    if min(height, width, count) < 1:
        raise ModelError("the size of its pictures is not known")
    share = float(op.get("shift_ratio", 0.25))
    parts = [int(channels * share), int(channels * 2 * share)]
    series = importer.compute("Reshape", value, importer.add_constant("shape", [-1, count, channels, height, width]))
    zero = importer.add_constant("zero", 0, np.float32)
    moved = []
    for first, last, shift in ((0, parts[0], -1), (parts[0], parts[1], 1), (parts[1], channels, 0)):
        limits = (importer.add_constant("part", [number]) for number in (first, last, 2))
        part = importer.compute("Slice", series, *limits)
        pads = [0, max(-shift, 0), 0, 0, 0, 0, max(shift, 0), 0, 0, 0]
        wide = importer.compute("Pad", part, importer.add_constant("pads", pads), zero) if shift else part
        start = max(shift, 0)
        ends = (importer.add_constant("part", [number]) for number in (start, start + count, 1))
        moved.append(importer.compute("Slice", wide, *ends) if shift else part)
    joined = importer.compute("Concat", *moved, axis=2)
    shape = importer.add_constant("shape", [-1, channels, height, width])
    made = importer.node("Reshape", [joined, shape], names=[inner(op, layout, name)])[0]
    back(importer, op, made, layout, name)


def _grid(importer: Importer, op: Operator) -> None:
    mode = str(op.get("mode", "bilinear"))
    attributes = {
        "mode": {"bilinear": "linear"}.get(mode, mode),
        "padding_mode": str(op.get("padding_mode", "zeros")),
        "align_corners": int(op.get("align_corners", True)),
    }
    values = [importer.value(op.input("X")), importer.value(op.input("Grid"))]
    importer.finish(output(op, "Output"), "GridSample", *values, **attributes)


def _affine_grid(importer: Importer, op: Operator) -> None:
    shape = list_of(importer, op, "output_shape", "OutputShape")
    attributes = {"align_corners": int(op.get("align_corners", True))}
    importer.finish(output(op, "Output"), "AffineGrid", importer.value(op.input("Theta")), shape, **attributes)


def _resize(importer: Importer, op: Operator) -> None:
    """A size that is computed comes first, then factors, then a size that is given."""
    name, layout = output(op), "data_layout"
    value = planar(importer, op, importer.value(op.input("X")), layout)
    rank = importer.rank(value)
    if op.input("Scale") is not None:
        raise ModelError("factors that are computed at run time")
    kind = op.type.partition("_")[0]
    attributes = _sampling(op, kind)
    inputs: list[ir.Value | None] = [value, None, None, None]
    target = _computed_size(importer, op, value)
    factors = _factors(op, rank - 2)
    if target is not None:
        inputs[3] = target
    elif factors:
        inputs[2] = importer.add_constant("scales", [1.0, 1.0, *factors], np.float32)
    else:
        given = [int(op.get(key, -1)) for key in ("out_d", "out_h", "out_w")][5 - rank :]
        inputs[3] = _whole(importer, value, integers(importer, given, "sizes"), given)
    used = inputs if inputs[3] is not None else inputs[:3]
    made = importer.node("Resize", used, attributes, names=[inner(op, layout, name)])[0]
    back(importer, op, made, layout, name)


def _factors(op: Operator, count: int) -> list[float]:
    given = op.get("scale", ())
    positive = [float(s) for s in (given if isinstance(given, tuple) else (given,)) if float(s) > 0]
    if len(positive) == 1:
        return positive * count
    if positive and len(positive) != count:
        raise ModelError(f"{len(positive)} factors for {count} dimensions")
    return positive


def _computed_size(importer: Importer, op: Operator, value: ir.Value) -> ir.Value | None:
    """The size that other operators compute, with batch and channels in front."""
    names = op.inputs.get("OutSize") or op.inputs.get("SizeTensor")
    if not names:
        return None
    target = vector(importer, names)
    given = [int(size) for size in target.const_value.numpy()] if target.const_value is not None else None
    return _whole(importer, value, target, given)


def _whole(importer: Importer, value: ir.Value, target: ir.Value, given: list[int] | None) -> ir.Value:
    shape = importer.shape(value) or [-1, -1]
    if given is not None and min(given, default=0) < 1:
        raise ModelError(f"it has neither factors nor a size: {given}")
    if given is not None and min(shape[:2]) > 0:
        return integers(importer, [*shape[:2], *given], "sizes")
    return importer.compute("Concat", sizes(importer, value, 0, 2), target, axis=0)


def _sampling(op: Operator, kind: str) -> dict[str, Any]:
    aligned, half = bool(op.get("align_corners", True)), int(op.get("align_mode", 1)) == 0
    coordinates = "half_pixel" if half or kind == "bicubic" else "asymmetric"
    if kind == "nearest":
        coordinates = "asymmetric"
    mode = {"nearest": "nearest", "bicubic": "cubic"}.get(kind, "linear")
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners" if aligned else coordinates}
    if kind == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if aligned else "floor"
    return attributes | ({"cubic_coeff_a": CUBIC} if kind == "bicubic" else {})


RESIZED = ("nearest", "bilinear", "bicubic", "linear", "trilinear")

HANDLERS: dict[str, Handler] = {
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    **dict.fromkeys(("shuffle_channel", "channel_shuffle"), _shuffle_channel),
    "unfold": _unfold,
    "fold": _fold,
    "temporal_shift": _temporal_shift,
    "grid_sampler": _grid,
    "affine_grid": _affine_grid,
    **{f"{kind}_interp{end}": _resize for kind in RESIZED for end in ("", "_v2")},
}
