"""Rows of a table with a scale per block, read by a matrix product whose weight has blocks, too.

onnxruntime for 64-bit ARM takes a MatMul or Gemm between two DequantizeLinear of int8 for MatMulIntegerToFloat, which knows
nothing of blocks, and ends the run ("attempting to broadcast an axis", 1.32). Behind a Max with the lowest number it computes
with floats.
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.qdq.guard import guard


def keep_rows_apart(model: ir.Model) -> int:
    """Put a guard between such rows and the products that read them, in place; returns how many rows have one."""
    graph, names, count = model.graph, g.Names(model.graph), 0
    for node in [node for node in graph if _has_blocks(node) and not g.is_constant(node.inputs[0])]:
        rows = node.outputs[0]
        readers = [(user, i) for user, i in rows.uses() if is_op(user, "MatMul", "Gemm") and _reads_blocks(user, 1 - i)]
        if readers:
            made = guard(graph, rows, names)
            graph.insert_after(node, made)
            for user, i in readers:
                user.replace_input_with(i, made.outputs[0])
            count += 1
    return count


def _has_blocks(node: ir.Node) -> bool:
    return is_op(node, "DequantizeLinear") and "block_size" in node.attributes


def _reads_blocks(node: ir.Node, position: int) -> bool:
    value = g.input_at(node, position) if position in (0, 1) else None
    producer = value.producer() if value is not None else None
    return producer is not None and _has_blocks(producer)
