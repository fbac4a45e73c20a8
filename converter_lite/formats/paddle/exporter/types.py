"""Element types for which the library has kernels; every row was run in release 2.12, x86 and ARM64."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.formats.paddle.kernels import Target
from converter_lite.targets.types import Types, missing_kernel

_SAME_ORDER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

_TAKEN = {ir.DataType.INT8: _SAME_ORDER | {"Cast"}, ir.DataType.UINT8: _SAME_ORDER | {"Cast"}}
_GIVEN = {ir.DataType.INT8: _SAME_ORDER, ir.DataType.UINT8: _SAME_ORDER | {"Cast"}}

_MISSING: dict[Target, Types] = {Target.X86: {ir.DataType.INT32: frozenset({"Gather", "Transpose"})}}


def refused_type(node: ir.Node, target: Target) -> str:
    """Why the library cannot take the element types of a node, or nothing."""
    return missing_kernel(node, taken=_TAKEN, given=_GIVEN, missing=_MISSING.get(target, {}))
