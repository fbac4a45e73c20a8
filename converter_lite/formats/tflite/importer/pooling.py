"""Pooling: channels last in the file, channels first in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.context import Handler, Importer, shape_of
from converter_lite.formats.tflite.importer.windows import numbers, padding
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec

NARROW = 8
"""Bits of integers of which a half is worth the trouble."""

EQUAL = 64
"""Integer of every weight of an average: two products of it with an activation stay within 16 bits."""


def _pool(ctx: Importer, op: Operator) -> None:
    """Averages do not count what is beyond the border."""
    if op.kind != "L2_POOL_2D":
        ctx.check_same_grid(op)
    value = ctx.picture(op.inputs[0])
    kernel, strides = numbers(op, "filter"), numbers(op, "stride")
    border = padding(op, shape_of(value)[2:], kernel, strides, [1, 1])
    made = _MAKERS[op.kind](ctx, op, value, kernel, kernel_shape=kernel, strides=strides, **border)
    ctx.bind_picture(op.outputs[0], activated(ctx, op, made))


def _largest(ctx: Importer, _: Operator, value: ir.Value, __: list[int], **window: Any) -> ir.Value:
    return ctx.add("MaxPool", [value], **window)


def _root(ctx: Importer, _: Operator, value: ir.Value, __: list[int], **window: Any) -> ir.Value:
    return ctx.add("Sqrt", [ctx.add("AveragePool", [ctx.add("Mul", [value, value])], **window)])


def _average(ctx: Importer, op: Operator, value: ir.Value, kernel: list[int], **window: Any) -> ir.Value:
    """Averages of integers are rounded as in the runtime: halves away from zero, to which ONNX gives no preference.

    An even number of integers has a half for an average once in that many times. Averages are moved by far less than their
    distance from a half, in proportion to the integer.
    """
    params, count = ctx.params(op.outputs[0]), kernel[0] * kernel[1]
    if params is None or count % 2 or params.spec.bits > NARROW:
        return ctx.add("AveragePool", [value], **window)
    share = 1 / (4 * count * (params.spec.qmax - params.spec.qmin))
    if "auto_pad" not in window and not any(window.get("pads", ())) and shape_of(value)[1] > 0:
        return _weighted(ctx, op, value, kernel, share, **window)
    made = ctx.add("AveragePool", [value], **window)
    shift = share * float(params.scale) * int(params.zero_point)
    made = ctx.add("Mul", [made, ctx.number(1 + share)])
    return ctx.add("Add", [made, ctx.number(shift)]) if shift else made


def _weighted(
    ctx: Importer, op: Operator, value: ir.Value, kernel: list[int], share: float, **window: Any
) -> ir.Value:
    """An average as a convolution of each channel, which integer kernels compute exactly."""
    params, builder, channels = ctx.params(op.outputs[0]), ctx.builder, shape_of(value)[1]
    assert params is not None
    scale = np.float32((1 + share) / (kernel[0] * kernel[1] * EQUAL))
    integers = np.full((channels, 1, *kernel), EQUAL, np.int8)
    weight = builder.initializer(lazy_tensor(lambda: integers * scale, ir.DataType.FLOAT, integers.shape), f"{builder.name}_weights")
    unit = float(params.scale) * float(scale)
    shift = int(round(share * float(params.scale) * int(params.zero_point) / unit))
    moved = np.full(channels, shift, np.int32)
    bias = builder.initializer(ir.Tensor((moved * np.float32(unit)).astype(np.float32)), f"{builder.name}_shift")
    zero = np.zeros((), np.int32)
    weights = builder.plan.weights
    weights[str(weight.name)] = QuantParams(np.asarray(scale), zero, QuantSpec(8, symmetric=True, narrow_range=True))
    weights[str(bias.name)] = QuantParams(np.asarray(unit, np.float32), zero.copy(), QuantSpec(32, symmetric=True))
    builder.q_weights[str(weight.name)], builder.q_weights[str(bias.name)] = integers, moved
    return ctx.add("Conv", [value, weight, bias], group=channels, dilations=[1, 1], **window)


_MAKERS: dict[str, Callable[..., ir.Value]] = {
    "AVERAGE_POOL_2D": _average,
    "MAX_POOL_2D": _largest,
    "L2_POOL_2D": _root,
}

HANDLERS: dict[str, Handler] = dict.fromkeys(_MAKERS, _pool)
