"""Element types for which the runtime has kernels; every row was run in the released 2.0.0 runtimes, x86-64 and ARM64."""

from __future__ import annotations

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


def refused_type(node: ir.Node) -> str:
    """Why the runtime cannot take the element types of a node, or nothing."""
    return missing_kernel(node, taken=_MOVED, given=_MOVED, missing=_MISSING)
