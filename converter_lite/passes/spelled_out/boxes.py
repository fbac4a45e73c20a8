"""Assigning to a slice: exporters write it with the places of all elements, which take more room than the elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.passes.spelled_out.inserting import insert, sliced


@dataclass(frozen=True, slots=True)
class Box:
    """Along some axes the numbers from ``starts`` to in front of ``stops``."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements along each of the axes."""
        return tuple(stop - start for start, stop in zip(self.starts, self.stops, strict=True))


def box_of(picked: NDArray[np.int64], shape: Sequence[int]) -> Box | None:
    """The box whose elements these are, in their order; ``None`` if they are none.

    Args:
        picked: Numbers of elements, row after row.
        shape: Sizes of the axes.
    """
    if not picked.size:
        return None
    corners = [np.unravel_index(number, tuple(shape)) for number in (picked.min(), picked.max())]
    box = Box(tuple(map(int, corners[0])), tuple(int(last) + 1 for last in corners[1]))
    if min(box.sizes) < 1 or math.prod(box.sizes) != picked.size:
        return None
    inside = np.ix_(*map(np.arange, box.starts, box.stops))
    return box if np.array_equal(np.ravel_multi_index(inside, tuple(shape)).ravel(), picked) else None


def put_box(graph: ir.Graph, node: ir.Node, data: ir.Value, made: ir.Value, box: Box) -> ir.Value:
    """``data`` with ``made`` in the place of a box of its first axes, in front of ``node``: what lies around it, axis by axis."""
    shape = g.static_shape(data) or ()
    sizes = list(g.static_shape(made) or ())
    for axis in reversed(range(len(box.starts))):
        within = {k: (box.starts[k], box.stops[k]) for k in range(axis) if box.sizes[k] != shape[k]}
        around = [(0, box.starts[axis]), (box.stops[axis], shape[axis])]
        before, after = (
            [sliced(graph, node, data, {**within, axis: part})] if part[0] < part[1] else [] for part in around
        )
        if before or after:
            sizes[axis] = shape[axis]
            made = insert(graph, node, "Concat", [*before, made, *after], tuple(sizes), axis=axis)
    return made
