"""An LSTM as ONNX's operator where that computes the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator
from converter_lite.formats.tflite.importer.context import INSIDE_OTHER, Importer
from converter_lite.formats.tflite.importer.lstm_layer import (
    CELL,
    FORGET,
    INPUT,
    OUTPUT,
    Layer,
    function_of,
    is_zero_state,
    stored_grid,
)
from converter_lite.formats.tflite.importer.lstm_steps import STEP, unrolled
from converter_lite.formats.tflite.importer.values import same_grid
from converter_lite.graph import lazy_tensor
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.plan import NodeMode

ONNX_GATES = (INPUT, OUTPUT, FORGET, CELL)


def outputs_of(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, *, reverse: bool) -> ir.Value:
    """Outputs of all steps, ``(time, batch, units)``.

    Raises:
        ModelError: They cannot be written.
    """
    count = steps.shape[0] if steps.shape is not None else None
    length = count if isinstance(count, int) else None
    if _fits_operator(ctx, op, layer, length):
        return _operator(ctx, op, layer, steps, reverse=reverse)
    if length is None:
        raise ModelError(
            "an open number of steps of a layer that ONNX has no operator for (a bounded cell, a projection, normalized gates)",
            hint="steps are written one by one; --inputShape fixes their number",
        )
    ctx.builder.count(STEP * length)
    return unrolled(ctx, op, layer, steps, length, reverse=reverse)


def _fits_operator(ctx: Importer, op: Operator, layer: Layer, length: int | None) -> bool:
    """Whether ONNX's LSTM computes the same.

    A cell that begins with zero grows by less than one in a step: its bound does nothing in the first steps.
    """
    bound = float(op.get("cell_clip"))
    starts_with_zero = all(is_zero_state(ctx, index) for index in layer.states)
    is_bounded = bound > 0 and not (length is not None and length <= bound and starts_with_zero)
    plain = layer.projection[0] == NOT_GIVEN and all(index == NOT_GIVEN for index in layer.normalized)
    own, state = stored_grid(ctx, op, layer), ctx.params(layer.states[0]) if layer.states[0] != NOT_GIVEN else None
    if own is not None and state is not None and not same_grid(own, state):
        return False
    return plain and not (is_bounded or (bound > 0 and function_of(op) != "Tanh"))


def _operator(ctx: Importer, op: Operator, layer: Layer, steps: ir.Value, *, reverse: bool) -> ir.Value:
    builder = ctx.builder
    units = ctx.stored(layer.recurrent[FORGET]).dims[-1]
    weights = [_gates(ctx, group, name) for group, name in ((layer.inputs, "w"), (layer.recurrent, "r"))]
    peepholes = _peepholes(ctx, layer) if layer.has_peepholes else None
    states = [_state(ctx, index) for index in layer.states]
    function = function_of(op)
    decision = NodeMode.FLOAT
    if any(ctx.is_planned(weight) for weight in weights) and not ctx.is_integer:
        decision, builder.reason = NodeMode.WEIGHT, INSIDE_OTHER
    outputs = builder.add(
        "LSTM",
        [steps, *weights, _biases(ctx, layer), None, *states, peepholes],
        3,
        decision=NodeMode.INTEGER if ctx.is_integer else decision,
        hidden_size=units,
        direction="reverse" if reverse else "forward",
        activations=None if function == "Tanh" else ["Sigmoid", function, function],
    )
    return ctx.add("Squeeze", [outputs[0], ctx.int64([1], "axes")])


def _gates(ctx: Importer, group: Sequence[int], name: str) -> ir.Value:
    """Weights of all gates in one, ``(1, 4 * units, columns)``; integers stay in the plan, with scales for each row.

    What a forget gate leaves is the gate with the opposite sign: one minus the logistic function of a number is that of its
    negative.
    """
    parts = [ctx.stored(index) if index != NOT_GIVEN else None for index in (group[gate] for gate in ONNX_GATES)]
    signs = [-1 if part is None else 1 for part in parts]
    forget = ctx.stored(group[FORGET])
    stored = [part if part is not None else forget for part in parts]
    rows, columns = forget.dims
    if any(part.dims != (rows, columns) for part in stored):
        raise ModelError("weights of its gates differ in shape")

    def reals() -> NDArray[np.float32]:
        found = [np.asarray(constants.reals(part), np.float32) for part in stored]
        return np.concatenate([part if sign > 0 else -part for sign, part in zip(signs, found, strict=True)])[None]

    label = f"{ctx.builder.name}_{name}"
    made = ctx.builder.initializer(
        lazy_tensor(reals, ir.DataType.FLOAT, (1, 4 * rows, columns), keep_small=True), label
    )
    params = [constants.weight_params(part, part.axis) for part in stored]
    if all(p is not None and p.spec.signed and p.spec.symmetric and p.spec.axis in (None, 0) for p in params):
        scales = [np.broadcast_to(p.scale, (rows,)) for p in params if p is not None]
        integers = np.concatenate(
            [sign * part.array.astype(np.int16) for sign, part in zip(signs, stored, strict=True)]
        )
        spec = QuantSpec(8, symmetric=True, narrow_range=bool(integers.min(initial=0) > -128), axis=1)
        if integers.max(initial=0) <= spec.qmax and all(p is not None and p.spec.bits <= 8 for p in params):
            scale = np.concatenate(scales).astype(np.float32)
            ctx.builder.plan.weights[str(made.name)] = QuantParams(scale, np.zeros(scale.shape, np.int32), spec)
            ctx.builder.q_weights[str(made.name)] = integers.astype(np.int8)[None]
    return made


def _biases(ctx: Importer, layer: Layer) -> ir.Value:
    """Those of the input; ONNX adds others for the state."""
    units = ctx.stored(layer.recurrent[FORGET]).dims[0]
    parts = []
    for gate in ONNX_GATES:
        is_rest = gate == INPUT and layer.is_coupled
        index = layer.biases[FORGET if is_rest else gate]
        part = np.zeros(units, np.float32) if index == NOT_GIVEN else ctx.array(index).astype(np.float32)
        parts.append(-part if is_rest else part)
    whole = np.concatenate([*parts, np.zeros(4 * units, np.float32)])[None]
    return ctx.builder.initializer(ir.Tensor(whole), f"{ctx.builder.name}_b")


def _peepholes(ctx: Importer, layer: Layer) -> ir.Value:
    into, forget, out = layer.peepholes
    forgets = ctx.array(forget).astype(np.float32)
    inputs = -forgets if into == NOT_GIVEN else ctx.array(into).astype(np.float32)
    whole = np.concatenate([inputs, ctx.array(out).astype(np.float32), forgets])[None]
    return ctx.builder.initializer(ir.Tensor(whole), f"{ctx.builder.name}_p")


def _state(ctx: Importer, index: int) -> ir.Value | None:
    """A state before the first step, ``None`` for zero."""
    if is_zero_state(ctx, index):
        return None
    return ctx.add("Unsqueeze", [ctx.value(index), ctx.int64([0], "axes")])
