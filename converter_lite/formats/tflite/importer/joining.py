"""Values that are joined from others, whose parts are known as long as nothing needs the whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.quantization.plan import NodeMode


@dataclass(frozen=True, slots=True)
class Join:
    """A Concat that may not be there yet.

    Attributes:
        parts: What it puts together.
        axis: Along which axis.
        name: Of the node.
        mode, reason: Its decision in the plan.
    """

    parts: tuple[ir.Value, ...]
    axis: int
    name: str
    mode: NodeMode
    reason: str


def describe_join(value: ir.Value, parts: Sequence[ir.Value], axis: int) -> None:
    """Type and shape of a Concat.

    Raises:
        ModelError: The inputs do not fit.
    """
    shapes = [list(part.shape) for part in parts if part.shape is not None]
    kinds = {part.dtype for part in parts}
    if len(shapes) != len(parts) or len({len(shape) for shape in shapes}) != 1 or len(kinds) != 1:
        raise ModelError("its inputs do not fit: they differ in type or number of axes")
    sizes: list[int | ir.SymbolicDim | None] = []
    for place, column in enumerate(zip(*shapes, strict=True)):
        known = [size for size in column if isinstance(size, int)]
        if place == axis:
            sizes.append(sum(known) if len(known) == len(column) else None)
        elif len(set(known)) > 1:
            raise ModelError(f"its inputs do not fit: axis {place} has sizes {sorted(set(known))}")
        else:
            sizes.append(known[0] if known else column[0])
    value.type, value.shape = parts[0].type, ir.Shape(sizes)
