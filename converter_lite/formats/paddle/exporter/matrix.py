"""Gemm and MatMul: fully connected layers and products of activations."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.activation import combine
from converter_lite.formats.paddle.exporter.fusion import Activation, take_activation, take_bias
from converter_lite.formats.paddle.exporter.logic import expand
from converter_lite.formats.paddle.exporter.lowering import (
    STORED_BLOCK,
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    rank,
)
from converter_lite.formats.paddle.exporter.weights import StoredWeight, Transform, keep
from converter_lite.formats.paddle.program import Attribute, attr, floats
from converter_lite.quantization.plan import NodeMode


def _gemm(lowering: Lowering, node: ir.Node) -> None:
    if g.int_attribute(node, "transA", 0):
        raise Unsupported("Gemm with transA", "transpose the input before it")
    alpha, beta = g.float_attribute(node, "alpha", 1.0), g.float_attribute(node, "beta", 1.0)
    transposed = bool(g.int_attribute(node, "transB", 0))
    if g.constant(node.inputs[1]) is None:
        _gemm_of_activations(lowering, node, alpha, beta, transposed=transposed)
        return
    if transposed:
        transform = Transform(_scaled("kn", alpha), np.transpose, 0, alpha)
    else:
        transform = Transform(_scaled("as is", alpha), lambda array: array, 1, alpha)
    bias = g.input_at(node, 2)
    _fully_connected(lowering, node, transform, bias, beta=beta)


def _scaled(name: str, alpha: float) -> str:
    return name if alpha == 1.0 else f"{name} x {alpha:g}"


def _gemm_of_activations(lowering: Lowering, node: ir.Node, alpha: float, beta: float, *, transposed: bool) -> None:
    if lowering.mode(node) is not NodeMode.FLOAT:
        raise Unsupported("a product of two activations stays float here")
    bias, result = g.input_at(node, 2), node.outputs[0]
    product = lowering.result(result) if bias is None else lowering.temporary(f"{result.name}.product", dims(result))
    inputs = {"X": [lowering.tensor(node.inputs[0])], "Y": [lowering.tensor(node.inputs[1])]}
    attributes = {"transpose_X": attr(False), "transpose_Y": attr(transposed), "alpha": attr(alpha)}
    lowering.emit("matmul", inputs, {"Out": [product]}, attributes)
    if bias is None:
        return
    name = lowering.tensor(bias)
    if beta != 1.0:
        array = g.constant(bias)
        if array is None:
            raise Unsupported("Gemm with beta and a computed C", "multiply C before it")
        name = lowering.parameter(f"{bias.name}.beta", array * np.float32(beta))
    combine(lowering, "add", product, name, lowering.result(result))


def _matmul(lowering: Lowering, node: ir.Node) -> None:
    first, second = node.inputs[0], node.inputs[1]
    if dtype_name(first) != "float32":
        raise Unsupported(f"a matrix product of {dtype_name(first)}")
    if g.constant(second) is not None and rank(second) == 2 and g.constant(first) is None and rank(first) >= 2:
        _fully_connected(lowering, node, keep(1), None)
        return
    if lowering.mode(node) is not NodeMode.FLOAT:
        raise Unsupported("a product of two activations stays float here")
    result = node.outputs[0]
    if rank(first) < 2 or rank(second) < 2:
        raise Unsupported("a matrix product with a vector", "reshape the vector to a matrix before it")
    inputs = {"X": [_same_batch(lowering, first, result)], "Y": [_same_batch(lowering, second, result)]}
    attributes = {"transpose_X": attr(False), "transpose_Y": attr(False), "alpha": attr(1.0)}
    lowering.emit("matmul", inputs, {"Out": [lowering.result(result)]}, attributes)


def _same_batch(lowering: Lowering, value: ir.Value | None, result: ir.Value) -> str:
    """A side of a matrix product with all batch dimensions of the result: no kernel broadcasts them."""
    own, wanted = dims(value)[:-2], dims(result)[:-2]
    if own == wanted or not lowering.absorbs:
        return lowering.tensor(value)
    matrix = dims(value)[-2:]
    array = g.constant(value)
    is_small = array is not None and math.prod((*wanted, *matrix)) - array.size <= STORED_BLOCK
    if array is not None and value is not None and -1 not in wanted and is_small:
        return lowering.parameter(f"{value.name}.expanded", np.broadcast_to(array, (*wanted, *matrix)).copy())
    if -1 in (*own, *wanted, *matrix):
        raise Unsupported("a matrix product that broadcasts unknown dimensions", "give --inputShape")
    return expand(lowering, lowering.tensor(value), (*own, *matrix), (*wanted, *matrix))


@dataclass(frozen=True, slots=True)
class _Layer:
    """What one ``fc`` operator absorbs.

    Attributes:
        leading: Dimensions of the data that count rows.
        bias: Stored vector that the operator adds.
        added: Variable that an operator behind it adds.
        activation: Function that the operator applies.
        result: Value that is finally written.
    """

    leading: int
    bias: str | None
    added: str | None
    activation: Activation
    result: ir.Value


def _fully_connected(
    lowering: Lowering, node: ir.Node, transform: Transform, bias: ir.Value | None, *, beta: float = 1.0
) -> None:
    """``x · W + b`` with the constant W in the form (inputs, outputs)."""
    layer = _layer(lowering, node, transform, bias, beta)
    weight = lowering.weight(node, node.inputs[1], transform)
    if lowering.mode(node) is NodeMode.INTEGER:
        target = _emit_integer(lowering, node, layer, weight)
    else:
        target = _target(lowering, layer)
        inputs = {"Input": [lowering.tensor(node.inputs[0])], **_constants(layer, weight)}
        lowering.emit("fc", inputs, {"Out": [target]}, _attributes(layer) | weight.attributes)
    if layer.added is not None:
        combine(lowering, "add", target, layer.added, lowering.result(layer.result))


def _layer(lowering: Lowering, node: ir.Node, transform: Transform, bias: ir.Value | None, beta: float) -> _Layer:
    """Absorb the bias and the function behind a matrix product, as far as the target's kernels apply them."""
    weight_values = g.constant(node.inputs[1])
    assert weight_values is not None
    channels = int(weight_values.shape[transform.axis])
    integer, result = lowering.mode(node) is NodeMode.INTEGER, node.outputs[0]
    if bias is None:
        bias, result = take_bias(lowering, result, channels)
    vector, added = _bias_vector(lowering, bias, channels, beta)
    if integer and not lowering.is_arm and vector is not None:  # x86 int8 adds it per row
        vector, added = None, vector
    activation = Activation()
    if vector is not None:  # without a bias x86 drops the function, and so does ARM when there is more than one row
        allowed = ("relu", "relu6", "brelu") if lowering.is_arm and not integer else ("relu",)
        activation, result = take_activation(lowering, result, allowed)
    return _Layer(rank(node.inputs[0]) - 1, vector, added, activation, result)


def _attributes(layer: _Layer) -> dict[str, Attribute]:
    attributes = {"in_num_col_dims": attr(layer.leading), "activation_type": attr(layer.activation.kind)}
    if layer.activation.kind == "relu6":
        attributes["alpha"] = layer.activation.attributes["fuse_brelu_threshold"]
    return attributes


def _constants(layer: _Layer, weight: StoredWeight) -> dict[str, list[str]]:
    return {"W": [weight.name], **({} if layer.bias is None else {"Bias": [layer.bias]})}


def _target(lowering: Lowering, layer: _Layer) -> str:
    """Variable that the operator itself writes."""
    if layer.added is None:
        return lowering.result(layer.result)
    return lowering.temporary(f"{layer.result.name}.product", dims(layer.result))


def _emit_integer(lowering: Lowering, node: ir.Node, layer: _Layer, weight: StoredWeight) -> str:
    """The int8 kernel; returns the variable that it writes."""
    data = node.inputs[0]
    assert data is not None
    name, scale = lowering.int8_input(data)
    attributes = _attributes(layer) | {
        "enable_int8": attr(True),
        "bit_length": attr(8),
        "Input0_scale": floats([scale]),
        "W0_scale": floats(weight.scales),
    }
    alias = "fp32out" if lowering.is_arm else "fp32_out"
    if layer.added is None and lowering.is_arm and lowering.int8_output(layer.result):
        alias = "int8out"
        attributes["Out0_scale"] = floats([lowering.activation_scale(layer.result)])
        target = lowering.write_int8(layer.result)
    else:
        target = _target(lowering, layer)
    inputs = {"Input": [name], **_constants(layer, weight)}
    lowering.emit("fc", inputs, {"Out": [target]}, attributes, alias=alias)
    return target


def _bias_vector(
    lowering: Lowering, bias: ir.Value | None, channels: int, beta: float
) -> tuple[str | None, str | None]:
    """The bias as a stored vector, or as a tensor to be added afterwards when it is none."""
    if bias is None:
        return None, None
    array = g.constant(bias)
    if array is None:
        if beta != 1.0:
            raise Unsupported("Gemm with beta and a computed C", "multiply C before it")
        return None, lowering.tensor(bias)
    if array.size == channels and array.shape[-1:] == (channels,):
        flat = array.reshape(channels).astype(np.float32)
        if beta == 1.0 and array.ndim == 1:
            return lowering.tensor(bias), None
        return lowering.parameter(f"{bias.name}.bias", flat * np.float32(beta)), None
    if array.size == 1:
        filled = np.full(channels, array.reshape(()) * np.float32(beta), np.float32)
        return lowering.parameter(f"{bias.name}.bias", filled), None
    return None, lowering.parameter(f"{bias.name}.bias", (array * np.float32(beta)).astype(np.float32))


HANDLERS: dict[str, Handler] = {"Gemm": _gemm, "MatMul": _matmul}
