"""MatMul with a bias as Gemm."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.graph import constant, is_constant, single_consumer
from converter_lite.passes.rewrite import constant_operand, is_op, replace


def fuse_gemm(model: ir.Model) -> int:
    """Say Gemm where a matrix product of two-dimensional activations gets a constant bias per column.

    ::

        x (M, K) ─ MatMul(W (K, N)) ─ Add(b (N,) | (1, N)) ─ y      becomes      x ─ Gemm(W, b) ─ y

    Refused: activations of another or unknown rank, a weight that is no constant, another reader of the product, a
    bias that differs between rows or is a single number.
    """
    return sum(_fuse(node) for node in list(model.graph) if is_op(node, "Add"))


def _fuse(add: ir.Node) -> bool:
    operands = constant_operand(add)
    if operands is None:
        return False
    product, bias, _ = operands
    matmul = product.producer()
    if matmul is None or not is_op(matmul, "MatMul") or single_consumer(product) is not add:
        return False
    source, weight = matmul.inputs
    if source is None or source.shape is None or len(source.shape) != 2 or not is_constant(weight):
        return False
    columns, offsets = constant(weight), constant(bias)
    if columns is None or offsets is None or columns.ndim != 2:
        return False
    if offsets.shape not in {(columns.shape[1],), (1, columns.shape[1])}:
        return False
    replace([matmul, add], ir.node("Gemm", inputs=[source, weight, bias]))
    return True
