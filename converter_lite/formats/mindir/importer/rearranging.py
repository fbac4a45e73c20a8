"""Elements in other places: blocks of an image as a batch, diagonals, grids of coordinates, rows put into a tensor."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import shape_of
from converter_lite.formats.mindir.importer.context import numpy_type
from converter_lite.formats.mindir.importer.step import Kind, Step


def _block(step: Step, borders: str) -> tuple[int, int, list[int]]:
    """Size of the blocks, and the borders as ONNX has pads of two axes."""
    blocks, rows = step.integers("block_shape"), step.get(borders)
    pairs = [row for row in rows if isinstance(row, tuple)] if isinstance(rows, tuple) else []
    if len(blocks) != 2 or [len(pair) for pair in pairs] != [2, 2] or min(blocks) < 1:
        raise ModelError(f"blocks of {list(blocks)} with {borders} {rows!r:.60}")
    (top, bottom), (left, right) = pairs
    return blocks[0], blocks[1], [int(top), int(left), int(bottom), int(right)]


def _space_to_batch(step: Step) -> None:
    """The pixels at one place of each block are an image of their own, the places being the outer part of the batch."""
    rows, columns, pads = _block(step, "paddings")
    batch, channels, height, width = step.shape("x")
    value = step.tensor("x")
    if any(pads):
        zero = step.constant("zero", 0, numpy_type(value))
        value = step.emit("Pad", value, step.ints("pads", pads), zero, step.ints("axes", [2, 3]))
    height, width = height + pads[0] + pads[2], width + pads[1] + pads[3]
    split = [batch, channels, height // rows, rows, width // columns, columns]
    value = step.emit("Reshape", value, step.ints("split", split))
    value = step.emit("Transpose", value, perm=[3, 5, 0, 1, 2, 4])
    step.finish("Reshape", value, step.ints("shape", [batch * rows * columns, channels, split[2], split[4]]))


def _batch_to_space(step: Step) -> None:
    """The way back, and what is cut off."""
    rows, columns, crops = _block(step, "crops")
    batch, channels, height, width = step.shape("x")
    split = [rows, columns, batch // (rows * columns), channels, height, width]
    value = step.emit("Reshape", step.tensor("x"), step.ints("split", split))
    value = step.emit("Transpose", value, perm=[2, 3, 4, 0, 5, 1])
    sizes = [height * rows, width * columns]
    whole = step.ints("shape", [split[2], channels, *sizes])
    if not any(crops):
        step.finish("Reshape", value, whole)
        return
    starts, ends = crops[:2], [size - crop for size, crop in zip(sizes, crops[2:], strict=True)]
    value = step.emit("Reshape", value, whole)
    step.finish("Slice", value, step.ints("starts", starts), step.ints("ends", ends), step.ints("axes", [2, 3]))


def _diagonal(step: Step) -> None:
    """Elements whose places along two axes differ by ``offset``, as the last axis."""
    shape = step.shape("x")
    first, second = (step.axis(name, len(shape), end) for name, end in (("dim1", 0), ("dim2", 1)))
    offset = step.integer("offset", 0)
    if first == second:
        raise ModelError(f"a diagonal of axis {first} with itself")
    others = [axis for axis in range(len(shape)) if axis not in (first, second)]
    rows, columns = shape[first], shape[second]
    places = [row * columns + row + offset for row in range(rows) if 0 <= row + offset < columns]
    value = step.emit("Transpose", step.tensor("x"), perm=[*others, first, second])
    flat = step.emit("Reshape", value, step.ints("flat", [*(shape[axis] for axis in others), rows * columns]))
    step.finish("Gather", flat, step.ints("places", places), axis=len(others))


def _meshgrid(step: Step) -> None:
    """Each row of coordinates along its own axis, repeated along the others; ``xy`` has the first two axes swapped."""
    rows = step.tensors("x")
    sizes = [math.prod(shape_of(row)) for row in rows]
    order = list(range(len(rows)))
    if step.word("indexing", "xy", INDEXING) == "xy" and len(rows) > 1:
        order[:2] = 1, 0
    whole = step.ints("shape", [sizes[place] for place in order])
    made = list[ir.Value]()
    for place, row in enumerate(rows):
        own = [1] * len(rows)
        own[order.index(place)] = sizes[place]
        made.append(step.emit("Expand", step.emit("Reshape", row, step.ints("own", own)), whole))
    step.give(tuple(made))


def _scatter_rows(step: Step) -> None:
    """Rows at their places in zeros; those of one place are added."""
    updates = step.tensor("updates")
    shape = step.integers("shape")
    step.importer.take(math.prod(shape))
    zeros = step.constant("zeros", np.zeros(shape, numpy_type(updates)), numpy_type(updates))
    places = step.converted(step.tensor("indices"), ir.DataType.INT64)
    step.finish("ScatterND", zeros, places, updates, reduction="add")


def _scatter_elements(step: Step) -> None:
    reduction = step.word("reduce", "none", ("none", "add"))
    if reduction not in ("none", "add"):
        raise ModelError(f"reduction '{reduction}'")
    places = step.converted(step.tensor("indices"), ir.DataType.INT64)
    axis = step.axis("axis", step.rank("x"), 0)
    step.finish("ScatterElements", step.tensor("x"), places, step.tensor("updates"), axis=axis, reduction=reduction)


INDEXING = ("ij", "xy")
"""In the order of their numbers in newer files."""

KINDS: dict[str, Kind] = {
    "SpaceToBatchND": Kind(_space_to_batch, "x", "Pad, Reshape, Transpose", "block_shape paddings"),
    "BatchToSpaceND": Kind(_batch_to_space, "x", "Reshape, Transpose, Slice", "block_shape crops"),
    "Diagonal": Kind(_diagonal, "x offset dim1 dim2", "Transpose, Reshape, Gather"),
    "Meshgrid": Kind(_meshgrid, "x indexing", "Reshape, Expand"),
    "ScatterNd": Kind(_scatter_rows, "indices updates shape", "ScatterND, Cast"),
    "TensorScatterElements": Kind(_scatter_elements, "x indices updates axis reduce", "ScatterElements, Cast"),
}
