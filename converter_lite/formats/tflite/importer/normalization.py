"""Normalizations along the channels."""

from __future__ import annotations

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.activation import activated
from converter_lite.formats.tflite.importer.context import PICTURE, Handler, Importer


def _l2(ctx: Importer, op: Operator) -> None:
    source = op.inputs[0]
    order, rank = ctx.order(source), ctx.rank(source)
    axis = order.index(rank - 1) if order else rank - 1
    made = ctx.add("LpNormalization", [ctx.any_value(source)], axis=axis, p=2)
    ctx.bind(op.outputs[0], activated(ctx, op, made), order or None)


def _local_response(ctx: Importer, op: Operator) -> None:
    """ONNX divides ``alpha`` by the number of channels in the sum."""
    if ctx.rank(op.inputs[0]) != PICTURE:
        raise ModelError("its input is no batch of pictures")
    size = 2 * int(op.get("radius")) + 1
    made = ctx.add(
        "LRN",
        [ctx.picture(op.inputs[0])],
        size=size,
        alpha=float(op.get("alpha", 1.0)) * size,
        beta=float(op.get("beta", 1.0)),
        bias=float(op.get("bias", 1.0)),
    )
    ctx.bind_picture(op.outputs[0], made)


HANDLERS: dict[str, Handler] = {"L2_NORMALIZATION": _l2, "LOCAL_RESPONSE_NORMALIZATION": _local_response}
