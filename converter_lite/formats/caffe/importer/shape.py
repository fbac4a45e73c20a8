"""Layers that move numbers, and layers that do nothing to them.

Source: the layers' files in BVLC/caffe and weiliu89/caffe (``permute_layer.cpp``).
"""

from __future__ import annotations

import math

import numpy as np

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step
from converter_lite.formats.caffe.network import Layer


def _split(step: Step) -> None:
    for index in range(len(step.layer.tops)):
        step.bind(step.input(), top=index)


def _dropout(step: Step) -> None:
    """Nothing, unless a fork has not scaled what was left in the training."""
    if step.parameters.flag("scale_train", True):
        step.bind(step.input())
        return
    left = 1.0 - step.parameters.number("dropout_ratio", 0.5)
    step.finish("Mul", step.input(), step.constant("left", left))


def is_idle(layer: Layer) -> bool:
    """Whether a layer passes a blob on in place."""
    in_place = layer.type in ("Dropout", "Split") and layer.bottoms == layer.tops
    return in_place and not layer.message.message("dropout_param").has("scale_train")


def _silence(step: Step) -> None:
    del step


def _reshape(step: Step) -> None:
    """Sizes for some axes: 0 keeps one, -1 takes what is left."""
    shape, wanted = step.shape(), step.parameters.message("shape").integers("dim")
    first, count = step.axis("axis", 0, ends=1), step.parameters.integer("num_axes", -1)
    last = len(shape) if count == -1 else first + count
    if count < -1 or last > len(shape) or wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        raise ModelError(f"dimensions {wanted} for {count} axes from axis {first} on of {list(shape)}")
    if any(not size and first + place >= len(shape) for place, size in enumerate(wanted)):
        raise ModelError(f"dimensions {wanted} keep an axis that {list(shape)} does not have")
    if first == 0 and last == len(shape):
        target = wanted  # as it is: ONNX means the same by 0 and -1
    else:
        kept = [size or shape[first + place] for place, size in enumerate(wanted)]
        target = [*shape[:first], *kept, *shape[last:]]
    if not target:
        raise ModelError("it gives no dimensions")
    step.finish("Reshape", step.input(), step.constant("shape", target, np.int64))


def _flatten(step: Step) -> None:
    shape, first, last = step.shape(), step.axis("axis", 1), step.axis("end_axis", -1)
    if first > last:
        raise ModelError(f"axes {first} to {last}")
    if first == 1 and last == len(shape) - 1:
        step.finish("Flatten", step.input(), axis=1)
        return
    target = (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :])
    step.finish("Reshape", step.input(), step.constant("shape", target, np.int64))


def _permute(step: Step) -> None:
    """Axes that the order leaves out follow as they were."""
    rank, order = len(step.shape()), step.parameters.sizes("order")
    if len(set(order)) != len(order) or any(axis >= rank for axis in order):
        raise ModelError(f"order {order} of {rank} dimensions")
    step.finish("Transpose", step.input(), perm=[*order, *(axis for axis in range(rank) if axis not in order)])


def _axis(step: Step, old: str) -> int:
    """The layer's axis, which has an older name, too."""
    if step.parameters.has(old):
        axis, rank = step.parameters.size(old), len(step.shape())
        if axis >= rank or step.parameters.has("axis"):
            raise ModelError(f"{old} is {axis}, and '{step.layer.bottoms[0]}' has {rank} dimensions")
        return axis
    return step.axis("axis", 1)


def _concat(step: Step) -> None:
    axis, count = _axis(step, "concat_dim"), len(step.layer.bottoms)
    values = [step.input(index) for index in range(count)]
    arrays = [value.const_value for value in values]
    if all(array is not None for array in arrays):  # boxes of PriorBox layers
        step.importer.take(sum(array.size for array in arrays if array is not None))
        joined = np.concatenate([array.numpy() for array in arrays if array is not None], axis)
        step.bind(step.constant("boxes", joined))
        return
    step.finish("Concat", *values, axis=axis)


def _slice(step: Step) -> None:
    axis, count, points = _axis(step, "slice_dim"), len(step.layer.tops), step.parameters.sizes("slice_point")
    size = step.shape()[axis]
    if not points and size % count == 0:
        sizes = [size // count] * count
    else:
        sizes = [end - start for start, end in zip((0, *points), (*points, size), strict=True)]
    if len(sizes) != count or min(sizes) < 1:
        raise ModelError(f"{size} in {count} parts at {points}")
    step.finish_many("Split", step.input(), step.constant("sizes", sizes, np.int64), axis=axis)


def _crop(step: Step) -> None:
    """The size of the second bottom, from offsets on."""
    shape, like, offsets = step.shape(), step.shape(1), step.parameters.sizes("offset")
    axes = range(step.axis("axis", 2), len(shape))
    starts = offsets or [0]
    if len(starts) == 1:
        starts = starts * len(axes)
    if len(starts) != len(axes) or len(like) != len(shape):
        raise ModelError(f"offsets {offsets} for {list(shape)} like {list(like)} from axis {axes.start} on")
    ends = [start + like[axis] for start, axis in zip(starts, axes, strict=True)]
    if any(end > shape[axis] for end, axis in zip(ends, axes, strict=True)):
        raise ModelError(f"{list(like)} from {starts} on does not lie in {list(shape)}")
    constants = [
        step.constant(name, numbers, np.int64) for name, numbers in (("starts", starts), ("ends", ends), ("axes", axes))
    ]
    step.finish("Slice", step.input(), *constants)


def _tile(step: Step) -> None:
    axis, count = step.axis("axis", 1), step.parameters.size("tiles")
    if count < 1:
        raise ModelError(f"{count} tiles")
    repeats = [count if index == axis else 1 for index in range(len(step.shape()))]
    step.finish("Tile", step.input(), step.constant("repeats", repeats, np.int64))


def _shuffle_channel(step: Step) -> None:
    """Channels as a matrix of as many rows as groups, transposed."""
    shape, groups = step.shape(), step.parameters.size("group", 1)
    if len(shape) < 2 or not groups or shape[1] % groups:
        raise ModelError(f"{groups} groups of {list(shape)}")
    split = (shape[0], groups, shape[1] // groups, *shape[2:])
    apart = step.emit("Reshape", step.input(), step.constant("split", split, np.int64))
    turned = step.emit("Transpose", apart, perm=[0, 2, 1, *range(3, len(split))])
    step.finish("Reshape", turned, step.constant("shape", shape, np.int64))


_MANY = (1, 1 << 20)

KINDS: dict[str, Kind] = {
    "Dropout": Kind(_dropout, "nothing; Mul", "dropout_param", "dropout_ratio scale_train engine"),
    "Split": Kind(_split, "nothing", tops=_MANY),
    "Silence": Kind(_silence, "nothing", bottoms=_MANY, tops=(0, 0)),
    "Reshape": Kind(_reshape, "Reshape", "reshape_param", "shape axis num_axes"),
    "Flatten": Kind(_flatten, "Flatten, Reshape", "flatten_param", "axis end_axis"),
    "Permute": Kind(_permute, "Transpose", "permute_param", "order"),
    "Concat": Kind(_concat, "Concat", "concat_param", "axis concat_dim", bottoms=_MANY),
    "Slice": Kind(_slice, "Split", "slice_param", "axis slice_dim slice_point", tops=_MANY),
    "Crop": Kind(_crop, "Slice", "crop_param", "axis offset", bottoms=(2, 2)),
    "Tile": Kind(_tile, "Tile", "tile_param", "axis tiles"),
    "ShuffleChannel": Kind(_shuffle_channel, "Reshape, Transpose", "shuffle_channel_param", "group"),
}
