"""Element types and numbers of axes for which the runtime has kernels.

Every row was run in the released 2.0.0 runtimes, x86-64 and ARM64.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx_ir as ir

from converter_lite.targets.types import missing_kernel

_SAME_ORDER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

_MOVED = {
    ir.DataType.INT8: frozenset({"Slice", "Transpose"}),
    ir.DataType.UINT8: frozenset({"Expand", "Tile", "Transpose", "Cast"}),
    ir.DataType.INT16: _SAME_ORDER | {"Gather"},
}

_MISSING = {ir.DataType.BOOL: frozenset({"ScatterND", "Split"})}

COPIED = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
"""Types that no kernel copies as they are."""

_MOST_AXES = 8

ARITHMETIC = frozenset(
    {
        *("AddFusion", "SubFusion", "MulFusion", "DivFusion", "Maximum", "Minimum", "Mod", "LogicalAnd", "LogicalOr"),
        *("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"),
    }
)

_SEVEN_AXES = ARITHMETIC | {"BroadcastTo", "FloorMod", "StridedSlice", "TileFusion"}
"""Operators of the file that load with one axis less than tensors may have."""


def refused_axes(op: str, ranks: Iterable[int]) -> str:
    """Why the runtime does not load an operator of the file with tensors of so many axes, or nothing."""
    most, axes = _MOST_AXES - (op in _SEVEN_AXES), max(ranks, default=0)
    return f"a tensor of {axes} axes (at most {most})" if axes > most else ""


def refused_type(node: ir.Node) -> str:
    """Why the runtime cannot take the element types of a node, or nothing."""
    return missing_kernel(node, taken=_MOVED, given=_MOVED, missing=_MISSING)
