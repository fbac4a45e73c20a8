"""Shapes and grids of values, and what may be made of them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import rank_of
from converter_lite.formats.tflite.importer import folding
from converter_lite.kernels.params import QuantParams

MOST_MADE = 1 << 16
"""Most elements of a constant that a translation makes: sizes of a file could ask for any number."""


def check_count(count: int) -> int:
    """So many elements of a constant, if they are not too many.

    Raises:
        ModelError: They are.
    """
    if not 0 <= count <= MOST_MADE:
        raise ModelError(f"it needs a constant of {count} elements, more than {MOST_MADE}")
    return count


def shape_of(value: ir.Value) -> list[int]:
    """Sizes of a value, -1 where they are open."""
    rank_of(value)
    assert value.shape is not None
    return [size if isinstance(size, int) else -1 for size in value.shape]


def constant_shape(value: ir.Value, sizes: Sequence[folding.Size]) -> list[int] | None:
    """Sizes as Reshape takes them: 0 is that of the input at the same place, -1 the one that is left."""
    given = [size if isinstance(size, int) else size.value for size in value.shape] if value.shape is not None else []
    found: list[int | None] = []
    for place, size in enumerate(sizes):
        is_kept = isinstance(size, str) and place < len(given) and given[place] == size
        found.append(size if isinstance(size, int) else 0 if is_kept else None)
    if found.count(None) + found.count(-1) > 1:
        return None
    return [-1 if size is None else size for size in found]


def same_grid(first: QuantParams, second: QuantParams) -> bool:
    """Whether integers of both stand for the same real numbers, counted from the lowest one."""
    a, b = first.spec, second.spec
    shift = int(first.zero_point) - a.qmin == int(second.zero_point) - b.qmin
    return a.bits == b.bits and shift and float(first.scale) == float(second.scale)
