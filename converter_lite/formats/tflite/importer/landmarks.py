"""MediaPipe's operators for landmarks: a part of a picture is cut out level, and what is found there is moved back.

Source: MediaPipe's ``util/tflite/operations``, and the delegate of LiteRT that reads their options.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from flatbuffers import flexbuffers

from converter_lite.errors import MISFITS, ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import PICTURE, Handler, Importer

FLOAT = ir.DataType.FLOAT.value

SHORTEST = 1e-20
"""The least distance of two landmarks; of equal ones the angle is unknown."""

MOST = 4096
"""Rows or columns of a part of a picture; the file holds the places of all."""

SIDE = 4
"""Rows and columns of a matrix that moves points."""


@dataclass(frozen=True, slots=True)
class Crop:
    """Options of ``Landmarks2TransformMatrix``.

    Attributes:
        subset: Landmarks that the part has to hold.
        left, right: Landmarks that are level in it, but for ``angle``.
        angle: In radians.
        height, width: Of the part, in its own places.
        tall, wide: How many times as large it is as what the landmarks take.
    """

    subset: tuple[int, ...]
    left: int
    right: int
    angle: float
    height: int
    width: int
    tall: float
    wide: float


def _options(op: Operator) -> Any:
    """The options of a custom operator, a FlexBuffer with a map.

    Raises:
        ModelError: They are none.
    """
    try:
        return flexbuffers.GetRoot(op.custom_options).AsMap
    except (*MISFITS, struct.error) as error:
        raise ModelError(f"its options are no map: {error}") from None


def _number(value: Any) -> Any:
    """A whole or real number of the options.

    Raises:
        TypeError: It is none.
    """
    if value.IsInt:
        return int(value.AsInt)
    if value.IsFloat:
        return float(value.AsFloat)
    raise TypeError("it is no number")


def _crop(op: Operator, count: int) -> Crop:
    """The options, for this many landmarks.

    Raises:
        ModelError: They are incomplete, make no sense, or are those of the first version of the operator.
    """
    given = _options(op)
    try:
        found = Crop(
            subset=tuple(_number(each) for each in given["subset_idxs"].AsTypedVector),
            left=_number(given["left_rotation_idx"]),
            right=_number(given["right_rotation_idx"]),
            angle=_number(given["target_rotation_radians"]),
            height=_number(given["output_height"]),
            width=_number(given["output_width"]),
            tall=_number(given["scale_y"]),
            wide=_number(given["scale_x"]),
        )
    except (*MISFITS, struct.error) as error:
        raise ModelError(f"its options are not those of version 2: {error}") from None
    places = (*found.subset, found.left, found.right)
    if not all(isinstance(number, int) for number in (*places, found.height, found.width)):
        raise ModelError(f"its options are not those of version 2: {found}")
    sizes = (found.height, found.width, found.tall, found.wide)
    finite = all(map(math.isfinite, (*sizes, found.angle)))
    if not finite or not found.subset or min(places) < 0 or max(places) >= count or min(sizes) <= 0:
        raise ModelError(f"its options make no sense for {count} landmarks: {found}")
    return found


def _matrix(ctx: Importer, op: Operator) -> None:
    """The matrix that moves places of the part ``(x, y, 0, 1)`` to those of the picture.

    ::

        landmarks (1, n, 3) ─ turned so that left and right are level ─ least and largest x and y ─ matrix (1, 4, 4)
    """
    shape = ctx.shape(op.inputs[0])
    if len(shape) != 3 or shape[0] != 1 or shape[2] != 3:
        raise ModelError("it takes one list of landmarks of three numbers each")
    crop, points = _crop(op, shape[1]), ctx.value(op.inputs[0])
    (x_left, y_left), (x_right, y_right), (x, y) = (
        _columns(ctx, ctx.add("Gather", [points, ctx.int64(places)], axis=1))
        for places in ([crop.left], [crop.right], crop.subset)
    )
    cosine, sine = _turn(ctx, _minus(ctx, x_right, x_left), _minus(ctx, y_right, y_left), crop.angle)
    turned = (
        _minus(ctx, _times(ctx, x, cosine), _times(ctx, y, sine)),
        _plus(ctx, _times(ctx, x, sine), _times(ctx, y, cosine)),
    )
    (x_size, x_middle), (y_size, y_middle) = (_extent(ctx, values) for values in turned)
    wide = _times(ctx, x_size, crop.wide / crop.width)
    tall = _times(ctx, y_size, crop.tall / crop.height)
    rows = (
        (_times(ctx, cosine, wide), _times(ctx, sine, tall)),
        (ctx.add("Neg", [_times(ctx, sine, wide)]), _times(ctx, cosine, tall)),
    )
    middles = (
        _plus(ctx, _times(ctx, x_middle, cosine), _times(ctx, y_middle, sine)),
        _minus(ctx, _times(ctx, y_middle, cosine), _times(ctx, x_middle, sine)),
    )
    zero, numbers = ctx.builder.constant(np.zeros((1, 1, 1)), np.float32), []
    for (first, second), middle in zip(rows, middles, strict=True):
        corner = _plus(ctx, _times(ctx, first, crop.width / 2), _times(ctx, second, crop.height / 2))
        numbers += [first, second, zero, _minus(ctx, middle, corner)]
    rest = ctx.builder.constant(np.eye(SIDE)[2:].reshape(1, 1, 2 * SIDE), np.float32)
    whole = ctx.add("Concat", [*numbers, rest], axis=2)
    ctx.bind(op.outputs[0], ctx.add("Reshape", [whole, ctx.int64([1, SIDE, SIDE])]))


def _turn(ctx: Importer, x: ir.Value, y: ir.Value, angle: float) -> tuple[ir.Value, ir.Value]:
    """Cosine and sine of what turns the direction ``(x, y)`` to an angle; ONNX has no angle of two numbers."""
    square = _plus(ctx, _times(ctx, x, x), _times(ctx, y, y))
    length = ctx.add("Max", [ctx.add("Sqrt", [square]), ctx.number(SHORTEST)])
    cosine, sine = ctx.add("Div", [x, length]), ctx.add("Div", [y, length])
    if not angle:
        return cosine, ctx.add("Neg", [sine])
    across, along = math.cos(angle), math.sin(angle)
    return (
        _plus(ctx, _times(ctx, cosine, across), _times(ctx, sine, along)),
        _minus(ctx, _times(ctx, cosine, along), _times(ctx, sine, across)),
    )


def _extent(ctx: Importer, values: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Size and middle of what values of shape ``(1, n, 1)`` take, each ``(1, 1, 1)``."""
    high, low = (ctx.add(kind, [values, ctx.int64([1])], keepdims=1) for kind in ("ReduceMax", "ReduceMin"))
    return _minus(ctx, high, low), _times(ctx, _plus(ctx, high, low), 0.5)


def _cut(ctx: Importer, op: Operator) -> None:
    """The part of a picture that a matrix names, interpolated between middles of pixels; 0 beside the picture."""
    given = _options(op)
    try:
        height, width = (_number(given[name]) for name in ("output_height", "output_width"))
    except (*MISFITS, struct.error) as error:
        raise ModelError(f"its options have no size: {error}") from None
    if not isinstance(height, int) or not isinstance(width, int) or max(height, width) > MOST:
        raise ModelError(f"its options make no sense: a part of {height} by {width} places")
    shape = ctx.shape(op.inputs[0])
    if len(shape) != PICTURE or shape[0] != 1 or min(*shape[1:3], height, width) < 2:
        raise ModelError("it takes one picture of known size, of two pixels and more")
    down, right = np.meshgrid(np.arange(height) + 0.5, np.arange(width) + 0.5, indexing="ij")
    across, along = (ctx.builder.constant(places[None], np.float32) for places in (right, down))
    parts, insides = [], []
    for place, size in zip(_moved(ctx, op.inputs[1], across, along), (shape[2], shape[1]), strict=True):
        counted = ctx.add("Sub", [place, ctx.number(0.5)])
        near = ctx.add("Clip", [counted, ctx.number(0.0), ctx.number(size - 1.0)])
        insides.append(ctx.add("Cast", [ctx.add("Equal", [near, counted])], to=FLOAT))
        part = ctx.add("Sub", [_times(ctx, near, 2.0 / (size - 1)), ctx.number(1.0)])
        parts.append(ctx.add("Unsqueeze", [part, ctx.int64([3])]))
    grid = ctx.add("Concat", parts, axis=3)
    picture = ctx.picture(op.inputs[0])
    read = ctx.add("GridSample", [picture, grid], align_corners=1, mode="linear", padding_mode="border")
    inside = ctx.add("Unsqueeze", [_times(ctx, *insides), ctx.int64([1])])
    ctx.bind_picture(op.outputs[0], _times(ctx, read, inside))


def _points(ctx: Importer, op: Operator) -> None:
    """Landmarks of two or three numbers that a matrix moves; the third number stays."""
    shape = ctx.shape(op.inputs[0])
    if op.custom_options or len(shape) != 3 or shape[2] not in (2, 3):
        raise ModelError("only version 2 is known, for a list of landmarks of two or three numbers each")
    value = ctx.value(op.inputs[0])
    moved = _moved(ctx, op.inputs[1], *_columns(ctx, value))
    rest = [_part(ctx, value, 2)] if shape[2] == 3 else []
    ctx.bind(op.outputs[0], ctx.add("Concat", [*moved, *rest], axis=2))


def _moved(ctx: Importer, matrix: int, x: ir.Value, y: ir.Value) -> list[ir.Value]:
    """The coordinates of points that a matrix moves."""
    shape = ctx.shape(matrix)
    if shape != [1, SIDE, SIDE]:
        raise ModelError("its matrix has not four rows and columns")
    numbers = ctx.add("Reshape", [ctx.value(matrix), ctx.int64([1, 1, SIDE * SIDE])])
    made = []
    for row in range(2):
        first, second, third = (_part(ctx, numbers, SIDE * row + column) for column in (0, 1, 3))
        made.append(_plus(ctx, _plus(ctx, _times(ctx, x, first), _times(ctx, y, second)), third))
    return made


def _columns(ctx: Importer, points: ir.Value) -> Sequence[ir.Value]:
    """The first two numbers of each point, each ``(1, n, 1)``."""
    return _part(ctx, points, 0), _part(ctx, points, 1)


def _part(ctx: Importer, value: ir.Value, place: int) -> ir.Value:
    """One place of the last of three axes, which stays."""
    return ctx.add("Slice", [value, ctx.int64([place]), ctx.int64([place + 1]), ctx.int64([2])])


def _plus(ctx: Importer, first: ir.Value, second: ir.Value) -> ir.Value:
    return ctx.add("Add", [first, second])


def _minus(ctx: Importer, first: ir.Value, second: ir.Value) -> ir.Value:
    return ctx.add("Sub", [first, second])


def _times(ctx: Importer, first: ir.Value, second: ir.Value | float) -> ir.Value:
    return ctx.add("Mul", [first, second if isinstance(second, ir.Value) else ctx.number(second)])


CUSTOM: dict[str, Handler] = {
    "Landmarks2TransformMatrix": _matrix,
    "TransformTensorBilinear": _cut,
    "TransformLandmarks": _points,
}
"""Custom operators of MediaPipe."""
