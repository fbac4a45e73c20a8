"""Products of matrices."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats import permutation as pm
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.enums import WeightsFormat
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.halves import rounded_twice
from converter_lite.formats.tflite.importer.values import shape_of
from converter_lite.formats.tflite.importer.weights import bias, dynamic_mode, scale_rows
from converter_lite.quantization.plan import NodeMode

MATRIX = 2
"""Axes of a matrix."""


def _fully_connected(ctx: Importer, op: Operator) -> None:
    """Rows of the weight are its outputs. The data are a matrix, or become one; axes in front of the last one may be kept."""
    if op.get("weights_format") != WeightsFormat.DEFAULT:
        raise ModelError("its weights are shuffled for a processor", hint="convert the model again, without that")
    data, out = op.inputs[0], op.outputs[0]
    shape = ctx.shape(data)
    weight_shape = ctx.shape(op.inputs[1])
    if len(weight_shape) != MATRIX:
        raise ModelError(f"its weight has shape {weight_shape}")
    if len(shape) > MATRIX and op.get("keep_num_dims") and not (ctx.is_integer and -1 not in shape[:-1]):
        _kept(ctx, op)
        return
    rows, inside = weight_shape
    matrix = [-1, inside]
    if len(shape) == MATRIX and shape[-1] == inside:
        value = ctx.value(data)
    else:
        value = ctx.takes(ctx.flattened(data, matrix, lambda: ctx.int64(matrix)), data)
    made = _product(ctx, op, value)
    if len(shape) > MATRIX and op.get("keep_num_dims"):
        made = ctx.add("Reshape", [ctx.takes(made, out), ctx.int64([*shape[:-1], rows], "shape")])
    ctx.bind(out, made)


def _product(ctx: Importer, op: Operator, value: ir.Value) -> ir.Value:
    index = op.inputs[1]
    weight = ctx.weight(index, pm.identity(MATRIX)) if ctx.is_constant(index) else ctx.value(index)
    made = ctx.add(
        "Gemm",
        [value, weight, *bias(ctx, op, 2, channels=shape_of(weight)[0])],
        decision=dynamic_mode(ctx, index, weight),
        transB=1,
    )
    scale_rows(ctx, value, made)
    return activated(ctx, op, made)


def _kept(ctx: Importer, op: Operator) -> None:
    """The same for data of more axes."""
    value, index = ctx.value(op.inputs[0]), op.inputs[1]
    weight = ctx.weight(index, (1, 0)) if ctx.is_constant(index) else ctx.value(index, (1, 0))
    made = ctx.add("MatMul", [value, weight], decision=dynamic_mode(ctx, index, weight))
    scale_rows(ctx, value, made)
    for each in bias(ctx, op, 2, channels=shape_of(weight)[1]):
        made = ctx.add("Add", [made, each])
    ctx.bind(op.outputs[0], activated(ctx, op, made))


def _batch_matmul(ctx: Importer, op: Operator) -> None:
    """Either operand may be transposed in its last two axes."""
    operands = [
        _turned(ctx, index, turn=bool(op.get(name))) for index, name in zip(op.inputs, ("adj_x", "adj_y"), strict=True)
    ]
    mode = None
    if ctx.is_planned(operands[1]) and len(shape_of(operands[1])) == MATRIX:
        mode = dynamic_mode(ctx, op.inputs[1], operands[1])
    elif ctx.is_planned(operands[1]) and not ctx.is_integer:
        mode = NodeMode.WEIGHT
    made = ctx.add("MatMul", operands, decision=mode)
    scale_rows(ctx, operands[0], made)
    if not ctx.is_constant(op.inputs[1]):
        made = rounded_twice(ctx, op, made)
    ctx.bind(op.outputs[0], made)


def _turned(ctx: Importer, index: int, *, turn: bool) -> ir.Value:
    rank = ctx.rank(index)
    if rank < MATRIX:
        raise ModelError(f"an operand has {rank} axes")
    order: Perm = pm.identity(rank)
    if turn:
        order = (*range(rank - MATRIX), rank - 1, rank - MATRIX)
    return ctx.weight(index, order) if ctx.is_constant(index) else ctx.value(index, order)


HANDLERS: dict[str, Handler] = {"FULLY_CONNECTED": _fully_connected, "BATCH_MATMUL": _batch_matmul}
