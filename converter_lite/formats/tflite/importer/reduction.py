"""Reductions over axes."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import PICTURE, Handler, Importer
from converter_lite.formats.tflite.importer.shaping import squeezed


def _reduce(op_type: str) -> Handler:
    def handler(ctx: Importer, op: Operator) -> None:
        source = op.inputs[0]
        axes = _axes(ctx, op)
        if not axes:
            ctx.same(op.outputs[0], source)
            return
        order, value = ctx.order(source), ctx.any_value(source)
        if op_type == "ReduceMean" and order == pm.channels_first(PICTURE) and axes == [1, 2]:
            value = ctx.takes(ctx.add("GlobalAveragePool", [value]), op.outputs[0])
        else:
            places = sorted(order.index(axis) if order else axis for axis in axes)
            value = ctx.add(op_type, [value, ctx.int64(places, "axes")], keepdims=1 if op.get("keep_dims") else 0)
            if not op.get("keep_dims"):
                ctx.bind(op.outputs[0], value, pm.without(order or pm.identity(ctx.rank(source)), axes))
                return
        if not op.get("keep_dims"):
            value, order = squeezed(ctx, value, order, axes)
        ctx.bind(op.outputs[0], value, order or None)

    return handler


def _axes(ctx: Importer, op: Operator) -> list[int]:
    rank = ctx.rank(op.inputs[0])
    return sorted({axis_of(axis, rank) for axis in ctx.ints(op.inputs[1])})


def _logical(op_type: str) -> Handler:
    """Of truth values: as numbers, of which ONNX knows the largest and the smallest."""

    def handler(ctx: Importer, op: Operator) -> None:
        source, axes = op.inputs[0], _axes(ctx, op)
        if not axes:
            ctx.same(op.outputs[0], source)
            return
        numbers = ctx.add("Cast", [ctx.value(source)], to=ir.DataType.INT32.value)
        keep = 1 if op.get("keep_dims") else 0
        found = ctx.add(op_type, [numbers, ctx.int64(axes, "axes")], keepdims=keep)
        ctx.bind(op.outputs[0], ctx.add("Cast", [found], to=ir.DataType.BOOL.value))

    return handler


HANDLERS: dict[str, Handler] = {
    "MEAN": _reduce("ReduceMean"),
    "SUM": _reduce("ReduceSum"),
    "REDUCE_MAX": _reduce("ReduceMax"),
    "REDUCE_MIN": _reduce("ReduceMin"),
    "REDUCE_PROD": _reduce("ReduceProd"),
    "REDUCE_ANY": _logical("ReduceMax"),
    "REDUCE_ALL": _logical("ReduceMin"),
}
