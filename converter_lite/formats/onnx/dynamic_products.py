"""Products of integers that are made at run time, as float products with a dequantized weight.

::

    x ─ DynamicQuantizeLinear ─ MatMulInteger(W) ─ Cast ─ Mul(scale x · scale W) ─ y

becomes ``x ─ MatMul(DequantizeLinear W) ─ y``, whose node is one that quantizes its activations at run time. Early versions of
onnxruntime's quantizer round the bias of a convolution at run time, too, and add it to the integers: it is a bias again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.onnx.integer_operators import put_before
from converter_lite.passes.rewrite import is_op, take_over

FLOAT_OPERATORS = {"MatMulInteger": "MatMul", "ConvInteger": "Conv"}
"""Product of integers -> product of floats."""

LEFT_OVER = ("DynamicQuantizeLinear", "Mul", "Cast", "Add", "Reshape", "Floor", "Div")
"""Operators around it that nothing reads any more."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of integers with what makes floats of it.

    Attributes:
        node: The product.
        result: The last Mul.
        sources: The DynamicQuantizeLinear of both sides, where there is one.
        scale: The constant factor of the last Mul: scales of the weight.
        bias: Floats that are added to the integers, in units of their scale.
    """

    node: ir.Node
    result: ir.Node
    sources: tuple[ir.Node | None, ir.Node | None]
    scale: NDArray[np.float32] | None
    bias: ir.Value | None = None


def spell_out_dynamic_products(model: ir.Model) -> set[str]:
    """Write products of integers as float products, in place; returns the names of those that quantize at run time.

    Left as they are: products of activations that are quantized in another way (row by row, for one), and weights with scales
    along another axis than that of the output channels.
    """
    graph, names = model.graph, g.Names(model.graph)
    found = [_match(node) for node in graph if is_op(node, *FLOAT_OPERATORS)]
    made = {_rewrite(graph, product, names) for product in found if product is not None}
    for node in reversed(list(graph)):
        if not any(g.is_read(value) for value in node.outputs) and _is_left_over(node):
            graph.remove(node, safe=True)
    return made - {""}


def _is_left_over(node: ir.Node) -> bool:
    return is_op(node, *LEFT_OVER, *FLOAT_OPERATORS)


def _match(node: ir.Node) -> _Product | None:
    cast, bias = g.single_consumer(node.outputs[0]), None
    if cast is not None and is_op(node, "ConvInteger") and is_op(cast, "Add"):
        bias = _rounded_bias(cast.inputs[1] if cast.inputs[0] is node.outputs[0] else cast.inputs[0])
        cast = g.single_consumer(cast.outputs[0]) if bias is not None else None
    result = g.single_consumer(cast.outputs[0]) if is_op(cast, "Cast") and cast is not None else None
    if result is None or cast is None or not is_op(result, "Mul"):
        return None
    factor = result.inputs[1] if result.inputs[0] is cast.outputs[0] else result.inputs[0]
    sources = [_dynamic_source(node, position) for position in (0, 1)]
    scales = _factors(factor)
    expected = [source.outputs[1] for source in sources if source is not None]
    if sources[0] is None or scales is None or set(scales[0]) != set(expected):
        return None
    if sources[1] is None and (scales[1] is None or not g.is_constant(node.inputs[1])):
        return None
    return _Product(node, result, (sources[0], sources[1]), scales[1], bias)


def _rounded_bias(value: ir.Value | None) -> ir.Value | None:
    """The constant that is divided by a scale, rounded down and reshaped, as the bias of an integer convolution."""
    for op_type in ("Reshape", "Cast", "Floor", "Div"):
        node = value.producer() if value is not None else None
        if node is None or not is_op(node, op_type):
            return None
        value = node.inputs[0]
    return value if g.is_constant(value) else None


def _dynamic_source(node: ir.Node, position: int) -> ir.Node | None:
    """The DynamicQuantizeLinear whose integers and zero point a product reads."""
    value, zero = node.inputs[position], g.input_at(node, position + 2)
    source = value.producer() if value is not None else None
    if source is None or not is_op(source, "DynamicQuantizeLinear"):
        return None
    return source if value is source.outputs[0] and zero is source.outputs[2] else None


def _factors(value: ir.Value | None) -> tuple[list[ir.Value], NDArray[Any] | None] | None:
    """Values that are computed and the constant that a factor is the product of."""
    node = value.producer() if value is not None else None
    if value is None or node is None or not is_op(node, "Mul"):
        return None
    arrays = [g.constant(operand) for operand in node.inputs]
    computed = [v for v, array in zip(node.inputs, arrays, strict=True) if array is None and v is not None]
    constants = [array for array in arrays if array is not None]
    return (computed, constants[0] if constants else None) if len(computed) + len(constants) == 2 else None


def _rewrite(graph: ir.Graph, product: _Product, names: g.Names) -> str:
    node = product.node
    kind = FLOAT_OPERATORS[node.op_type]
    data, other = (source.inputs[0] if source is not None else None for source in product.sources)
    if other is None:
        other = _weight(graph, product, names)
    if data is None or other is None:
        return ""
    inputs = [data, other] if product.bias is None else [data, other, product.bias]
    made = ir.Node("", kind, inputs, list(node.attributes.values()), name=node.name)
    graph.insert_before(product.result, made)
    made.outputs[0].dtype = ir.DataType.FLOAT
    take_over(made.outputs[0], product.result.outputs[0])
    graph.remove(product.result, safe=True)
    return str(made.name) if kind == "MatMul" and product.sources[1] is None else ""


def _weight(graph: ir.Graph, product: _Product, names: g.Names) -> ir.Value | None:
    """The weight behind a DequantizeLinear, ``None`` where its scales are not those of output channels."""
    node, value, zero = product.node, product.node.inputs[1], g.input_at(product.node, 3)
    shape = g.static_shape(value)
    assert value is not None and product.scale is not None
    if shape is None or (zero is not None and not g.is_constant(zero)):
        return None
    axis = len(shape) - 1 if node.op_type == "MatMulInteger" else 0
    scale = product.scale.astype(np.float32).reshape(-1)
    behind = len(shape) - 2 if node.op_type == "ConvInteger" else 0
    if scale.size > 1 and (scale.size != shape[axis] or product.scale.size != _extent(product.scale, behind)):
        return None
    single = scale.size == 1
    scales = g.add_initializer(graph, f"{value.name}_scale", scale.reshape(()) if single else scale, names=names)
    name = names.unique(f"{node.name}/weight")
    inputs = [value, scales]
    zeros = g.constant(zero)
    if zeros is not None and zero is not None:
        spread = np.broadcast_to(zeros.reshape(-1), scale.shape) if not single else zeros.reshape(())
        inputs.append(g.add_initializer(graph, f"{value.name}_zero", spread, dtype=zero.dtype, names=names))
    return put_before(node, "DequantizeLinear", inputs, name, **({} if single else {"axis": axis}))


def _extent(scale: NDArray[Any], behind: int) -> int:
    """Size along the axis of output channels of the result, with so many axes behind it."""
    return int(scale.shape[-1 - behind]) if scale.ndim > behind else 1
