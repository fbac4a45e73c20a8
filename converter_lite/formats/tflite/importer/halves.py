"""Results of integers, moved by less than their distance from a half, so that rounding gives what the runtime's kernels give.

ONNX rounds a half to the even integer. Kernels of the runtime round it up, or away from zero, or first round a factor.

Source: the 256 results of each operator in the interpreter of ai-edge-litert 2.3.0 (its default kernels).
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.importer.context import Importer
from converter_lite.kernels.params import QuantParams

NARROW = 8
"""Bits of integers of which a half is worth the trouble."""

FACTOR_STEPS = 256
"""Steps of one in which kernels multiply integers by a constant."""

UP = 1 / 1024
"""Part of a step that makes a half more than a half, and no other multiple of 1/256."""

UP_A_LITTLE = 1 / 8192
"""The same for results of many fractions; more than float32 loses."""

UP_A_TRIFLE = 1 / 65536
"""The same for results of any fraction."""

DOWN = -0.5 + UP
"""Part of a step that makes rounding cut off."""


def narrow_params(ctx: Importer, index: int) -> QuantParams | None:
    """Parameters of a tensor with integers of eight bits or less."""
    params = ctx.params(index) if index != NOT_GIVEN else None
    return params if params is not None and params.spec.bits <= NARROW and not params.is_per_channel else None


def moved(ctx: Importer, op: Operator, value: ir.Value, part: float, *, factor: float = 1.0) -> ir.Value:
    """A value multiplied with a factor, plus a part of a step of the operator's result; as it is where that has no integers."""
    params = narrow_params(ctx, op.outputs[0])
    if params is None:
        return value
    made = value if factor == 1.0 else ctx.add("Mul", [value, ctx.number(factor, "factor")])
    return ctx.add("Add", [made, ctx.number(part * float(params.scale), "part_of_a_step")])


def rounded_twice(ctx: Importer, op: Operator, value: ir.Value) -> ir.Value:
    """The product of two operands, away from zero by half of what kernels round their sums to before they round to the grid.

    A kernel multiplies a sum by a number of 31 bits from 1/2 to 1, rounds, divides by a power of two, and rounds again: what lies
    below a half by at most half of that power's reciprocal becomes a half.
    """
    params = [narrow_params(ctx, index) for index in (*op.inputs[:2], op.outputs[0])]
    if any(each is None for each in params):
        return value
    left, right, made = (float(each.scale) for each in params if each is not None)
    part = made * 2.0 ** (math.frexp(left * right / made)[1] - 1)
    steep = ctx.add("Mul", [value, ctx.number(2 * part / (left * right), "factor")])
    ends = [ctx.number(bound, "part_of_a_step") for bound in (-part, part)]
    return ctx.add("Add", [value, ctx.add("Clip", [steep, *ends])])


def coarse(factor: float) -> float:
    """A factor as kernels multiply with it."""
    return float(np.rint(FACTOR_STEPS * np.float32(factor)) / FACTOR_STEPS)


def ratio(ctx: Importer, op: Operator, position: int = 0) -> float | None:
    """Step of an operand over that of the result; nothing where they are not both of integers that narrow."""
    given, wanted = (narrow_params(ctx, index) for index in (op.inputs[position], op.outputs[0]))
    return None if given is None or wanted is None else float(np.float32(given.scale) / np.float32(wanted.scale))
