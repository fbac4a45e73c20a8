"""Pictures that are read at computed places: GridSample, and the grid of AffineGrid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import for_each, replace
from converter_lite.passes.spelled_out.inserting import insert, reshaped

LINEAR = ("linear", "bilinear")
"""What a mode is called since operator set 20, and before."""

COUNTED_EXACTLY = 1 << 24
"""Up to here float32 holds every integer; places are counted in it."""


@for_each("AffineGrid")
def spell_out_affine_grid(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace an AffineGrid of constant size by a matrix product.

    ::

        theta (N 2, 3) ─ MatMul(x, y and 1 of every place) ─ (N, 2, H W) ─ Transpose, Reshape ─ grid (N, H, W, 2)

    (Its definition in the ONNX standard loses the batch where that is 1.)

    Refused: sizes that are unknown or not constant, and corners of an axis with one place.
    """
    theta, wanted = node.inputs[0], g.constant(node.inputs[1])
    shape, corners = g.static_shape(theta), bool(g.int_attribute(node, "align_corners", 0))
    if theta is None or theta.dtype is not ir.DataType.FLOAT or shape is None or wanted is None:
        return False
    sizes = [int(size) for size in wanted[2:]]
    if min(sizes) < 1 or (corners and 1 in sizes):
        return False
    axes = [_places(size, corners=corners) for size in sizes]
    # The last axis of the picture is the first coordinate.
    grid = np.stack([*reversed(np.meshgrid(*axes, indexing="ij")), np.ones(sizes)]).reshape(len(sizes) + 1, -1)
    batch, count = shape[0], grid.shape[1]
    rows = reshaped(graph, node, theta, (batch * len(sizes), len(sizes) + 1))
    places = g.add_initializer(graph, f"{node.name}_places", grid.astype(np.float32))
    moved = insert(graph, node, "MatMul", [rows, places], (batch * len(sizes), count))
    split = reshaped(graph, node, moved, (batch, len(sizes), count))
    turned = insert(graph, node, "Transpose", [split], (batch, count, len(sizes)), perm=(0, 2, 1))
    target = g.add_initializer(graph, f"{node.name}_shape", np.array([batch, *sizes, len(sizes)], np.int64))
    replace([node], ir.node("Reshape", [turned, target]))
    return True


def _places(size: int, *, corners: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Coordinates along an axis from -1 to 1, which are the middles of the outer places, or their ends."""
    return np.linspace(-1, 1, size) if corners else (2 * np.arange(size) + 1) / size - 1


@for_each("GridSample")
def spell_out_grid_sample(graph: ir.Graph, node: ir.Node) -> bool:
    """Replace a GridSample of pictures by reading the four neighbours of every place, one Gather for each, or the nearest.

    ::

        x (N, C, H, W) ─ Pad, Transpose ─ rows (N (H+2) (W+2), C) ─ Gather(4 times) ─ Mul(shares) ─ Add ─ Transpose ─ y

    Beside the picture are zeros, or places beside it are moved to its border, or reflected.

    Refused: unknown sizes, volumes, cubic, other types than float32, and pictures of 2^24 places.
    """
    return _grid_sample(graph, node)


@for_each("GridSample")
def spell_out_resampling(graph: ir.Graph, node: ir.Node) -> bool:
    """:func:`spell_out_grid_sample` where the result has another size than the picture."""
    return not _keeps_size(node) and _grid_sample(graph, node)


def _keeps_size(node: ir.Node) -> bool:
    shape, sizes = g.static_shape(node.inputs[0]), g.static_shape(node.inputs[1])
    return shape is not None and sizes is not None and shape[2:] == sizes[1:-1]


@dataclass(frozen=True, slots=True)
class _Sampling:
    """A node and the sizes that its replacement needs.

    Attributes:
        graph: Where the new nodes are.
        node: The GridSample.
        shape: Of the picture.
        places: Of the result, ``(N, H, W)``.
        margin: Zeros around the picture.
    """

    graph: ir.Graph
    node: ir.Node
    shape: tuple[int, ...]
    places: tuple[int, ...]
    margin: int

    @property
    def wide(self) -> tuple[int, int]:
        """Height and width with the margin."""
        return self.shape[2] + 2 * self.margin, self.shape[3] + 2 * self.margin

    @property
    def channels(self) -> tuple[int, ...]:
        """Shape of what the places read."""
        return *self.places, self.shape[1]

    def put(self, op_type: str, *inputs: ir.Value | float, shape: tuple[int, ...] | None = None) -> ir.Value:
        """The result of a node for each place; numbers become constants."""
        values = [value if isinstance(value, ir.Value) else self.constant(value) for value in inputs]
        return insert(self.graph, self.node, op_type, values, self.places if shape is None else shape)

    def constant(self, number: float) -> ir.Value:
        """A scalar."""
        return g.add_initializer(self.graph, f"{self.node.name}_number", np.array(number, np.float32))


def _grid_sample(graph: ir.Graph, node: ir.Node) -> bool:
    x, grid = node.inputs[0], node.inputs[1]
    shape, sizes = g.static_shape(x), g.static_shape(grid)
    padding = g.text_attribute(node, "padding_mode", "zeros")
    if x is None or grid is None or x.dtype is not ir.DataType.FLOAT or shape is None or sizes is None:
        return False
    mode = g.text_attribute(node, "mode", "linear")
    if len(shape) != 4 or mode not in (*LINEAR, "nearest") or padding not in ("zeros", "border", "reflection"):
        return False
    sampling = _Sampling(graph, node, shape, sizes[:3], int(padding == "zeros"))
    if shape[0] * math.prod(sampling.wide) > COUNTED_EXACTLY:
        return False
    rows = _rows(sampling, x)
    down, right = (_coordinate(sampling, grid, axis) for axis in (1, 0))
    made = _nearest(sampling, rows, down, right) if mode == "nearest" else _mean(sampling, rows, down, right)
    replace([node], ir.node("Transpose", [made], attributes={"perm": (0, 3, 1, 2)}))
    return True


def _mean(sampling: _Sampling, rows: ir.Value, down: ir.Value, right: ir.Value) -> ir.Value:
    """The four neighbours of each place, each with its share."""
    ends = [_ends(sampling, value, size) for value, size in zip((down, right), sampling.wide, strict=True)]
    far = [sampling.put("Sub", value, low) for value, (low, _) in zip((down, right), ends, strict=True)]
    near = [sampling.put("Sub", 1.0, share) for share in far]
    parts = []
    for lower in (False, True):
        for further in (False, True):
            share = sampling.put("Mul", (far if lower else near)[0], (far if further else near)[1])
            read = _nearest(sampling, rows, ends[0][lower], ends[1][further])
            shares = reshaped(sampling.graph, sampling.node, share, (*sampling.places, 1))
            parts.append(sampling.put("Mul", read, shares, shape=sampling.channels))
    made = parts[0]
    for part in parts[1:]:
        made = sampling.put("Add", made, part, shape=sampling.channels)
    return made


def _rows(sampling: _Sampling, x: ir.Value) -> ir.Value:
    """The channels of each place of the picture, one place below the other."""
    batch, channels = sampling.shape[:2]
    wide = sampling.wide
    if sampling.margin:
        pads = g.add_initializer(sampling.graph, f"{sampling.node.name}_pads", np.array([0, 0, 1, 1] * 2, np.int64))
        x = insert(sampling.graph, sampling.node, "Pad", [x, pads], (batch, channels, *wide))
    last = insert(sampling.graph, sampling.node, "Transpose", [x], (batch, *wide, channels), perm=(0, 2, 3, 1))
    return reshaped(sampling.graph, sampling.node, last, (batch * math.prod(wide), channels))


def _coordinate(sampling: _Sampling, grid: ir.Value, axis: int) -> ir.Value:
    """Where each place reads along an axis of the picture, counted from its first row or column with the margin."""
    size, margin, node = sampling.shape[3 - axis], sampling.margin, sampling.node
    nearest = g.text_attribute(node, "mode", "linear") == "nearest"
    index = g.add_initializer(sampling.graph, f"{node.name}_axis", np.array(axis, np.int64))
    given = insert(sampling.graph, node, "Gather", [grid, index], sampling.places, axis=3)
    factor = (size - 1) / 2 if g.int_attribute(node, "align_corners", 0) else size / 2
    moved = sampling.put("Add", sampling.put("Mul", given, factor), (size - 1) / 2 + (0 if nearest else margin))
    if nearest:  # a half goes to the even place, counted without the margin
        rounded = sampling.put("Round", moved)
        moved = sampling.put("Add", rounded, float(margin)) if margin else rounded
    if g.text_attribute(node, "padding_mode", "zeros") == "reflection":
        moved = _reflected(sampling, moved, 2 * factor)
    return sampling.put("Clip", moved, 0.0, float(size - 1 + 2 * margin))


def _reflected(sampling: _Sampling, value: ir.Value, span: float) -> ir.Value:
    """Places on a line folded to a length: between the middles of its outer elements, or between their ends."""
    if not span:
        return value
    low = 0.0 if g.int_attribute(sampling.node, "align_corners", 0) else -0.5
    past = sampling.put("Sub", value, low) if low else value
    folds = sampling.put("Floor", sampling.put("Mul", past, 1 / (2 * span)))
    within = sampling.put("Sub", past, sampling.put("Mul", folds, 2 * span))
    return sampling.put("Sub", span + low, sampling.put("Abs", sampling.put("Sub", within, span)))


def _ends(sampling: _Sampling, value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """The rows or columns before and behind a coordinate; behind the last there is none, and its share is 0."""
    low = sampling.put("Floor", value)
    return low, sampling.put("Clip", sampling.put("Add", low, 1.0), 0.0, float(size - 1))


def _nearest(sampling: _Sampling, rows: ir.Value, down: ir.Value, right: ir.Value) -> ir.Value:
    """The channels of the picture's element that each place reads."""
    graph, node = sampling.graph, sampling.node
    height, width = sampling.wide
    index = sampling.put("Add", sampling.put("Mul", down, float(width)), right)
    if sampling.shape[0] > 1:
        starts = np.arange(sampling.shape[0], dtype=np.float32).reshape(-1, 1, 1) * height * width
        index = sampling.put("Add", index, g.add_initializer(graph, f"{node.name}_starts", starts))
    counted = insert(graph, node, "Cast", [index], sampling.places, to=ir.DataType.INT32)
    counted.type = ir.TensorType(ir.DataType.INT32)
    return insert(graph, node, "Gather", [rows, counted], sampling.channels, axis=0)
