"""Products of matrices, batches and vectors."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, output, step_names
from converter_lite.formats.paddle.program import Operator


def _fc(importer: Importer, op: Operator) -> None:
    name = output(op)
    data = importer.value(op.input("Input"))
    if op.get("padding_weights", False):
        raise ModelError("its weight is padded")
    weight = importer.weight(op, "W", 1)
    kind, bias = str(op.get("activation_type", "")), op.input("Bias")
    names = step_names(name, bias, kind not in NO_FUNCTION)
    product = _rows(importer, data, weight, int(op.get("in_num_col_dims", 1)), next(names))
    if bias is not None:
        vector = importer.value(bias)
        flat = importer.array(bias)
        if flat is not None and flat.ndim > 1:
            vector = importer.initializer(f"{bias}.flat", flat.reshape(-1))
        product = importer.node("Add", [product, vector], names=[next(names)])[0]
    value = product if kind in NO_FUNCTION else fused(importer, op, product, kind, next(names))
    importer.bind(name, value)
    importer.mark(op, "Input", weight, data, value, out="Out")


def _rows(importer: Importer, data: ir.Value, weight: ir.Value, leading: int, name: str) -> ir.Value:
    """``data`` seen as a matrix behind its first ``leading`` dimensions, times ``weight``."""
    rank = importer.rank(data)
    if not 0 < leading < rank:
        raise ModelError(f"rows behind {leading} of {rank} dimensions")
    if rank != leading + 1:
        shape = [0] * leading + [-1]
        data = importer.compute("Reshape", data, importer.add_constant("shape", shape))
    return importer.node("MatMul", [data, weight], names=[name])[0]


def _mul(importer: Importer, op: Operator) -> None:
    name = output(op)
    if int(op.get("y_num_col_dims", 1)) != 1:
        raise ModelError("mul with y_num_col_dims other than 1")
    data, weight = importer.value(op.input("X")), importer.weight(op, "Y", 1)
    value = _rows(importer, data, weight, int(op.get("x_num_col_dims", 1)), name)
    importer.bind(name, value)
    importer.mark(op, "X", weight, data, value, out="Out")


def _matmul(importer: Importer, op: Operator) -> None:
    name = output(op)
    old = op.type == "matmul"
    flags = [bool(op.get(key, False)) for key in (("transpose_X", "transpose_Y") if old else ("trans_x", "trans_y"))]
    data = importer.value(op.input("X"))
    weight = _right(importer, op, transposed=flags[1])
    left = _transposed(importer, data) if flags[0] else data
    alpha = float(op.get("alpha", 1.0))
    names = step_names(name, alpha != 1.0)
    value = importer.node("MatMul", [left, weight], names=[next(names)])[0]
    if alpha != 1.0:
        factor = importer.add_constant("alpha", alpha, np.float32)
        value = importer.node("Mul", [value, factor], names=[next(names)])[0]
    importer.bind(name, value)
    importer.mark(op, "X", weight, data, value, out="Out")


def _right(importer: Importer, op: Operator, *, transposed: bool) -> ir.Value:
    """The right side; a constant is transposed at once, so that a plan's weight stays a weight."""
    name = op.input("Y")
    array = importer.array(name)
    if name is None or array is None or not transposed or array.dtype not in (np.int8, np.int16):
        right = importer.weight(op, "Y", 1 if array is None else max(array.ndim - 1, 0))
        return _transposed(importer, right) if transposed else right
    scales = np.asarray(op.get("Y0_scale", op.get(f"{name}_quant_scale", ())), np.float32)
    if not scales.size:
        raise ModelError(f"its weight {name} has integers without a scale")
    return importer.quantized_weight(f"{name}.transposed", np.swapaxes(array, -1, -2), scales, array.ndim - 1)


def _transposed(importer: Importer, value: ir.Value) -> ir.Value:
    """The last two axes exchanged; a vector stays as it is."""
    order = list(range(importer.rank(value)))
    if len(order) < 2:
        return value
    order[-2:] = order[-1:] + order[-2:-1]
    return importer.compute("Transpose", value, perm=order)


def _product(importer: Importer, op: Operator) -> None:
    """Products without options: of batches, with a vector, of several matrices."""
    names = [name for slot in ("X", "Y", "Vec") for name in op.inputs.get(slot, ())]
    values = [importer.value(name) for name in names]
    if len(values) < 2:
        raise ModelError("a product of fewer than two tensors")
    product = values[0]
    for value in values[1:-1]:
        product = importer.compute("MatMul", product, value)
    importer.finish(output(op), "MatMul", product, values[-1])


def _dot(importer: Importer, op: Operator) -> None:
    both = importer.compute("Mul", *(importer.value(op.input(slot)) for slot in ("X", "Y")))
    axes, keep = importer.add_constant("axes", [-1]), int(not importer.has_scalars)
    importer.finish(output(op), "ReduceSum", both, axes, keepdims=keep)


def _add_product(importer: Importer, op: Operator) -> None:
    addend, left, right = (importer.value(op.input(slot)) for slot in ("Input", "X", "Y"))
    product = importer.compute("MatMul", left, right)
    scaled = [
        value if factor == 1.0 else importer.compute("Mul", value, importer.add_constant("factor", factor, np.float32))
        for value, factor in ((product, float(op.get("Alpha", 1.0))), (addend, float(op.get("Beta", 1.0))))
    ]
    importer.finish(output(op), "Add", *scaled)


def _bilinear(importer: Importer, op: Operator) -> None:
    """A matrix for each output between two vectors, for each row of both."""
    left, right, weight = (importer.value(op.input(slot)) for slot in ("X", "Y", "Weight"))
    products = importer.compute("Mul", importer.compute("MatMul", left, weight), right)
    sums = importer.compute("ReduceSum", products, importer.add_constant("axes", [-1]), keepdims=0)
    bias = op.input("Bias")
    if bias is None:
        importer.finish(output(op), "Transpose", sums, perm=[1, 0])
        return
    rows = importer.compute("Transpose", sums, perm=[1, 0])
    importer.finish(output(op), "Add", rows, importer.value(bias))


def _einsum(importer: Importer, op: Operator) -> None:
    values = [importer.value(name) for name in op.inputs.get("Operands", ())]
    importer.finish(output(op), "Einsum", *values, equation=str(op.get("equation", "")))


HANDLERS: dict[str, Handler] = {
    "fc": _fc,
    "mul": _mul,
    **dict.fromkeys(("matmul", "matmul_v2"), _matmul),
    **dict.fromkeys(("bmm", "mv", "multi_dot"), _product),
    "dot": _dot,
    "addmm": _add_product,
    "bilinear_tensor_product": _bilinear,
    "einsum": _einsum,
}
