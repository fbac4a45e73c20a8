"""Padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import DataType, PaddingMode
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower, gather_axis, required, strided_slice
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.graph import input_at, scalar, text_attribute

_PICKED = ("edge", "wrap")
_MODES = {"constant": PaddingMode.CONSTANT, "reflect": PaddingMode.REFLECT}
_MOST_AXES = 6
"""Axes up to which the runtimes pad; they load no file with more."""


def pad_image(ctx: Lowering, index: int, pads: Sequence[int]) -> int:
    """Zeros around an NHWC tensor; pads are ``[top, bottom, left, right]``."""
    top, bottom, left, right = pads
    n, h, w, c = ctx.ms.tensors[index].dims
    dims = (n, h + top + bottom, w + left + right, c)
    return pad_tensor(ctx, index, [0, 0, top, bottom, left, right, 0, 0], dims)


def pad_tensor(
    ctx: Lowering,
    index: int,
    pairs: Sequence[int],
    dims: Sequence[int],
    *,
    mode: PaddingMode = PaddingMode.CONSTANT,
    value: float = 0.0,
) -> int:
    """Pads are ``[begin, end]`` of every axis."""
    source = ctx.ms.tensors[index]
    amounts = ctx.add_constant(np.array(pairs, np.int32), "paddings")
    return ctx.emit(
        "PadFusion",
        [index, amounts],
        dims,
        quant=source.quant,
        quant_type=ctx.shape_quant_type(index),
        padding_mode=int(mode),
        constant_value=value,
    )


def _pad(ctx: Lowering, node: ir.Node) -> None:
    x, out = required(node, 0), node.outputs[0]
    rank = len(ctx.shape(x))
    mode = text_attribute(node, "mode", "constant")
    begins, ends = _amounts(ctx, node, rank)
    cuts = min(begins + ends, default=0) < 0
    is_whole = ctx.dtype(x) is not DataType.FLOAT32  # for which there is no kernel that reflects
    if mode in _PICKED or (mode == "reflect" and (cuts or is_whole)):
        _pad_by_picking(ctx, node, mode, list(zip(begins, ends, strict=True)))
        return
    if mode not in _MODES:
        raise Unsupported(f"mode {mode}")
    if rank > _MOST_AXES:
        raise Unsupported(f"a tensor of {rank} axes (at most {_MOST_AXES})")
    given = input_at(node, 2)
    value = 0.0 if given is None else scalar(given)
    if value is None:
        raise Unsupported("the padding value is not constant")
    perm = ctx.best_perm([x], rank)
    pairs = [amount for axis in perm for amount in (begins[axis], ends[axis])]
    dims = pm.permute(ctx.shape(out), perm)
    source = ctx.use(x, perm)
    if cuts:
        source, pairs = _cut(ctx, source, pairs)
    index = pad_tensor(ctx, source, pairs, dims, mode=_MODES[mode], value=value)
    ctx.bind(out, index, perm)


def _cut(ctx: Lowering, index: int, pairs: list[int]) -> tuple[int, list[int]]:
    """Slice where pads are negative; returns the pads that are left."""
    dims = ctx.ms.tensors[index].dims
    begins, ends = pairs[::2], pairs[1::2]
    ranges = [
        (max(-begin, 0), size - max(-end, 0), axis, 1)
        for axis, (size, begin, end) in enumerate(zip(dims, begins, ends, strict=True))
        if min(begin, end) < 0
    ]
    return strided_slice(ctx, index, ranges), [max(p, 0) for p in pairs]


def _pad_by_picking(ctx: Lowering, node: ir.Node, mode: str, amounts: list[tuple[int, int]]) -> None:
    """Entries of every padded axis by index: for modes without an operator, and for negative pads, which cut first."""
    x, out = required(node, 0), node.outputs[0]
    shape, rank = ctx.shape(x), len(ctx.shape(x))
    perm = ctx.best_perm([x], rank)
    index = ctx.use(x, perm)
    for axis, (begin, end) in enumerate(amounts):
        if begin or end:
            kept = np.arange(max(-begin, 0), shape[axis] - max(-end, 0))
            picks = np.pad(kept, (max(begin, 0), max(end, 0)), mode=mode)  # type: ignore[call-overload]
            index = gather_axis(ctx, index, perm.index(axis), picks.tolist())
    if index == ctx.use(x, perm):
        ctx.alias(out, x, pm.identity(rank))
        return
    ctx.bind(out, index, perm)


def _amounts(ctx: Lowering, node: ir.Node, rank: int) -> tuple[list[int], list[int]]:
    pads, axes_value = ctx.ints(required(node, 1), "pads"), input_at(node, 3)
    axes = list(range(rank)) if axes_value is None else [a % rank for a in ctx.ints(axes_value, "axes")]
    begins, ends = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        begins[axis], ends[axis] = pads[i], pads[len(axes) + i]
    return begins, ends


TABLE: dict[str, Lower] = {"Pad": _pad}
