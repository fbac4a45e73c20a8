"""Moving between the sizes of a picture, its channels, and the batch."""

from __future__ import annotations

import numpy as np

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer.context import Handler, Importer
from converter_lite.formats.tflite.importer.slicing import LAST


def _depth(op_type: str) -> Handler:
    """Elements of a block are the slowest part of the channels, as in ONNX."""

    def handler(ctx: Importer, op: Operator) -> None:
        ctx.check_same_grid(op)
        size = int(op.get("block_size"))
        if size < 1:
            raise ModelError(f"blocks of {size}")
        mode = {"mode": "DCR"} if op_type == "DepthToSpace" else {}
        ctx.bind_picture(op.outputs[0], ctx.add(op_type, [ctx.picture(op.inputs[0])], blocksize=size, **mode))

    return handler


def _sizes(ctx: Importer, op: Operator) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Shape of the input, the block, and elements before and behind (or to cut off) along each axis of the block.

    Raises:
        ModelError: A size is open, or the lists do not fit.
    """
    shape, block, pairs = ctx.shape(op.inputs[0]), ctx.ints(op.inputs[1]), ctx.ints(op.inputs[2])
    if len(shape) < len(block) + 1 or len(pairs) != 2 * len(block) or min(block, default=0) < 1:
        raise ModelError(f"blocks {block} with {pairs} for {len(shape)} axes")
    if -1 in shape[1:]:
        raise ModelError("a size of its input is open", hint="give the inputs fixed sizes with --inputShape")
    return shape, block, list(zip(pairs[::2], pairs[1::2], strict=True))


def _space_to_batch(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    shape, block, pairs = _sizes(ctx, op)
    value, rest = ctx.value(op.inputs[0]), len(shape) - len(block) - 1
    if any(map(any, pairs)):
        before, behind = ([0, *(pair[side] for pair in pairs), *[0] * rest] for side in (0, 1))
        zero = ctx.builder.constant(0, value.dtype.numpy() if value.dtype is not None else np.float32)
        value = ctx.takes(ctx.add("Pad", [value, ctx.int64(before + behind), zero], mode="constant"), op.inputs[0])
    sizes = [size + sum(pair) for size, pair in zip(shape[1:], pairs, strict=False)]
    if any(size % step for size, step in zip(sizes, block, strict=True)):
        raise ModelError(f"{sizes} elements cannot be divided by {block}")
    inner = [n for size, step in zip(sizes, block, strict=True) for n in (size // step, step)]
    tail = shape[len(block) + 1 :]
    value = ctx.takes(ctx.add("Reshape", [value, ctx.int64([-1, *inner, *tail])]), op.inputs[0])
    steps, places = range(2, 2 * len(block) + 1, 2), range(1, 2 * len(block), 2)
    perm = [*steps, 0, *places, *range(2 * len(block) + 1, 2 * len(block) + 1 + rest)]
    value = ctx.takes(ctx.add("Transpose", [value], perm=perm), op.inputs[0])
    ctx.bind(op.outputs[0], ctx.add("Reshape", [value, ctx.int64([-1, *inner[::2], *tail])]))


def _batch_to_space(ctx: Importer, op: Operator) -> None:
    ctx.check_same_grid(op, 0)
    shape, block, pairs = _sizes(ctx, op)
    count, rest = len(block), len(shape) - len(block) - 1
    value = ctx.add("Reshape", [ctx.value(op.inputs[0]), ctx.int64([*block, -1, *shape[1:]])])
    value = ctx.takes(value, op.inputs[0])
    inner = [axis for place in range(count) for axis in (count + 1 + place, place)]
    perm = [count, *inner, *range(2 * count + 1, 2 * count + 1 + rest)]
    value = ctx.takes(ctx.add("Transpose", [value], perm=perm), op.inputs[0])
    sizes = [size * step for size, step in zip(shape[1:], block, strict=False)]
    value = ctx.add("Reshape", [value, ctx.int64([-1, *sizes, *shape[count + 1 :]])])
    cut = [(axis, pair) for axis, pair in enumerate(pairs, 1) if any(pair)]
    if cut:
        starts, ends = [first for _, (first, _) in cut], [-last if last else LAST for _, (_, last) in cut]
        lists = [ctx.int64(numbers) for numbers in (starts, ends, [axis for axis, _ in cut])]
        value = ctx.add("Slice", [ctx.takes(value, op.inputs[0]), *lists])
    ctx.bind(op.outputs[0], value)


HANDLERS: dict[str, Handler] = {
    "DEPTH_TO_SPACE": _depth("DepthToSpace"),
    "SPACE_TO_DEPTH": _depth("SpaceToDepth"),
    "SPACE_TO_BATCH_ND": _space_to_batch,
    "BATCH_TO_SPACE_ND": _batch_to_space,
}
