"""Shapes: reshaping, transposing, joining, splitting, repeating, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of, shape_of
from converter_lite.formats.mindir.importer.context import Held, numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step


def _reshape(step: Step) -> None:
    """Sizes known at run time only are given as a tensor; 0 keeps its meaning as an empty axis."""
    held = step.get("shape")
    parts = held if isinstance(held, tuple) else (held,)
    if _is_open(held):
        open_parts = [isinstance(part, ir.Value) and part.const_value is None for part in parts]
        if isinstance(held, tuple) and sum(open_parts) == 1 and -1 not in [p for p in parts if isinstance(p, int)]:
            parts = tuple(-1 if is_open else part for part, is_open in zip(parts, open_parts, strict=True))
            step.finish("Reshape", step.tensor("x"), step.ints("shape", [_whole(part) for part in parts]), allowzero=1)
            return
        sizes = step.converted(step.tensor("shape"), ir.DataType.INT64)
        step.finish("Reshape", step.tensor("x"), sizes, allowzero=1)
        return
    sizes_given = step.integers("shape")
    step.finish("Reshape", step.tensor("x"), step.ints("shape", sizes_given), allowzero=int(0 in sizes_given) or None)


def _whole(part: object) -> int:
    if isinstance(part, ir.Value) and part.const_value is not None:
        return int(part.const_value.numpy().item())
    if not isinstance(part, int):
        raise ModelError(f"{part!r:.40} is no size")
    return part


def _flatten(step: Step) -> None:
    """All axes from one to another become one; the oldest form keeps the first."""
    value, rank = step.tensor("x"), step.rank("x")
    if step.operator == "Flatten":
        step.finish("Flatten", value, axis=1)
        return
    first, last = (axis_of(step.integer(name, end), max(rank, 1)) for name, end in (("start", 0), ("end", -1)))
    if last < first:
        raise ModelError(f"axes {first} to {last}")
    if first == last and rank:
        step.give(value)
        return
    assert value.shape is not None
    sizes = list(value.shape)
    joined = sizes[first : last + 1]
    if all(isinstance(size, int) for size in joined) and sum(not isinstance(size, int) for size in sizes) == 1:
        middle = math.prod(size for size in joined if isinstance(size, int))
        shape = [size if isinstance(size, int) else -1 for size in [*sizes[:first], middle, *sizes[last + 1 :]]]
    elif all(isinstance(size, int) for size in (*sizes[:first], *sizes[last + 1 :])):
        shape = [size if isinstance(size, int) else -1 for size in [*sizes[:first], -1, *sizes[last + 1 :]]]
    else:
        if last != rank - 1:
            raise ModelError("it joins axes between others whose sizes are known at run time only")
        shape = [*(0,) * first, -1]
    step.finish("Reshape", value, step.ints("shape", shape))


def _transpose(step: Step) -> None:
    value, rank = step.tensor("x"), step.rank("x")
    order = [axis_of(axis, rank) for axis in step.integers("perm")]
    if sorted(order) != list(range(rank)):
        raise ModelError(f"the order {order} of {rank} axes")
    step.finish("Transpose", value, perm=order)


def _swap(step: Step) -> None:
    rank = step.rank("x")
    order = list(range(rank))
    first, second = step.axis("dim0", rank), step.axis("dim1", rank)
    order[first], order[second] = order[second], order[first]
    step.finish("Transpose", step.tensor("x"), perm=order)


def _matrix_transpose(step: Step) -> None:
    step.finish("Transpose", step.tensor("x"), perm=list(reversed(range(step.rank("x")))))


def _expand_dims(step: Step) -> None:
    axis = step.axis("axis", step.rank("x") + 1)
    step.finish("Unsqueeze", step.tensor("x"), step.ints("axes", [axis]))


def _squeeze(step: Step) -> None:
    value, rank = step.tensor("x"), step.rank("x")
    axes = step.axes("axis", rank)
    if not axes:
        axes = [axis for axis, size in enumerate(step.shape("x")) if size == 1]
    step.finish("Squeeze", value, step.ints("axes", axes)) if axes else step.give(value)


def _concat(step: Step) -> None:
    values = step.tensors("x")
    if not values:
        raise ModelError("it joins nothing")
    rank = 0 if values[0].shape is None else len(values[0].shape)
    axis = step.axis("axis", rank, 0)
    if len(values) == 1:
        step.give(values[0])
    else:
        step.finish("Concat", *values, axis=axis)


def _stack(step: Step) -> None:
    values = step.tensors("x")
    if not values or values[0].shape is None:
        raise ModelError("it stacks nothing")
    axis = step.axis("axis", len(values[0].shape) + 1, 0)
    place = step.ints("axes", [axis])
    step.finish("Concat", *(step.emit("Unsqueeze", value, place) for value in values), axis=axis)


def _unstack(step: Step) -> None:
    value, rank = step.tensor("x"), step.rank("x")
    axis = step.axis("axis", rank, 0)
    place, count = step.ints("axes", [axis]), step.shape("x")[axis]
    parts = (
        [value] if count == 1 else step.emit_many("Split", [value, step.ints("sizes", [1] * count)], count, axis=axis)
    )
    step.give(tuple(step.emit("Squeeze", part, place) for part in parts))


def _split(step: Step) -> None:
    """Into so many parts of one size."""
    axis, count = step.axis("axis", step.rank("x"), 0), step.integer("output_num", 1)
    size = step.shape("x")[axis]
    if count < 1 or size % count:
        raise ModelError(f"{size} in {count} parts of one size")
    _in_parts(step, axis, [size // count] * count)


def _split_sizes(step: Step) -> None:
    """Into parts of a size, of which the last may be smaller, or into parts of several sizes."""
    axis = step.axis("axis", step.rank("x"), 0)
    size = step.shape("x")[axis]
    if step.operator in ("Chunk", "ChunkView"):
        length = -(-size // max(step.integer("sizes"), 1))
    elif step.operator.startswith("SplitTensor"):
        length = step.integer("sizes")
    else:
        _in_parts(step, axis, list(step.integers("sizes")))
        return
    if length < 1:
        raise ModelError(f"{size} in parts of {length}")
    _in_parts(step, axis, [min(length, size - start) for start in range(0, size, length)])


def _in_parts(step: Step, axis: int, sizes: list[int]) -> None:
    value = step.tensor("x")
    if sum(sizes) != step.shape("x")[axis] or min(sizes, default=0) < 0:
        raise ModelError(f"{step.shape('x')[axis]} in parts of {sizes}")
    if len(sizes) == 1:
        step.give((value,))
    else:
        step.finish_many("Split", [value, step.ints("sizes", sizes)], len(sizes), axis=axis)


def _tile(step: Step) -> None:
    value, repeats = step.tensor("x"), list(step.integers("repeats"))
    rank = step.rank("x")
    if any(count < 0 for count in repeats):
        raise ModelError(f"repeats {repeats}")
    if len(repeats) > rank:
        value = step.emit("Unsqueeze", value, step.ints("axes", range(len(repeats) - rank)))
    repeats = [1] * (rank - len(repeats)) + repeats
    step.finish("Tile", value, step.ints("repeats", repeats))


def _broadcast(step: Step) -> None:
    """-1 keeps a size."""
    value, shape = step.tensor("x"), step.integers("shape")
    step.finish("Expand", value, step.ints("shape", [1 if size == -1 else size for size in shape]))


def _expand_as(step: Step) -> None:
    step.finish("Expand", step.tensor("x"), step.emit("Shape", step.tensor("other")))


def _repeat(step: Step) -> None:
    """Each element so often behind itself."""
    value, count = step.tensor("x"), step.integer("repeats")
    if not step.has("axis"):
        value, axis = step.emit("Reshape", value, step.ints("flat", [-1])), 0
    else:
        axis = step.axis("axis", step.rank("x"))
    shape = shape_of(value)
    apart = step.emit("Unsqueeze", value, step.ints("axes", [axis + 1]))
    repeats = [1] * (len(shape) + 1)
    repeats[axis + 1] = count
    whole = step.emit("Tile", apart, step.ints("repeats", repeats))
    step.finish("Reshape", whole, step.ints("shape", [*shape[:axis], shape[axis] * count, *shape[axis + 1 :]]))


def _pad(step: Step) -> None:
    """A pair of numbers for each axis."""
    pairs = step.get("paddings")
    if not isinstance(pairs, tuple) or any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        numbers = step.integers("paddings")
        pairs = tuple(zip(numbers[::2], numbers[1::2], strict=True))
    mode = step.word("mode", "constant")
    if mode not in ("constant", "reflect", "symmetric"):
        raise ModelError(f"padding of mode {mode.upper()}")
    if len(pairs) != step.rank("x"):
        raise ModelError(f"{len(pairs)} pairs of pads for {step.rank('x')} axes")
    pads = [_whole(pair[end]) for end in range(2) for pair in pairs]
    if mode == "symmetric":
        _gathered(step, pads, "symmetric")
    else:
        _padded(step, pads, mode, None)


def _gathered(step: Step, pads: Sequence[int], mode: Literal["symmetric", "wrap"]) -> None:
    """A mirror that repeats the border, or what goes round in circles, which ONNX has not: the elements are gathered."""
    value, shape = step.tensor("x"), step.shape("x")
    pairs = list(zip(pads[: len(shape)], pads[len(shape) :], strict=True))
    axes = [axis for axis, pair in enumerate(pairs) if any(pair)]
    for axis in axes:
        size, (before, behind) = shape[axis], pairs[axis]
        if min(before, behind) < 0 or max(before, behind) > size:
            raise ModelError(f"{[before, behind]} elements around {size}")
        step.importer.take(size + before + behind)
        places = step.ints("places", np.pad(np.arange(size), (before, behind), mode=mode))
        value = (step.finish if axis == axes[-1] else step.emit)("Gather", value, places, axis=axis)
    if not axes:
        step.give(value)


def _pad_from_end(step: Step) -> None:
    """Pairs of numbers from the last axis on."""
    numbers, rank = list(step.integers("padding")), step.rank("x")
    mode = step.word("mode", {"Ref": "reflect", "Rep": "edge"}.get(step.operator[:3], "constant"))
    if mode not in ("constant", "reflect", "edge", "circular"):
        raise ModelError(f"padding of mode {mode}")
    if not step.flag("paddings_contiguous", True):
        numbers = [numbers[place] for pair in range(len(numbers) // 2) for place in (pair, pair + len(numbers) // 2)]
    if len(numbers) % 2 or len(numbers) > 2 * rank:
        raise ModelError(f"padding {numbers} of {rank} axes")
    pads = [0] * 2 * rank
    for pair in range(len(numbers) // 2):
        pads[rank - 1 - pair], pads[2 * rank - 1 - pair] = numbers[2 * pair], numbers[2 * pair + 1]
    value = step.tensor("x")
    if mode == "circular":
        _gathered(step, pads, "wrap")
        return
    number = step.tensor("value", value) if mode == "constant" and step.has("value") else None
    if number is not None and number.const_value is not None:
        number = step.constant("value", number.const_value.numpy().reshape(()), numpy_type(value))
    _padded(step, pads, mode, number)


def _padded(step: Step, pads: Sequence[int], mode: str, number: ir.Value | None) -> None:
    step.finish("Pad", step.tensor("x"), step.ints("pads", pads), number, mode=mode)


def _depth_to_space(step: Step) -> None:
    step.finish(step.operator, step.tensor("x"), blocksize=step.integer("block_size"))


def _pixel_shuffle(step: Step) -> None:
    step.finish("DepthToSpace", step.tensor("x"), blocksize=step.integer("factor"), mode="CRD")


def _filled(step: Step) -> None:
    """One number in a shape."""
    names = step.kind.arguments.split()
    number = step.get("value", {"Zeros": 0, "Ones": 1}.get(step.operator, 0))
    if isinstance(number, ir.Value):
        if number.const_value is None or number.const_value.size != 1:
            raise ModelError("its number is known at run time only")
        number = number.const_value.numpy().item()
    if step.has("dtype"):
        kind = step.element("dtype").numpy()
    elif "value" in names and isinstance(step.get("value"), ir.Value):
        kind = numpy_type(step.tensor("value"))
    else:
        kind = np.asarray(number, np.float32 if isinstance(number, float) or "value" not in names else None).dtype
    if _is_open(step.get("shape")):
        sizes, filling = step.tensor("shape"), ir.Tensor(np.asarray([number], kind))
        step.finish("ConstantOfShape", step.converted(sizes, ir.DataType.INT64), value=filling)
        return
    shape = step.integers("shape")
    if any(size < 0 for size in shape):
        raise ModelError(f"the shape {list(shape)}")
    step.importer.take(math.prod(shape))
    step.give(step.constant("filled", np.full(shape, number), kind))


def _is_open(held: Held) -> bool:
    """Whether numbers, or some of them, are known at run time only."""
    parts = held if isinstance(held, tuple) else (held,)
    return any(isinstance(part, ir.Value) and part.const_value is None for part in parts)


def _range(step: Step) -> None:
    names = ("start", "end", "step")
    held = [step.get(name) for name in names]
    numbers = [
        step.number(name) if isinstance(part, ir.Value) else part for name, part in zip(names, held, strict=True)
    ]
    kinds = [numpy_type(part) for part in held if isinstance(part, ir.Value)]
    real = any(isinstance(number, float) for number in numbers)
    kind = kinds[0] if kinds else np.dtype(np.float32 if real else np.int64)
    if step.has("dtype"):
        kind = step.element("dtype").numpy()
    begin, end, width = numbers
    count = max(math.ceil((end - begin) / width), 0)
    step.importer.take(count)
    step.give(step.constant("range", begin + np.arange(count) * width, kind))


def _triangle(step: Step) -> None:
    value = step.tensor("x")
    upper = int(step.operator.startswith("Triu"))
    step.finish("Trilu", value, step.ints("diagonal", step.integer("diagonal", 0)), upper=upper)


_RESHAPE = "x shape"
_PARTS = "x sizes axis"

KINDS: dict[str, Kind] = {
    **dict.fromkeys(("Reshape", "View"), Kind(_reshape, _RESHAPE, "Reshape, Cast, Unsqueeze, Concat")),
    "Flatten": Kind(_flatten, "x", "Flatten"),
    "FlattenExt": Kind(_flatten, "x start end", "Reshape, or nothing"),
    **dict.fromkeys(("Transpose", "TransposeView"), Kind(_transpose, "x perm", "Transpose")),
    **dict.fromkeys(("TransposeExtView", "TransposeExt"), Kind(_swap, "x dim0 dim1", "Transpose")),
    "TExt": Kind(_matrix_transpose, "x", "Transpose"),
    **dict.fromkeys(("ExpandDims", "ExpandDimsView", "Unsqueeze"), Kind(_expand_dims, "x axis", "Unsqueeze")),
    "Squeeze": Kind(_squeeze, "x axis", "Squeeze, or nothing"),
    "Concat": Kind(_concat, "x axis", "Concat, or nothing"),
    **dict.fromkeys(("Stack", "StackExt"), Kind(_stack, "x axis", "Unsqueeze, Concat")),
    **dict.fromkeys(("Unstack", "UnstackExtView"), Kind(_unstack, "x axis", "Split, Squeeze")),
    "Split": Kind(_split, "x axis output_num", "Split, or nothing"),
    **dict.fromkeys(
        ("SplitTensor", "SplitTensorView", "SplitWithSize", "SplitWithSizeView", "Chunk", "ChunkView"),
        Kind(_split_sizes, _PARTS, "Split, or nothing"),
    ),
    "Tile": Kind(_tile, "x repeats", "Unsqueeze, Tile"),
    **dict.fromkeys(("BroadcastTo", "BroadcastToView"), Kind(_broadcast, _RESHAPE, "Expand")),
    "ExpandAs": Kind(_expand_as, "x other", "Shape, Expand"),
    "RepeatInterleaveInt": Kind(_repeat, "x repeats axis output_size", "Unsqueeze, Tile, Reshape"),
    **dict.fromkeys(("Pad", "MirrorPad"), Kind(_pad, "x paddings", "Pad, Gather", "mode")),
    "PadV3": Kind(_pad_from_end, "x padding value", "Pad, Gather", "mode paddings_contiguous"),
    "ConstantPadND": Kind(_pad_from_end, "x padding value", "Pad"),
    **dict.fromkeys(
        ("ReflectionPad1D", "ReflectionPad2D", "ReplicationPad1D", "ReplicationPad2D"),
        Kind(_pad_from_end, "x padding", "Pad"),
    ),
    "DepthToSpace": Kind(_depth_to_space, "x", "DepthToSpace", "block_size"),
    "SpaceToDepth": Kind(_depth_to_space, "x", "SpaceToDepth", "block_size"),
    "PixelShuffle": Kind(_pixel_shuffle, "x factor", "DepthToSpace"),
    **dict.fromkeys(
        ("Zeros", "Ones"), Kind(_filled, "shape dtype", "a constant; ConstantOfShape, Cast, Unsqueeze, Concat")
    ),
    **dict.fromkeys(("FillScalar", "FillTensor", "FillV2"), Kind(_filled, "shape value dtype", "a constant")),
    "Fill": Kind(_filled, "dtype shape value", "a constant"),
    "Range": Kind(_range, "start end step maxlen", "a constant"),
    "Arange": Kind(_range, "start end step dtype", "a constant"),
    **dict.fromkeys(("Triu", "TrilExt", "Tril"), Kind(_triangle, "x diagonal", "Trilu")),
}
