"""int8 tensors that are moved before somebody reads them as floats, in files that onnxruntime loads on x86.

::

    DequantizeLinear ─ Reshape ─ Add      becomes      DequantizeLinear ─ Reshape ─ Q ─ DQ ─ Add

onnxruntime adds such pairs itself, and at operator set 21 or newer it notes in them that they make int8. On x86 it makes uint8
of int8 then, forgets the note, and refuses the file (1.27 to 1.32: "output_dtype INT8 does not match y_zero_point type
UINT8"). It adds none where there is one. The numbers are those of the file without them: an integer stays that integer.

It moves such values itself, too: a vector or a stack of matrices is reshaped for a Gemm where a MatMul by a matrix is followed by
an Add of one axis. A Max with the lowest number between the two, which changes nothing, keeps it from that.
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import consumers, is_op
from converter_lite.quantization.qdq.guard import guard

NOTED_FROM = 21
"""Operator set from which a QuantizeLinear may say what it makes."""

MATRIX_RANK = 2

MOVES = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "MaxPool", "Identity")
"""Operators behind which onnxruntime adds pairs, and the one that it leaves out."""


def quantize_moved(model: ir.Model) -> int:
    """Put a pair with the same grid behind each move of dequantized int8 values, in place; returns how many.

    What onnxruntime would move itself is kept from it.
    """
    if g.opset(model) < NOTED_FROM:
        return 0
    graph, names, count = model.graph, g.Names(model.graph), 0
    labels = {node.name or "" for node in g.all_nodes(graph)}
    for node in [node for node in graph if is_op(node, *MOVES)]:
        source = node.inputs[0]
        before = source.producer() if source is not None else None
        if before is not None and _is_dequantized_int8(before) and not _is_quantized(node.outputs[0]):
            _add_pair(node, before, names, labels)
            count += 1
    for node in [node for node in graph if _becomes_a_gemm(node)]:
        made = guard(graph, node.outputs[0], names)
        graph.insert_after(node, made)
        for reader, position in [use for use in node.outputs[0].uses() if use.node is not made]:
            reader.replace_input_with(position, made.outputs[0])
    return count


def _becomes_a_gemm(node: ir.Node) -> bool:
    """Whether onnxruntime makes a Gemm of a product of dequantized int8 values and the Add behind it, and moves them for that."""
    source = node.inputs[0] if is_op(node, "MatMul") else None
    before, add = source.producer() if source is not None else None, g.single_consumer(node.outputs[0])
    if before is None or not _is_dequantized_int8(before) or add is None or not is_op(add, "Add"):
        return False
    bias = next((value for value in add.inputs if value is not node.outputs[0]), None)
    return _rank(node.inputs[1]) == MATRIX_RANK != _rank(node.outputs[0]) and _rank(bias) == 1


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _is_dequantized_int8(node: ir.Node) -> bool:
    """Whether a node makes floats of int8 values that are computed at run time, with one step for all."""
    if not is_op(node, "DequantizeLinear") or g.is_constant(node.inputs[0]):
        return False
    zero_point = g.input_at(node, 2)
    return zero_point is not None and zero_point.dtype == ir.DataType.INT8 and g.static_shape(zero_point) == ()


def _is_quantized(value: ir.Value) -> bool:
    return any(is_op(reader, "QuantizeLinear") for reader in consumers(value))


def _add_pair(node: ir.Node, before: ir.Node, names: g.Names, labels: set[str]) -> None:
    """Quantize and dequantize what ``node`` moves as ``before`` does; ``labels`` are the names of all nodes."""
    value, grid = node.outputs[0], before.inputs[1:]
    name = str(value.name)
    quantize = ir.node("QuantizeLinear", [value, *grid], name=g.unique_among(f"{name}_quantize", labels))
    quantized = quantize.outputs[0]
    quantized.name, quantized.dtype, quantized.shape = names.unique(f"{name}_quantized"), ir.DataType.INT8, value.shape
    dequantize = ir.node("DequantizeLinear", [quantized, *grid], name=g.unique_among(f"{name}_dequantize", labels))
    result = dequantize.outputs[0]
    result.dtype, result.shape = value.dtype or ir.DataType.FLOAT, value.shape
    value.replace_all_uses_with(result, replace_graph_outputs=True)
    quantize.replace_input_with(0, value)
    if result.is_graph_output():
        value.name, result.name = names.unique(f"{name}_float"), name
    else:
        result.name = names.unique(f"{name}_dequantized")
    assert node.graph is not None
    node.graph.insert_after(node, [quantize, dequantize])
