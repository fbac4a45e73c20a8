"""Convolutions: channels last in the file, channels first in ONNX."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import Padding
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.merging import BORDER, DILATIONS
from converter_lite.formats.tflite.importer.values import shape_of
from converter_lite.formats.tflite.importer.weights import bias, product_mode
from converter_lite.formats.tflite.importer.windows import numbers, padding, same_padding

_FILTERS: Perm = (0, 3, 1, 2)
"""Output channels, height, width, input channels -> as ONNX has them."""

_DEPTHWISE: Perm = (3, 0, 1, 2)
"""One, height, width, channels -> as ONNX has them."""

_TRANSPOSED: Perm = (3, 0, 1, 2)
"""Output channels, height, width, input channels -> input channels first."""

_VOLUMES: Perm = (4, 3, 0, 1, 2)
"""Depth, height, width, input channels, output channels -> as ONNX has them; likewise with both kinds of channels swapped."""

_BIASED = struct.Struct("<3i")


def filters(ctx: Importer, index: int, order: Perm) -> ir.Value:
    """The weight of a convolution, constant or computed."""
    return ctx.weight(index, order) if ctx.is_constant(index) else ctx.value(index, order)


def _groups(ctx: Importer, op: Operator, value: ir.Value, weight: ir.Value) -> int:
    """How many groups of input channels a filter of fewer ones divides them into.

    Raises:
        ModelError: They cannot be divided so.
    """
    channels = shape_of(value)[1]
    if channels < 0:
        channels = ctx.tensor(op.inputs[0]).shape[-1]
    inside = shape_of(weight)[1]
    if inside < 1 or channels % inside:
        raise ModelError(f"{channels} channels cannot be divided into groups of {inside}")
    return channels // inside


def _convolve(
    ctx: Importer, op: Operator, value: ir.Value, weight: ir.Value, *, group: int, axes: str, **given: Any
) -> None:
    strides, dilations = numbers(op, "stride", axes), given.get("dilations") or numbers(op, "dilation", axes)
    kernel = shape_of(weight)[2:]
    border = given.get("border") or padding(op, shape_of(value)[2:], kernel, strides, dilations)
    made = ctx.add(
        "Conv",
        [value, weight, *bias(ctx, op, 2, channels=shape_of(weight)[0])],
        decision=product_mode(ctx, weight),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=group,
        **border,
    )
    ctx.bind_picture(op.outputs[0], activated(ctx, op, made))


def _conv(ctx: Importer, op: Operator) -> None:
    value, weight = ctx.picture(op.inputs[0]), filters(ctx, op.inputs[1], _FILTERS)
    _convolve(ctx, op, value, weight, group=_groups(ctx, op, value, weight), axes="hw", **_spread(op))


def _depthwise(ctx: Importer, op: Operator) -> None:
    """Each input channel has filters of its own; their number follows from the sizes."""
    value, weight = ctx.picture(op.inputs[0]), filters(ctx, op.inputs[1], _DEPTHWISE)
    channels = shape_of(value)[1]
    if channels < 0:
        channels = ctx.tensor(op.inputs[0]).shape[-1]
    if channels < 1 or shape_of(weight)[0] % channels:
        raise ModelError(f"{shape_of(weight)[0]} filters cannot be divided among {channels} channels")
    _convolve(ctx, op, value, weight, group=channels, axes="hw", **_spread(op))


def _spread(op: Operator) -> dict[str, Any]:
    """What replaces padding and dilation where an operator stands for several (:mod:`.merging`)."""
    return {key: op.options[key] for key in (DILATIONS, BORDER) if key in op.options}


def _conv_3d(ctx: Importer, op: Operator) -> None:
    value, weight = ctx.picture(op.inputs[0]), filters(ctx, op.inputs[1], _VOLUMES)
    _convolve(ctx, op, value, weight, group=_groups(ctx, op, value, weight), axes="dhw")


def _conv_transpose(ctx: Importer, op: Operator) -> None:
    """Inputs are the shape of the result, weight, data and bias."""
    deep = op.kind == "CONV_3D_TRANSPOSE"
    order = _VOLUMES if deep else _TRANSPOSED
    wanted = ctx.sizes(op.inputs[0])
    sizes = [size for size in wanted[1:-1] if isinstance(size, int)] if wanted is not None else []
    if len(sizes) != len(order) - 2:
        raise ModelError("the size of its result is computed", hint="give the inputs fixed sizes with --inputShape")
    _convolve_transposed(ctx, op, filters(ctx, op.inputs[1], order), sizes=sizes, data=2)


def _conv_transpose_bias(ctx: Importer, op: Operator) -> None:
    """MediaPipe's ``Convolution2DTransposeBias``: inputs are data, weight and bias; a stride of n makes a size n times as large.

    Its options are three 32-bit numbers: the padding, of which SAME (1) is the one that its models have, and the strides. Source:
    what LiteRT's interpreter and MediaPipe compute.

    Raises:
        ModelError: They are others.
    """
    if len(op.custom_options) < _BIASED.size:
        raise ModelError("its options are too short")
    padding, width, height = _BIASED.unpack_from(op.custom_options)
    if padding != 1:
        raise ModelError(f"padding {padding} is unknown: only SAME (1) is known")
    given = ctx.shape(op.inputs[0])[1:3]
    sizes = [size * stride for size, stride in zip(given, (height, width), strict=True)]
    options = {"padding": Padding.SAME, "stride_w": width, "stride_h": height}
    _convolve_transposed(
        ctx, replace(op, options=options), filters(ctx, op.inputs[1], _TRANSPOSED), sizes=sizes, data=0
    )


def _convolve_transposed(ctx: Importer, op: Operator, weight: ir.Value, *, sizes: Sequence[int], data: int) -> None:
    value, axes = ctx.picture(op.inputs[data]), "dhw" if len(sizes) == 3 else "hw"
    strides, dilations = numbers(op, "stride", axes), numbers(op, "dilation", axes)
    kernel, given = shape_of(weight)[2:], shape_of(value)[2:]
    if -1 in given:
        raise ModelError("the size of its input is open", hint="give the inputs fixed sizes with --inputShape")
    border = _cut(op, given, sizes, kernel, strides, dilations)
    made = ctx.add(
        "ConvTranspose",
        [value, weight, *bias(ctx, op, 2 if data == 0 else 3, channels=shape_of(weight)[1], data=data)],
        decision=product_mode(ctx, weight),
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        group=1,
        **border,
    )
    ctx.bind_picture(op.outputs[0], activated(ctx, op, made))


def _cut(
    op: Operator,
    sizes: Sequence[int],
    wanted: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> dict[str, Any]:
    """What is cut off at the borders, and added behind, for the wanted size.

    Raises:
        ModelError: ONNX cannot give this size.
    """
    before, behind, added = [], [], []
    for n, out, k, s, d in zip(sizes, wanted, kernel, strides, dilations, strict=True):
        total = same_padding(out, k, s, d) if op.get("padding", Padding.VALID) == Padding.SAME else 0
        whole = s * (n - 1) + (k - 1) * d + 1
        rest = whole - total // 2 - out
        if -rest >= max(s, d):
            raise ModelError(f"{n} elements cannot become {out} with stride {s} and {k} weights")
        before.append(total // 2)
        behind.append(max(rest, 0))
        added.append(max(-rest, 0))
    return {"pads": [*before, *behind], "output_padding": added if any(added) else None}


HANDLERS: dict[str, Handler] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _conv_transpose,
    "CONV_3D": _conv_3d,
    "CONV_3D_TRANSPOSE": _conv_transpose,
}

CUSTOM: dict[str, Handler] = {"Convolution2DTransposeBias": _conv_transpose_bias}
