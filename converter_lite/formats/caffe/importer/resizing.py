"""Interp and Upsample, of forks.

Source: ``interp_layer.cpp`` and ``interp.cpp`` of the DeepLab fork; ``upsample_layer.cpp`` of the YOLO forks.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.graph_builder import shape_of


def _size_of(step: Step, index: int) -> tuple[int, int]:
    """Height and width of a bottom."""
    shape = step.shape(index)
    if len(shape) != 4:
        raise ModelError(f"'{step.layer.bottoms[index]}' has {len(shape)} dimensions, and not 4")
    return shape[2], shape[3]


def _interp(step: Step) -> None:
    """Bilinear, corners on corners, after cropping by pads below zero."""
    begin, end = step.parameters.integer("pad_beg"), step.parameters.integer("pad_end")
    size, value = _size_of(step, 0), step.input()
    inner = (size[0] + begin + end, size[1] + begin + end)
    if begin > 0 or end > 0 or min(inner) < 1:
        raise ModelError(f"pads {begin} and {end} for {size[0]} x {size[1]}: they crop, and are not above 0")
    if inner != size:
        value = _cropped(step, value, -begin, inner)
    target = _interp_size(step, inner)
    if min(target) < 1:
        raise ModelError(f"the size {target[0]} x {target[1]}")
    sizes = step.constant("sizes", (*shape_of(value)[:2], *target), np.int64)
    step.finish("Resize", value, None, None, sizes, mode="linear", coordinate_transformation_mode="align_corners")


def _cropped(step: Step, value: ir.Value, start: int, size: tuple[int, int]) -> ir.Value:
    numbers = (("starts", [start] * 2), ("ends", [start + s for s in size]), ("axes", [2, 3]))
    return step.emit("Slice", value, *(step.constant(name, given, np.int64) for name, given in numbers))


def _interp_size(step: Step, size: tuple[int, int]) -> tuple[int, int]:
    parameters = step.parameters
    factors = [name for name in ("zoom_factor", "shrink_factor") if parameters.has(name)]
    has_size = parameters.has("height") and parameters.has("width")
    if len(factors) != 1 and has_size:
        return parameters.size("height"), parameters.size("width")
    if not factors:
        if len(step.layer.bottoms) < 2:
            raise ModelError("it gives no size")
        return _size_of(step, 1)
    zoom, shrink = parameters.size("zoom_factor", 1), parameters.size("shrink_factor", 1)
    if zoom < 1 or shrink < 1:
        raise ModelError(f"zoom factor {zoom}, shrink factor {shrink}")
    height, width = (((number - 1) // shrink) * zoom + 1 for number in size)
    return height, width


def _upsample(step: Step) -> None:
    """Every element repeated."""
    if len(step.layer.bottoms) > 1:
        raise ModelError("it puts maxima back to where a pooling found them, which has no equal in ONNX")
    height, width = _size_of(step, 0)
    factor = step.parameters.size("scale", 1)
    if factor < 1:
        raise ModelError(f"scale {factor}")
    sizes = step.constant("sizes", (*step.shape()[:2], height * factor, width * factor), np.int64)
    step.finish(
        "Resize",
        step.input(),
        None,
        None,
        sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


KINDS: dict[str, Kind] = {
    "Interp": Kind(
        _interp,
        "Resize (linear, align_corners), Slice",
        "interp_param",
        "height width zoom_factor shrink_factor pad_beg pad_end",
        bottoms=(1, 2),
    ),
    "Upsample": Kind(_upsample, "Resize (nearest)", "upsample_param", "scale", bottoms=(1, 2)),
}
