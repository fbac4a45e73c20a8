"""From reals to integers and back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import TensorType
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.halves import UP, coarse, moved, ratio
from converter_lite.formats.tflite.importer.values import same_grid
from converter_lite.quantization.plan import NodeMode


def _quantize(ctx: Importer, op: Operator) -> None:
    """Parameters in the plan, for what has none; a node of its own between two grids."""
    source, result = op.inputs[0], op.outputs[0]
    wanted, given = ctx.params(result), ctx.params(source)
    if wanted is None:
        raise ModelError("its result has no scale")
    if given is None:
        ctx.same(result, source)
    elif same_grid(given, wanted):
        _keep(ctx, result, source)
    else:
        ctx.bind(result, _onto(ctx, op), ctx.order(source) or None)


def _onto(ctx: Importer, op: Operator) -> ir.Value:
    """Numbers on another grid: narrow integers are multiplied in steps of 1/256, and halves rounded up."""
    value, steps = ctx.any_value(op.inputs[0]), ratio(ctx, op)
    if steps and coarse(steps):
        return moved(ctx, op, value, UP, factor=coarse(steps) / steps)
    return ctx.add("Identity", [value], decision=NodeMode.INTEGER)


def _keep(ctx: Importer, result: int, source: int) -> None:
    """The same real numbers: integers counted from elsewhere (uint8 as int8) are those of the reader from now on."""
    for order in ctx.orders(source):
        name = str(ctx.value(source, order or None).name)
        wanted = ctx.params(result)
        if wanted is not None and name in ctx.builder.plan.activations:
            ctx.builder.plan.activations[name] = wanted
    ctx.same(result, source)


def _dequantize(ctx: Importer, op: Operator) -> None:
    """Constants become reals; a value of integers is one already, if the plan says that a node made it of integers."""
    source, result = op.inputs[0], op.outputs[0]
    if ctx.is_constant(source):
        _constant(ctx, source, result)
        return
    if ctx.params(source) is None:
        if ctx.tensor(source).type is not TensorType.FLOAT16:
            raise ModelError("its integers have no scale")
        value = ctx.add("Cast", [ctx.any_value(source)], to=ir.DataType.FLOAT.value)
        ctx.bind(result, value, ctx.order(source) or None)
        return
    value = ctx.any_value(source)
    maker = value.producer()
    if maker is not None and ctx.builder.plan.mode(maker) is NodeMode.INTEGER:
        ctx.same(result, source)
        return
    rounded = ctx.add("Identity", [value], decision=NodeMode.INTEGER)
    ctx.bind(result, ctx.takes(rounded, source), ctx.order(source) or None)


def _constant(ctx: Importer, source: int, result: int) -> None:
    """Nothing is computed here: weights keep their integers, and float16 is widened when it is read."""
    stored = ctx.stored(source)
    if stored.quant is None and stored.dtype != np.float16:
        raise ModelError("its integers have no scale")
    ctx.store(result, replace(stored, is_widened=True))


def _densify(ctx: Importer, op: Operator) -> None:
    """Zeros are put back when the constant is read."""
    ctx.store(op.outputs[0], ctx.stored(op.inputs[0]))


HANDLERS: dict[str, Handler] = {"QUANTIZE": _quantize, "DEQUANTIZE": _dequantize, "DENSIFY": _densify}
