"""Products with constant matrices: stacks of one matrix, and MatMul with a bias as Gemm."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.graph import (
    add_initializer,
    constant,
    input_at,
    int_attribute,
    is_constant,
    single_consumer,
    static_shape,
)
from converter_lite.passes.rewrite import constant_operand, for_each, is_op, replace


@for_each("Add")
def fuse_gemm(_graph: ir.Graph, add: ir.Node) -> bool:
    """Replace a matrix product of two-dimensional activations with a constant bias per column by Gemm.

    ::

        x (M, K) ─ MatMul(W (K, N)) ─ Add(b (N,) | (1, N)) ─ y      becomes      x ─ Gemm(W, b) ─ y

    Refused: activations of another or unknown rank, a weight that is not constant, another reader of the product, a bias that
    differs between rows or is a single number, whole numbers (onnxruntime multiplies them in MatMul only).
    """
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
    if columns is None or offsets is None or columns.ndim != 2 or np.issubdtype(columns.dtype, np.integer):
        return False
    if offsets.shape not in {(columns.shape[1],), (1, columns.shape[1])}:
        return False
    replace([matmul, add], ir.node("Gemm", inputs=[source, weight, bias]))
    return True


def unstack_weights(model: ir.Model) -> int:
    """Replace a stack of one constant matrix by the matrix: its columns get scales of their own, and more kernels take it.

    ::

        x (.., M, K) ─ MatMul(W (1, K, N)) ─ y      becomes      x ─ MatMul(W (K, N)) ─ y

    Refused: activations of fewer or an unknown number of axes, since the result would lose one.
    """
    made: dict[ir.Value, ir.Value] = {}
    return sum(_unstack(node, made) for node in list(model.graph) if is_op(node, "MatMul"))


def _unstack(node: ir.Node, made: dict[ir.Value, ir.Value]) -> bool:
    source, weight = input_at(node, 0), input_at(node, 1)
    shape = static_shape(weight)
    if source is None or source.shape is None or weight is None or shape is None or not is_constant(weight):
        return False
    if len(shape) < 3 or set(shape[:-2]) != {1} or len(source.shape) < len(shape) or node.graph is None:
        return False
    if weight not in made:
        array = constant(weight)
        assert array is not None
        made[weight] = add_initializer(node.graph, f"{weight.name}_matrix", array.reshape(shape[-2:]))
    node.replace_input_with(1, made[weight])
    return True


@for_each("Gemm")
def fold_gemm_factors(_graph: ir.Graph, gemm: ir.Node) -> bool:
    """Multiply alpha and beta into constants, and write a one-number bias once per column.

    ::

        x ─ Gemm<alpha, beta>(W, b) ─ y      becomes      x ─ Gemm(alpha W, beta b) ─ y

    The factor of an operand that is computed, or not float32, stays.
    """
    changed = _multiply_in(gemm, "alpha", 1)
    if len(gemm.inputs) < 3 or gemm.inputs[2] is None:
        return gemm.attributes.pop("beta", None) is not None or changed
    return any([changed, _multiply_in(gemm, "beta", 2), _spread_bias(gemm)])


def _multiply_in(gemm: ir.Node, name: str, position: int) -> bool:
    attribute, value = gemm.attributes.get(name), gemm.inputs[position]
    array = constant(value)
    if attribute is None or value is None or array is None or array.dtype != np.float32:
        return False
    factor = attribute.as_float()
    if factor != 1.0:
        _replace_constant(gemm, position, np.asarray(array, np.float32) * np.float32(factor))
    del gemm.attributes[name]
    return True


def _spread_bias(gemm: ir.Node) -> bool:
    bias, weight = constant(gemm.inputs[2]), gemm.inputs[1]
    shape = static_shape(weight)
    if bias is None or bias.size != 1 or shape is None or len(shape) != 2:
        return False
    columns = shape[0] if int_attribute(gemm, "transB", 0) else shape[1]
    if bias.shape and columns == 1:
        return False
    _replace_constant(gemm, 2, np.full(columns, bias.reshape(()), bias.dtype))
    return True


def _replace_constant(gemm: ir.Node, position: int, array: NDArray[np.generic]) -> None:
    value = gemm.inputs[position]
    assert gemm.graph is not None and value is not None
    made = add_initializer(gemm.graph, f"{value.name}_scaled", array)
    gemm.replace_input_with(position, made)
