"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.enums import Format, PadMode, QuantType, ReduceMode
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import (
    Lower,
    as_image,
    bind_image,
    required,
    top_bottom_left_right,
)
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.pad import pad_image
from converter_lite.formats.mindspore_lite.exporter.reduce import reduce
from converter_lite.graph import int_attribute, ints_attribute, is_read, window_pads


def _pool(op: str) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        shape, result = ctx.shape(x), ctx.shape(out)
        spatial = len(shape) - 2
        if spatial not in (1, 2):
            raise Unsupported(f"pooling over {spatial} axes")
        if len(node.outputs) > 1 and is_read(node.outputs[1]):
            raise Unsupported("the second output (indices) is used")
        ones = (1,) * spatial
        if set(ints_attribute(node, "dilations", ones)) != {1}:
            raise Unsupported("dilations")
        kernel, stride = ints_attribute(node, "kernel_shape"), ints_attribute(node, "strides", ones)
        pads = window_pads(node, shape[2:], kernel, stride, ones)
        image = as_image(ctx, x, integer=_is_integer(ctx, node))
        sizes: Sequence[int] = shape[2:]
        if op == "AvgPoolFusion" and int_attribute(node, "count_include_pad", 0) and any(pads):
            # What a window has behind this padding is not counted, as the kernel does not count any padding of its own.
            image, pads = pad_image(ctx, image, _image_pads(pads)), (0,) * len(pads)
            sizes = ctx.ms.tensors[image].dims[3 - spatial : 3]
        pads = _covering(sizes, result[2:], kernel, stride, pads)
        lead = [1] if spatial == 1 else []
        windows = {"kernel_size": [*lead, *kernel], "strides": [*lead, *stride], "pad": _image_pads(pads)}
        _windows(ctx, node, op, image, windows)

    return lower


def _is_integer(ctx: Lowering, node: ir.Node) -> bool:
    x = required(node, 0)
    return len(ctx.shape(x)) == 4 and ctx.computes_integers(node, [x], node.outputs[0])


def _covering(
    size: Sequence[int], out: Sequence[int], kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int]
) -> tuple[int, ...]:
    """End pads that give exactly the known output size by rounding down; ceil_mode needs no other treatment."""
    begins = tuple(pads[: len(kernel)])
    sides = zip(size, out, kernel, stride, begins, strict=True)
    return (*begins, *(max(0, (o - 1) * s + k - n - b) for n, o, k, s, b in sides))


def _image_pads(pads: Sequence[int]) -> list[int]:
    if len(pads) == 2:
        return [0, 0, pads[0], pads[1]]
    return top_bottom_left_right(pads)


def _windows(ctx: Lowering, node: ir.Node, op: str, image: int, sizes: dict[str, list[int]]) -> None:
    out = node.outputs[0]
    shape = ctx.shape(out)
    dims = (shape[0], shape[2] if len(shape) == 4 else 1, shape[-1], shape[1])
    index = _emit(ctx, node, op, image, dims, {**sizes, "pad_mode": int(PadMode.PAD)})
    if _is_integer(ctx, node) and len(shape) == 4:
        ctx.bind_same_grid(out, index, pm.NHWC, required(node, 0))
    else:
        bind_image(ctx, out, index)


def _emit(ctx: Lowering, node: ir.Node, op: str, image: int, dims: Sequence[int], attributes: dict[str, Any]) -> int:
    integer = _is_integer(ctx, node)
    return ctx.emit(
        op,
        [image],
        dims,
        quant=ctx.ms.tensors[image].quant if integer else None,
        quant_type=QuantType.ALL if integer else QuantType.NONE,
        format=int(Format.NHWC),
        **attributes,
    )


def _global(op: str, mode: ReduceMode) -> Lower:
    def lower(ctx: Lowering, node: ir.Node) -> None:
        x, out = required(node, 0), node.outputs[0]
        shape = ctx.shape(x)
        if len(shape) != 4:
            reduce(ctx, x, out, mode, list(range(2, len(shape))), keep_dims=True)
            return
        integer = _is_integer(ctx, node)
        image = as_image(ctx, x, integer=integer)
        attributes: dict[str, Any] = {"strides": [1, 1], "pad": [0, 0, 0, 0], "global": True}
        index = _emit(ctx, node, op, image, (shape[0], 1, 1, shape[1]), attributes)
        if integer:
            ctx.bind_same_grid(out, index, pm.NHWC, x)
        else:
            ctx.bind(out, index, pm.NHWC)

    return lower


TABLE: dict[str, Lower] = {
    "MaxPool": _pool("MaxPoolFusion"),
    "AveragePool": _pool("AvgPoolFusion"),
    "GlobalAveragePool": _global("AvgPoolFusion", ReduceMode.MEAN),
    "GlobalMaxPool": _global("MaxPoolFusion", ReduceMode.MAX),
}
