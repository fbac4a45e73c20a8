"""Element types for which the library has kernels; every row was run in release 2.12, x86 and ARM64."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.formats.paddle.kernels import Target
from converter_lite.targets.types import Types, missing_kernel

_SAME_ORDER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})

_TAKEN = {ir.DataType.INT8: _SAME_ORDER | {"Cast"}, ir.DataType.UINT8: _SAME_ORDER | {"Cast"}}
_GIVEN = {ir.DataType.INT8: _SAME_ORDER, ir.DataType.UINT8: _SAME_ORDER | {"Cast"}}

_FLOATS_ONLY = frozenset({"TopK"})
"""Operators whose kernel takes integers for floats."""

_NO_TRUTHS = frozenset({"Gather", "Slice", "Transpose"})
"""Operators whose kernels take truth values for floats; :mod:`~converter_lite.passes.spelled_out.logic` moves them as such."""

_NOWHERE: Types = {
    ir.DataType.INT32: _FLOATS_ONLY,
    ir.DataType.INT64: _FLOATS_ONLY,
    ir.DataType.BOOL: _NO_TRUTHS,
}
_ON_X86: Types = {**_NOWHERE, ir.DataType.INT32: _FLOATS_ONLY | {"Gather", "Transpose"}}


def refused_type(node: ir.Node, target: Target) -> str:
    """Why the library cannot take the element types of a node, or nothing."""
    return missing_kernel(node, taken=_TAKEN, given=_GIVEN, missing=_ON_X86 if target is Target.X86 else _NOWHERE)
