"""Sizes for dimensions that a model leaves open, where nobody gives samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.data.layout import Layout, known_layout

SEQUENCE_LENGTH = 16
"""Length of an open dimension that is not a batch, channel or picture side."""

PICTURE_SIDE = 64
"""Height and width of a picture whose size is open: divisible by the strides of common backbones."""

PICTURE_COLOURS = 3
"""Channels of a picture whose channel count is open."""

OTHER_LENGTHS = (64, 256, 512, 1024, 4096)
"""Lengths that are tried where a model cannot run the usual one: windows of sound, for one."""

OTHER_SIDES = (32, 48, 224, 320)
"""Sides that are tried where a model cannot run the usual one: lines of text have 32 or 48 rows."""

STEPS = 64
"""Of a first axis that is no batch, for models that only run on many: convolutions over time."""

MOST_BESIDE_STEPS = 512
"""Largest length that is tried beside them: two open axes have it each."""

MOST_FIELDS = 4
"""More positions than that, each read by itself, are steps; fewer are queries, keys and values, or sides of a shape."""

MOST_TOLD = 4
"""Most lengths that are tried because nodes or weights have them."""


@dataclass(frozen=True, slots=True)
class OpenSizes:
    """A choice of sizes.

    Attributes:
        length: Of open sequences.
        side: Height and width of pictures.
        states: An open size between two fixed ones is a batch (states of recurrent layers), else a length.
        first: Of the first axis, usually a batch.
    """

    length: int = SEQUENCE_LENGTH
    side: int = PICTURE_SIDE
    states: bool = False
    first: int = 1

    def size(self, shape: tuple[int | None, ...], axis: int) -> int:
        """For the open dimension ``axis`` of an input."""
        if axis == 0 and len(shape) > 1:
            return self.first
        if len(shape) != 4:
            is_state = self.states and len(shape) == 3 and axis == 1 and shape[0] is not None and shape[2] is not None
            return 1 if is_state else self.length
        return PICTURE_COLOURS if axis == (3 if known_layout(shape, None) is Layout.NHWC else 1) else self.side


USUAL_SIZES = OpenSizes()


def other_sizes(model: ir.Model) -> Iterator[OpenSizes]:
    """Choices for a model that cannot run the usual one: what its nodes and weights tell first."""
    told = tuple(dict.fromkeys((*unrolled_lengths(model), *told_lengths(model))))
    lengths = tuple(dict.fromkeys((*told, *OTHER_LENGTHS)))
    for length in lengths:
        yield OpenSizes(length)
    for side in OTHER_SIDES:
        yield OpenSizes(side=side)
    yield OpenSizes(side=1)  # a decoder of a window, with as few positions in its caches as it was exported with
    yield OpenSizes(length=1)  # a decoder of one token at a time
    for length in dict.fromkeys((SEQUENCE_LENGTH, *lengths)):
        yield OpenSizes(length, states=True)
    short = (length for length in OTHER_LENGTHS if length <= MOST_BESIDE_STEPS)
    for length in dict.fromkeys((SEQUENCE_LENGTH, *told, *short)):
        yield OpenSizes(length, first=STEPS)


def unrolled_lengths(model: ir.Model) -> tuple[int, ...]:
    """Steps of loops over time that an exporter unrolled, the most first: each step reads its own position of one tensor."""
    read: dict[tuple[ir.Value, int], set[int]] = {}
    for node in model.graph:
        data, index = (g.input_at(node, 0), g.scalar(g.input_at(node, 1))) if node.op_type == "Gather" else (None, None)
        if data is not None and index is not None:
            read.setdefault((data, g.int_attribute(node, "axis", 0)), set()).add(int(index))
    steps = {len(places) for places in read.values() if places == set(range(len(places)))}
    return tuple(sorted((count for count in steps if count > MOST_FIELDS), reverse=True)[:MOST_TOLD])


def told_lengths(model: ir.Model) -> tuple[int, ...]:
    """Numbers of features that the first layers with weights read: one of them may be the open size of an input."""
    found: dict[int, None] = {}
    for node in model.graph:
        size = _features(node)
        if size is not None and 1 < size <= OTHER_LENGTHS[-1]:
            found[size] = None
        if len(found) == MOST_TOLD:
            break
    return tuple(found)


def _features(node: ir.Node) -> int | None:
    """The size of the axis over which a layer sums."""
    shape = g.static_shape(g.input_at(node, 1)) if g.is_constant(g.input_at(node, 1)) else None
    if not shape or len(shape) < 2:
        return None
    if node.op_type in ("LSTM", "GRU", "RNN"):
        return shape[-1]
    if node.op_type == "MatMul" or (node.op_type == "Gemm" and not g.int_attribute(node, "transB", 0)):
        return shape[-2]
    if node.op_type == "Gemm":
        return shape[-1]
    return shape[1] * g.int_attribute(node, "group", 1) if node.op_type == "Conv" else None
