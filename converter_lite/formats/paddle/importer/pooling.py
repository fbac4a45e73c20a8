"""Pooling over pictures and volumes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.convolution import same_pads, window
from converter_lite.formats.paddle.importer.filled import check_filled
from converter_lite.formats.paddle.importer.images import back, inner, planar
from converter_lite.formats.paddle.importer.sizes import constant_list, known, like
from converter_lite.formats.paddle.program import Operator
from converter_lite.formats.pooling import end_pads, last_begins, last_inside, uncounted

MOST_WINDOWS = 64
"""Windows of an adaptive maximum that are written out one by one."""


def _pool(importer: Importer, op: Operator) -> None:
    name, layout = output(op), "data_format"
    value = planar(importer, op, importer.value(op.input("X")), layout)
    average = op.get("pooling_type", "max") == "avg" and op.type.startswith("pool")
    last = inner(op, layout, name)
    if op.type == "max_pool2d_with_index" and _is_read(importer, op):
        _with_places(importer, op, value)
        return
    made = _pooled(importer, op, value, average=average, name=last)
    back(importer, op, made, layout, name)


def _pooled(importer: Importer, op: Operator, value: ir.Value, *, average: bool, name: str) -> ir.Value:
    kernel = [int(size) for size in op.get("ksize", (1, 1))]
    adaptive = bool(op.get("adaptive", False))
    if op.get("global_pooling", False) or (adaptive and set(kernel) == {1}):
        return importer.node("GlobalAveragePool" if average else "GlobalMaxPool", [value], names=[name])[0]
    source = (importer.shape(value) or [])[2:]
    if adaptive:
        if len(source) != len(kernel) or min(source) < 1 or min(kernel) < 1:
            raise ModelError(f"adaptive pooling from {source} to {kernel}: the size of the input has to be known")
        if any(s % o for s, o in zip(source, kernel, strict=True)):
            return _uneven(importer, value, source, kernel, average=average, name=name)
        size = [s // o for s, o in zip(source, kernel, strict=True)]
        attributes: dict[str, Any] = {"kernel_shape": size, "strides": size, "pads": [0] * 2 * len(size)}
        attributes["ceil_mode"] = int(bool(op.get("ceil_mode", False)))
        if average:
            attributes["count_include_pad"] = int(not op.get("exclusive", True))
        return importer.node("AveragePool" if average else "MaxPool", [value], attributes, names=[name])[0]
    counted = average and not op.get("exclusive", True)
    attributes, factor = _window(op, kernel, source, counted=counted)
    if average:
        attributes["count_include_pad"] = int(counted)
    if factor is None:
        return importer.node("AveragePool" if average else "MaxPool", [value], attributes, names=[name])[0]
    mean = importer.compute("AveragePool", value, **attributes)
    return importer.node("Mul", [mean, importer.initializer("counted", factor)], names=[name])[0]


def _window(
    op: Operator, kernel: list[int], sizes: list[int], *, counted: bool
) -> tuple[dict[str, Any], NDArray[np.float32] | None]:
    """A window that slides, and what its means are multiplied by if it reaches over a padding that counts.

    Raises:
        ModelError: A window lies behind the picture, or the size has to be known to tell.
    """
    attributes = window(op, len(kernel)) | {"kernel_shape": kernel}
    strides, half = attributes["strides"], len(kernel)
    is_known = len(sizes) == half and min(sizes) > 0
    if "auto_pad" in attributes and (counted or any(k < s for k, s in zip(kernel, strides, strict=True))):
        # onnxruntime does not count this padding, and pads with less than nothing where windows leave a gap.
        _require(is_known, "padding that keeps the size")
        attributes = {"strides": strides, "pads": same_pads(sizes, kernel, strides), "kernel_shape": kernel}
    attributes["ceil_mode"] = int(bool(op.get("ceil_mode", False)))
    pads = attributes.get("pads", [])
    begins, ends = pads[:half], pads[half:]
    if counted and any(pads) and (attributes["ceil_mode"] or any(e > b for b, e in zip(begins, ends, strict=True))):
        _require(is_known, "means that count their padding")
    if not is_known or not pads:
        return attributes, None
    last = last_begins(sizes, attributes)
    if last != last_inside(sizes, attributes) and attributes["ceil_mode"]:
        raise ModelError("its last window begins behind the picture, and holds nothing")
    if not (counted and any(pads)):
        return attributes, None
    reached = end_pads(sizes, attributes, last)
    factor = uncounted(sizes, attributes, last, begins)  # at the end counts as much padding as at the beginning
    if any(reach > end for reach, end in zip(reached, ends, strict=True)) or np.any(factor != 1):
        attributes |= {"pads": [*begins, *reached], "ceil_mode": 0}
    return attributes, factor if np.any(factor != 1) else None


def _require(is_known: bool, what: str) -> None:
    if not is_known:
        raise ModelError(f"{what}: the size of the input has to be known")


def _uneven(
    importer: Importer, value: ir.Value, source: list[int], target: list[int], *, average: bool, name: str
) -> ir.Value:
    """Windows of different sizes, axis by axis: means as products with a matrix, maxima one by one."""
    axes = range(2, 2 + len(source))
    if average:
        for axis, size, count in zip(axes, source, target, strict=True):
            value = _means(importer, value, axis, _shares(size, count))
        return importer.node("Identity", [value], names=[name])[0]
    if sum(target) > MOST_WINDOWS:
        raise ModelError(f"adaptive pooling from {source} to {target} has too many different windows")
    for axis, size, count in zip(axes, source, target, strict=True):
        parts = [_maximum(importer, value, axis, *_ends(size, count, place)) for place in range(count)]
        value = importer.compute("Concat", *parts, axis=axis)
    return importer.node("Identity", [value], names=[name])[0]


def _ends(size: int, count: int, place: int) -> tuple[int, int]:
    """Window ``place`` of ``count`` over ``size`` elements."""
    return place * size // count, -(-(place + 1) * size // count)


def _shares(size: int, count: int) -> NDArray[np.float32]:
    """Share of each element (row) in each mean (column)."""
    shares = np.zeros((size, count), np.float32)
    for place in range(count):
        first, last = _ends(size, count, place)
        shares[first:last, place] = 1 / (last - first)
    return shares


def _means(importer: Importer, value: ir.Value, axis: int, shares: NDArray[np.float32]) -> ir.Value:
    rank = importer.rank(value)
    order = [a for a in range(rank) if a != axis] + [axis]
    turned = value if axis == rank - 1 else importer.compute("Transpose", value, perm=order)
    product = importer.compute("MatMul", turned, importer.initializer("shares", shares))
    if axis == rank - 1:
        return product
    return importer.compute("Transpose", product, perm=[order.index(a) for a in range(rank)])


def _maximum(importer: Importer, value: ir.Value, axis: int, first: int, last: int) -> ir.Value:
    limits = (importer.add_constant("window", [number]) for number in (first, last, axis))
    part = importer.compute("Slice", value, *limits)
    return importer.compute("ReduceMax", part, importer.add_constant("axes", [axis]), keepdims=1)


def _is_read(importer: Importer, op: Operator) -> bool:
    mask = op.output("Mask")
    return mask is not None and mask in importer.read


def _with_places(importer: Importer, op: Operator, value: ir.Value) -> None:
    """Places within a plane; ONNX counts through the whole tensor."""
    shape = importer.shape(value) or []
    if len(shape) != 4 or min(shape[2:]) < 1 or op.get("adaptive", False) or op.get("global_pooling", False):
        raise ModelError("the places of its maxima are read: the size has to be known, and its windows fixed")
    kernel = [int(size) for size in op.get("ksize", (1, 1))]
    attributes = window(op, 2) | {"kernel_shape": kernel, "ceil_mode": int(bool(op.get("ceil_mode", False)))}
    names = [output(op), f"{output(op, 'Mask')}.places"]
    made, places = importer.node("MaxPool", [value], attributes, names=names)
    importer.bind(output(op), made)
    plane = importer.add_constant("plane", shape[2] * shape[3])
    importer.finish(output(op, "Mask"), "Cast", importer.compute("Mod", places, plane), to=int(ir.DataType.INT32))


def _unpool(importer: Importer, op: Operator) -> None:
    """Maxima at the places where they were, within planes of zeros."""
    value, places = importer.value(op.input("X")), importer.value(op.input("Indices"))
    shape, size = known(importer, value), constant_list(importer, op, "output_size", "OutputSize")
    if -1 in shape or len(shape) != 4 or len(size) < 2:
        raise ModelError("the size of its planes is not known")
    planes, plane = shape[0] * shape[1], size[-2] * size[-1]
    importer.filled_left -= check_filled(importer, [planes, plane])
    empty = importer.compute(
        "Expand", like(importer, value, 0), importer.add_constant("size", [planes, plane]), hint="empty"
    )
    flat = importer.add_constant("shape", [planes, shape[2] * shape[3]])
    wide = importer.compute("Cast", places, to=int(ir.DataType.INT64))
    rows = [importer.compute("Reshape", tensor, flat) for tensor in (wide, value)]
    filled = importer.compute("ScatterElements", empty, *rows, axis=1)
    importer.finish(output(op), "Reshape", filled, importer.add_constant("shape", [*shape[:2], *size[-2:]]))


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("pool2d", "pool3d", "max_pool2d_with_index"), _pool),
    "unpool": _unpool,
}
