"""Stored weights that a runtime does not take for what they are. All of it was found by running files.

Where OpenVINO (2026.4) and onnxruntime (1.32) see that constants are dequantized, they look for products of matrices that their
kernels compute with such weights. A Max with the lowest number behind the weight hides that from them, and onnxruntime folds it
where weights become float when it loads a file.
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.qdq.guard import guard
from converter_lite.quantization.qdq.materialize import TWO_BITS_TYPES
from converter_lite.quantization.qdq.parts import FOUR_BITS
from converter_lite.targets.operands import is_recurrent

MATRIX_RANK = 2

IN_A_BYTE = 4
"""Integers of two bits."""


def hide_misread_weights(model: ir.Model, plan: QuantPlan) -> int:
    """Put a Max behind each stored weight that a runtime would misread; returns how many.

    OpenVINO:

    1. A convolution of single elements that reads, or is read by, a Transpose: it takes the three for a product of matrices,
       whatever the order of the Transpose, and forgets strides and padding.
    2. A product that adds up an odd number of elements, with integers of four bits. (It does not load such blocks.)
    3. A recurrent layer in a file with integer activations: other numbers, or the file is not loaded.

    onnxruntime:

    4. A product whose matrix has rows of two-bit integers that do not fill bytes, dequantized at every run: it is packed anew,
       as if each row began a byte.

    Args:
        model: With dequantized weights; changed in place.
        plan: Says which nodes compute with floats.
    """
    graph, names, hidden = model.graph, g.Names(model.graph), dict[ir.Value, ir.Value]()
    for node in list(g.all_nodes(graph)):
        if plan.mode(node) is not NodeMode.WEIGHT:
            continue
        for position in (1, 2) if is_recurrent(node) else (1,):
            weight = g.input_at(node, position)
            producer = weight.producer() if weight is not None else None
            if weight is None or producer is None or not _is_misread(node, weight, plan):
                continue
            if weight not in hidden:
                made = guard(graph, weight, names)
                graph.insert_after(producer, made)
                hidden[weight] = made.outputs[0]
            node.replace_input_with(position, hidden[weight])
    return len(hidden)


def _is_misread(node: ir.Node, weight: ir.Value, plan: QuantPlan) -> bool:
    if is_recurrent(node):
        return bool(plan.activations)
    return _stands_beside_transpose(node) or _has_odd_columns(node, weight) or _shares_bytes(node, weight)


def _stands_beside_transpose(node: ir.Node) -> bool:
    shape, source = g.static_shape(node.inputs[1]), node.inputs[0]
    if node.op_type != "Conv" or shape is None or source is None or any(size != 1 for size in shape[2:]):
        return False
    neighbours = [source.producer(), *(user for user, _ in node.outputs[0].uses())]
    return any(other is not None and is_op(other, "Transpose") for other in neighbours)


def _has_odd_columns(node: ir.Node, weight: ir.Value) -> bool:
    shape, stored = g.static_shape(weight), weight
    while (producer := stored.producer()) is not None and (before := producer.inputs[0]) is not None:
        if "block_size" in producer.attributes:
            return False
        stored = before
    if (
        node.op_type not in ("MatMul", "Gemm")
        or stored.dtype not in FOUR_BITS
        or shape is None
        or len(shape) != MATRIX_RANK
    ):
        return False
    return shape[1 if g.int_attribute(node, "transB", 0) else 0] % 2 == 1


def _shares_bytes(node: ir.Node, weight: ir.Value) -> bool:
    """Whether a product reads rows of two-bit integers of which two share a byte."""
    producer, shape = weight.producer(), g.static_shape(weight)
    stored = producer.inputs[0] if producer is not None and is_op(producer, "DequantizeLinear") else None
    if stored is None or stored.dtype not in TWO_BITS_TYPES.values() or shape is None or len(shape) != MATRIX_RANK:
        return False
    return is_op(node, "MatMul", "Gemm") and not g.int_attribute(node, "transB", 0) and shape[1] % IN_A_BYTE != 0
