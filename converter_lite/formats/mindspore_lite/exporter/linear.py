"""Matrix products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats import permutation as pm
from converter_lite.formats.mindspore_lite.container import MsQuant
from converter_lite.formats.mindspore_lite.enums import DataType, QuantType
from converter_lite.formats.mindspore_lite.exporter.building import Unsupported
from converter_lite.formats.mindspore_lite.exporter.common import Lower, refuse_whole_numbers, required
from converter_lite.formats.mindspore_lite.exporter.lowering import Lowering
from converter_lite.formats.mindspore_lite.exporter.weights import Weight, int8_weight, int32_bias, scaled, weight
from converter_lite.graph import constant, float_attribute, input_at, int_attribute, is_constant, label, single_consumer
from converter_lite.quantization.biases import BIAS_LIMIT
from converter_lite.quantization.plan import NodeMode

DYNAMIC_RANK = 4
"""Most axes of an operand that is quantized while the model runs."""


@dataclass(frozen=True, slots=True)
class _Product:
    """What a node computes: ``a @ b + bias``, each of the operands ``turn``-ed or not."""

    node: ir.Node
    a: ir.Value
    b: ir.Value
    out: ir.Value
    bias: NDArray[np.float32] | None = None
    turn: tuple[bool, bool] = (False, False)


def _matmul(ctx: Lowering, node: ir.Node) -> None:
    a, b = required(node, 0), required(node, 1)
    refuse_whole_numbers(ctx, a)
    out = node.outputs[0]
    if min(len(ctx.shape(a)), len(ctx.shape(b))) < 2:
        raise Unsupported("a matrix product with a vector")
    bias, out = _following_bias(ctx, node, out)
    _product(ctx, _Product(node, a, b, out, bias))


def _following_bias(ctx: Lowering, node: ir.Node, out: ir.Value) -> tuple[NDArray[np.float32] | None, ir.Value]:
    """The bias of an Add behind the product; the Add is then marked as done."""
    consumer = single_consumer(out)
    b = node.inputs[1]
    if consumer is None or consumer.op_type != "Add" or not is_constant(b) or consumer in ctx.done:
        return None, out
    if ctx.mode(node) is NodeMode.INTEGER and not ctx.has_params(consumer.outputs[0]):
        return None, out
    other = consumer.inputs[1] if consumer.inputs[0] is out else consumer.inputs[0]
    array = constant(other)
    columns = ctx.shape(out)[-1]
    if array is None or array.size != columns or np.asarray(array).shape[-1:] != (columns,) or array.ndim > 2:
        return None, out
    bias = np.asarray(array).reshape(-1)
    if array.dtype != np.float32 or _exceeds_integers(ctx, node, bias):
        return None, out
    ctx.done.add(consumer)
    return bias, consumer.outputs[0]


def _exceeds_integers(ctx: Lowering, node: ir.Node, bias: NDArray[np.float32]) -> bool:
    """Whether a bias has no 32-bit integers in steps of a product: its columns hold next to nothing beside it."""
    a, grid = required(node, 0), ctx.plan.weights.get(required(node, 1).name or "")
    if ctx.mode(node) is not NodeMode.INTEGER or grid is None or not ctx.has_params(a):
        return False
    if grid.scale.size not in (1, bias.size):
        return False
    steps = np.abs(bias.astype(np.float64)) / (ctx.activation_quant(a).scale[0] * grid.scale.astype(np.float64))
    return bool(np.any(steps > BIAS_LIMIT))


def _gemm(ctx: Lowering, node: ir.Node) -> None:
    a, b, c = required(node, 0), required(node, 1), input_at(node, 2)
    refuse_whole_numbers(ctx, a)
    out = node.outputs[0]
    alpha = float_attribute(node, "alpha", 1.0)
    beta = float_attribute(node, "beta", 1.0)
    turn = (bool(int_attribute(node, "transA", 0)), bool(int_attribute(node, "transB", 0)))
    columns = ctx.shape(out)[-1]
    bias = constant(c)
    if c is None or (bias is not None and (bias.size == 1 or bias.shape in ((columns,), (1, columns)))):
        plain = None if bias is None else np.array(np.broadcast_to(bias.reshape(-1), columns), np.float32) * beta
        if alpha == 1.0:
            _product(ctx, _Product(node, a, b, out, plain, turn))
            return
    elif ctx.mode(node) is NodeMode.INTEGER:
        raise Unsupported("the bias of an integer matrix product must be a constant vector")
    _general_gemm(ctx, node, alpha, beta, turn)


def _general_gemm(ctx: Lowering, node: ir.Node, alpha: float, beta: float, turn: tuple[bool, bool]) -> None:
    a, b, c, out = required(node, 0), required(node, 1), input_at(node, 2), node.outputs[0]
    dims = ctx.shape(out)
    index = _real_product(ctx, _Product(node, a, b, out, turn=turn), kind=0)
    if alpha != 1.0:
        index = ctx.emit("MulFusion", [index, ctx.float_constant(alpha)], dims)
    if c is not None:
        addend = ctx.operand(c, 2, (0, 1))
        if beta != 1.0:
            addend = ctx.emit("MulFusion", [addend, ctx.float_constant(beta)], ctx.ms.tensors[addend].dims)
        index = ctx.emit("AddFusion", [index, addend], dims)
    ctx.bind(out, index)


def _product(ctx: Lowering, product: _Product) -> None:
    integer = _computes_integers(ctx, product)
    kind, out = ctx.fused_activation(product.out, integer=integer)
    if integer:
        _integer_product(ctx, product, out, kind)
    else:
        ctx.bind(out, _real_product(ctx, product, kind))


def _real_product(ctx: Lowering, product: _Product, kind: int) -> int:
    """The result where the data are floats, or become integers at run time; weights may be stored as integers."""
    node, a, b, flags = product.node, product.a, product.b, _flags(product, kind)
    rank = len(ctx.shape(b))
    if is_constant(b):
        stored = weight(ctx, node, b, pm.identity(rank), axis=_axis(product, rank), shared=True)
    else:
        stored = Weight(ctx.use(b))
    left, shape = ctx.use(a), ctx.shape(product.out)
    dims = shape
    if stored.mark is QuantType.DYNAMIC:
        if len(dims) > DYNAMIC_RANK:  # its kernel ends the process then
            rows = math.prod(dims[:-1])
            left, dims = ctx.reshape(left, (rows, ctx.shape(a)[-1])), (rows, dims[-1])
        (left,) = ctx.emit_many(
            "DynamicQuant",
            [left],
            [(ctx.ms.tensors[left].dims, DataType.INT8)],
            name=f"{node.name}_dynamic_quant",
            quant_type=QuantType.DYNAMIC,
            dst_type=int(DataType.INT8),
        )
    inputs = [left, stored.index]
    if stored.channel_scale is not None:
        index = ctx.emit("MatMulFusion", inputs, dims, **{**flags, "activation_type": 0})
        return _as_stack(ctx, scaled(ctx, index, stored, product.bias, kind), shape)
    inputs += [] if product.bias is None else [ctx.add_constant(product.bias, f"{node.name}_bias")]
    index = ctx.emit("MatMulFusion", inputs, dims, dtype=DataType.FLOAT32, quant_type=stored.mark, **flags)
    return _as_stack(ctx, index, shape)


def _flags(product: _Product, kind: int) -> dict[str, Any]:
    return {"transpose_a": product.turn[0], "transpose_b": product.turn[1], "activation_type": kind}


def _axis(product: _Product, rank: int) -> int:
    """Axis of the output channels of a weight of so many axes."""
    return rank - 2 if product.turn[1] else rank - 1


def _as_stack(ctx: Lowering, index: int, dims: tuple[int, ...]) -> int:
    """A result with the dimensions that the graph gives it."""
    return index if ctx.ms.tensors[index].dims == dims else ctx.reshape(index, dims)


def _computes_integers(ctx: Lowering, product: _Product) -> bool:
    if is_constant(product.a) and ctx.mode(product.node) is NodeMode.INTEGER:
        ctx.notes.append(f"{label(product.node)}: computed with floats, its left operand is constant")
        return False
    read = [v for v in (product.a, product.b) if not is_constant(v)]
    return ctx.computes_integers(product.node, read, product.out)


def _integer_product(ctx: Lowering, product: _Product, out: ir.Value, kind: int) -> None:
    node, a, b, bias = product.node, product.a, product.b, product.bias
    left = ctx.use(a, integer=True)
    if is_constant(b):
        rank = len(ctx.shape(b))
        right, w_quant = int8_weight(ctx, node, b, pm.identity(rank), axis=_axis(product, rank))
    else:
        right, w_quant = ctx.use(b, integer=True), MsQuant.of(1.0, 0, 8)
    inputs = [left, right]
    if bias is not None:
        inputs.append(int32_bias(ctx, bias, ctx.activation_quant(a), w_quant, f"{node.name}_bias"))
    quant = ctx.activation_quant(out)
    index = ctx.emit(
        "MatMulFusion", inputs, ctx.shape(out), quant=quant, quant_type=QuantType.ALL, **_flags(product, kind)
    )
    ctx.bind(out, index, integer=True)


TABLE: dict[str, Lower] = {"MatMul": _matmul, "Gemm": _gemm}
