"""Which operators of a runtime take elements of other types than float32 and whole numbers of 32 and 64 bits."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

NARROW = frozenset({ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT16, ir.DataType.UINT16})
"""Types with which runtimes compute only where there are scales; without, few operators have kernels."""

Types = Mapping[ir.DataType, frozenset[str]]
"""Element type -> names of operators."""


def missing_kernel(node: ir.Node, *, taken: Types, given: Types, missing: Types) -> str:
    """Why a runtime has no kernel for the element types of a node of a float graph, or nothing.

    Args:
        node: The node.
        taken: Operators that read elements of a :data:`NARROW` type; all others do not.
        given: Operators that give them; all others do not.
        missing: Operators whose first input, what they move, has no elements of another type; all others take them.
    """
    for values, known in ((node.inputs, taken), (node.outputs, given)):
        for value in values:
            if value is not None and value.dtype in NARROW and node.op_type not in known.get(value.dtype, ()):
                return f"there is no kernel for {value.dtype.name} ({value.name}) without scales"
    moved = node.inputs[0] if node.inputs else None
    if moved is not None and moved.dtype is not None and node.op_type in missing.get(moved.dtype, ()):
        return f"there is no kernel for {moved.dtype.name} ({moved.name})"
    return ""
