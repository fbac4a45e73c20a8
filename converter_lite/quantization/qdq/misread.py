"""Stored weights that OpenVINO does not take for what they are. All of it was found by running files in OpenVINO 2026.4.

Where it sees that constants are dequantized, it looks for products of matrices that its kernels compute with such weights, or
keeps the weights as integers. A Max with the lowest number behind the weight hides that from it, and onnxruntime folds it.
"""

from __future__ import annotations

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantSpec
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.targets.operands import is_recurrent

NIBBLE = 4
"""Widest integers of which two share a byte."""

MATRIX_RANK = 2


def is_misread_by_openvino(node: ir.Node, spec: QuantSpec, plan: QuantPlan) -> bool:
    """Whether OpenVINO would compute something else with the stored weight of a node that computes with floats.

    1. A convolution of single elements that reads, or is read by, a Transpose: it takes the three for a product of matrices,
       whatever the order of the Transpose, and forgets strides and padding.
    2. A product that adds up an odd number of elements, with integers of four bits or less. (It does not load such blocks.)
    3. A recurrent layer in a file with integer activations: other numbers, or the file is not loaded.

    Args:
        node: Reads the weight.
        spec: Grid of the weight.
        plan: What else is quantized.
    """
    if plan.mode(node) is not NodeMode.WEIGHT:
        return False
    if is_recurrent(node):
        return bool(plan.activations)
    return _stands_beside_transpose(node) or (spec.bits <= NIBBLE and not spec.block and _has_odd_columns(node))


def _stands_beside_transpose(node: ir.Node) -> bool:
    shape, source = g.static_shape(node.inputs[1]), node.inputs[0]
    if node.op_type != "Conv" or shape is None or source is None or any(size != 1 for size in shape[2:]):
        return False
    neighbours = [source.producer(), *(user for user, _ in node.outputs[0].uses())]
    return any(other is not None and is_op(other, "Transpose") for other in neighbours)


def _has_odd_columns(node: ir.Node) -> bool:
    shape = g.static_shape(node.inputs[1]) if node.op_type in ("MatMul", "Gemm") else None
    if shape is None or len(shape) != MATRIX_RANK:
        return False
    return shape[1 if g.int_attribute(node, "transB", 0) else 0] % 2 == 1
