"""Averages of integers, rounded as in the runtime: halves away from zero, to which ONNX gives no preference.

One in so many averages of an even number of integers is a half. All are moved by far less than their distance from a half, in
proportion to the integer, so that halves fall on the side where the runtime puts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Importer
from converter_lite.formats.tflite.importer.halves import narrow_params
from converter_lite.formats.tflite.importer.values import MOST_MADE, shape_of
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import Integers

EQUAL = 64
"""Integer of every weight of an average: two products of it with an activation stay within 16 bits."""


def average(ctx: Importer, op: Operator, value: ir.Value, kernel: list[int], **window: Any) -> ir.Value:
    """Averages over windows, in the order of axes of ONNX.

    Args:
        ctx: The subgraph.
        op: The operator.
        value: Its input.
        kernel: Height and width of the window.
        window: Attributes of the node.
    """
    params, count = narrow_params(ctx, op.outputs[0]), kernel[0] * kernel[1]
    is_plain = "auto_pad" not in window and not any(window.get("pads", ()))
    if params is None or (is_plain and count % 2):
        return ctx.add("AveragePool", [value], **window)
    zero = abs(int(params.zero_point))
    if is_plain and zero != 1 and 0 < shape_of(value)[1] * count <= MOST_MADE:
        return _weighted(ctx, params, value, kernel, **window)
    share = 1 / (4 * count * (params.spec.qmax - params.spec.qmin))
    shift = share * float(params.scale) * int(params.zero_point)
    made = ctx.add("Mul", [ctx.add("AveragePool", [value], **window), ctx.number(1 + share)])
    return ctx.add("Add", [made, ctx.number(shift)]) if shift else made


def _weighted(ctx: Importer, params: QuantParams, value: ir.Value, kernel: list[int], **window: Any) -> ir.Value:
    """An average as a convolution of each channel, which integer kernels compute exactly.

    Its bias is a whole number of units, so that the share is chosen for it: what is moved has to change its sign within a half
    of the file's integer 0. Such a share is too large for zero points of 1 and -1.
    """
    builder, channels, zero = ctx.builder, shape_of(value)[1], int(params.zero_point)
    parts = kernel[0] * kernel[1] * EQUAL
    units = round(zero / 16) or int(np.sign(zero))
    share = units / ((zero + 0.4 * np.sign(zero) * (abs(zero) == 2)) * parts) if zero else 1 / (16 * parts)
    scale = np.float32((1 + share) / parts)
    sizes = (channels, 1, *kernel)
    equal = lazy_tensor(lambda: np.full(sizes, EQUAL, np.int8), ir.DataType.INT8, sizes)
    weights = lazy_tensor(lambda: np.full(sizes, EQUAL * scale, np.float32), ir.DataType.FLOAT, sizes)
    unit = np.float32(params.scale * scale)
    shift = np.full(channels, units, np.int32)
    bias = ir.Tensor((shift * unit).astype(np.float32))
    pairs: tuple[tuple[ir.TensorProtocol, Integers, np.float32, int], ...] = (
        (weights, equal, scale, 8),
        (bias, shift, unit, 32),
    )
    inputs = [value]
    for tensor, integers, step, bits in pairs:
        made = builder.initializer(tensor, f"{builder.name}_{'weights' if bits == 8 else 'shift'}")
        spec = QuantSpec(bits, symmetric=True, narrow_range=bits == 8)
        builder.plan.weights[str(made.name)] = QuantParams(np.asarray(step), np.zeros((), np.int32), spec)
        builder.q_weights[str(made.name)] = integers
        inputs.append(made)
    return ctx.add("Conv", inputs, group=channels, dilations=[1, 1], **window)
