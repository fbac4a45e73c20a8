"""Reductions, and operators along one axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, ReduceMode
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    axis_of,
    moved_axes,
    refuse_whole_numbers,
    required,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.permutation import Perm
from converter_lite.graph import input_at, int_attribute, ints_attribute, opset


def reduce(
    ctx: Lowering, x: ir.Value, out: ir.Value, mode: ReduceMode, axes: Sequence[int], *, keep_dims: bool
) -> None:
    """A reduction of an ONNX value over its axes, bound to ``out``."""
    rank = len(ctx.shape(x))
    perm = ctx.best_perm([x], rank)
    index = reduce_tensor(ctx, ctx.use(x, perm), mode, moved_axes(perm, axes), keep_dims=keep_dims)
    ctx.bind(out, index, perm if keep_dims else pm.without(perm, axes))


def reduce_tensor(ctx: Lowering, index: int, mode: ReduceMode, axes: Sequence[int], *, keep_dims: bool) -> int:
    """A ReduceFusion over axes of a tensor.

    Unless its only axis is the last one, the runtime's ReduceMax gives the smallest positive float for negative numbers: the
    largest is the smallest of the negated numbers there.
    """
    dims = ctx.ms.tensors[index].dims
    kept = [1 if i in axes else d for i, d in enumerate(dims) if keep_dims or i not in axes]
    places = ctx.int_constant(sorted(axes), "axes")
    is_real = ctx.ms.tensors[index].dtype == DataType.FLOAT32
    if mode is ReduceMode.MAX and is_real and list(axes) != [len(dims) - 1]:
        negated = reduce_tensor(ctx, ctx.emit("Neg", [index], dims), ReduceMode.MIN, axes, keep_dims=keep_dims)
        return ctx.emit("Neg", [negated], kept)
    return ctx.emit("ReduceFusion", [index, places], kept, keep_dims=keep_dims, mode=int(mode), coeff=1.0)


def _axes(ctx: Lowering, node: ir.Node, rank: int) -> list[int]:
    if not rank:
        raise Unsupported("a reduction of a single number, in which a runtime does not end")
    given = input_at(node, 1)
    axes = list(ints_attribute(node, "axes")) if given is None else ctx.ints(given, "axes")
    if not axes and int_attribute(node, "noop_with_empty_axes", 0):
        raise Unsupported("a reduction over no axes")
    return sorted(a % rank for a in axes) or list(range(rank))


def _reduce(mode: ReduceMode, *, before: str = "", after: str = "", floats: bool = False) -> Lower:
    """A reduction, with an operator applied to every element before it and to the result, or one of ``floats`` alone."""

    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        if floats:
            refuse_whole_numbers(ctx, x)
        rank = len(ctx.shape(x))
        axes, keep = _axes(ctx, node, rank), bool(int_attribute(node, "keepdims", 1))
        if mode is ReduceMode.MEAN and len(axes) > 1:  # the runtime rounds a mean of whole numbers after each axis
            refuse_whole_numbers(ctx, x)
        perm = ctx.best_perm([x], rank)
        index = ctx.use(x, perm)
        if before:
            index = ctx.emit(before, [index], ctx.ms.tensors[index].dims)
        index = reduce_tensor(ctx, index, mode, moved_axes(perm, axes), keep_dims=keep)
        if after:
            index = ctx.emit(after, [index], ctx.ms.tensors[index].dims)
        ctx.bind(out, index, perm if keep else pm.without(perm, axes))

    return lower


def _softmax(op: str) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        shape, rank = ctx.shape(x), len(ctx.shape(x))
        old = opset(ctx.quantized.model) < 13
        axis = axis_of(node, rank, 1 if old else -1)
        if old and int(np.prod(shape[axis + 1 :])) != 1:
            raise Unsupported("Softmax over several axes (opset below 13)")
        perm = ctx.best_perm([x], rank)
        place = perm.index(axis)
        index = ctx.emit(
            op,
            [ctx.use(x, perm)],
            pm.permute(shape, perm),
            axis=[place] if op == "Softmax" else place,
        )
        ctx.bind(out, index, perm)

    return lower


_ARG_RANKS = (2, 3, 4)
"""Numbers of axes with which the runtime finds the largest; of one it refuses results without axes."""


def _arg(op: str) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        shape, rank = ctx.shape(x), len(ctx.shape(x))
        if int_attribute(node, "select_last_index", 0):
            raise Unsupported("select_last_index")
        axis, keep = axis_of(node, rank, 0), bool(int_attribute(node, "keepdims", 1))
        if rank not in _ARG_RANKS:
            flat = ctx.reshape(ctx.use(x), (int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))))
            dims = [ctx.ms.tensors[flat].dims[0], ctx.ms.tensors[flat].dims[2]]
            index = ctx.emit(
                op, [flat], dims, dtype=DataType.INT32, axis=1, top_k=1, keep_dims=False, out_max_value=False
            )
            ctx.bind(out, ctx.reshape(index, ctx.shape(out)))
            return
        perm: Perm = ctx.best_perm([x], rank)
        place = perm.index(axis)
        kept = [1 if a == axis else shape[a] for a in perm if keep or a != axis]
        index = ctx.emit(
            op, [ctx.use(x, perm)], kept, dtype=DataType.INT32, axis=place, top_k=1, keep_dims=keep, out_max_value=False
        )
        ctx.bind(out, index, perm if keep else pm.without(perm, [axis]))

    return lower


def _topk(ctx: Lowering, node: ir.Node) -> None:
    """The runtime always takes the largest; the smallest are the largest of the negated values."""
    x, rank = required(node, 0), len(ctx.shape(required(node, 0)))
    axis = axis_of(node, rank, -1)
    count = ctx.ints(required(node, 1), "k")[0]
    order = (*(a for a in range(rank) if a != axis), axis)
    source = ctx.use(x, order)
    smallest = not int_attribute(node, "largest", 1)
    if smallest:
        source = ctx.emit("Neg", [source], ctx.ms.tensors[source].dims)
    dims = (*ctx.ms.tensors[source].dims[:-1], count)
    values, indices = ctx.emit_many(
        "TopKFusion",
        [source, ctx.int_constant([count], "k")],
        [(dims, ctx.dtype(x)), (dims, DataType.INT32)],
        sorted=bool(int_attribute(node, "sorted", 1)),
        axis=rank - 1,
        largest=1,
    )
    if smallest:
        values = ctx.emit("Neg", [values], dims)
    ctx.bind(node.outputs[0], values, order)
    ctx.bind(node.outputs[1], indices, order)


def _cumsum(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    axis = ctx.ints(required(node, 1), "the axis")[0] % rank
    perm = ctx.best_perm([x], rank)
    index = ctx.emit(
        "CumSum",
        [ctx.use(x, perm), ctx.int_constant([perm.index(axis)], "axis")],
        pm.permute(ctx.shape(x), perm),
        exclusive=bool(int_attribute(node, "exclusive", 0)),
        reverse=bool(int_attribute(node, "reverse", 0)),
    )
    ctx.bind(out, index, perm)


TABLE: dict[str, Lower] = {
    "ReduceMean": _reduce(ReduceMode.MEAN),
    "ReduceSum": _reduce(ReduceMode.SUM),
    "ReduceMax": _reduce(ReduceMode.MAX),
    "ReduceMin": _reduce(ReduceMode.MIN),
    "ReduceProd": _reduce(ReduceMode.PROD),
    "ReduceL2": _reduce(ReduceMode.L2, floats=True),
    "ReduceSumSquare": _reduce(ReduceMode.SUM, before="Square", floats=True),  # its own mode squares its input in place
    "ReduceL1": _reduce(ReduceMode.SUM, before="Abs"),
    "ReduceLogSum": _reduce(ReduceMode.SUM, after="Log", floats=True),
    "Softmax": _softmax("Softmax"),
    "LogSoftmax": _softmax("LogSoftmax"),
    "ArgMax": _arg("ArgMaxFusion"),
    "ArgMin": _arg("ArgMinFusion"),
    "TopK": _topk,
    "CumSum": _cumsum,
}
