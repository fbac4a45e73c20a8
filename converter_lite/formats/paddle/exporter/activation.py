"""Elementwise functions of one tensor."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import (
    Handler,
    Lowering,
    Unsupported,
    dims,
    dtype_name,
    rank,
)
from converter_lite.formats.paddle.exporter.movement import transpose
from converter_lite.formats.paddle.exporter.reshaping import reshape
from converter_lite.formats.paddle.kernels import Target, choose
from converter_lite.formats.paddle.program import Attribute, attr


def unary(lowering: Lowering, node: ir.Node, operator: str, attributes: dict[str, Attribute] | None = None) -> None:
    """One operator with input X and output Out."""
    inputs = {"X": [lowering.tensor(node.inputs[0])]}
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit(operator, inputs, outputs, attributes, dtype=dtype_name(node.inputs[0]))


LOWEST = float(np.finfo(np.float32).min)

FLAT = 20.0
"""Number from which tanh is 1 in float32."""

PLAIN = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Exp": "exp",
    "Log": "log",
    "Abs": "abs",
    "Floor": "floor",
    "Reciprocal": "reciprocal",
    "Sqrt": "sqrt",
    "Sin": "sin",
    "Cos": "cos",
}
"""ONNX operator -> Paddle operator without attributes."""


def _function(operator: str, **attributes: float | tuple[str, float]) -> Handler:
    """A function of one tensor whose attributes are numbers: constant ones, or an attribute of ONNX with its default."""

    def lower(lowering: Lowering, node: ir.Node) -> None:
        numbers = {
            name: g.float_attribute(node, *given) if isinstance(given, tuple) else given
            for name, given in attributes.items()
        }
        unary(lowering, node, operator, {name: attr(number) for name, number in numbers.items()})

    return lower


def _tanh(lowering: Lowering, node: ir.Node) -> None:
    """ARM's kernel makes NaN of numbers beyond 88 where fewer than four are left at the end: they are cut off before it."""
    source = node.inputs[0]
    if not (lowering.absorbs and lowering.is_arm) or source is None or _is_flat(source.producer()):
        unary(lowering, node, "tanh")
        return
    bounded = lowering.temporary(f"{node.outputs[0].name}.bounded", dims(source))
    bounds = {"min": attr(-FLAT), "max": attr(FLAT)}
    lowering.emit("clip", {"X": [lowering.tensor(source)]}, {"Out": [bounded]}, bounds)
    lowering.emit("tanh", {"X": [bounded]}, {"Out": [lowering.result(node.outputs[0])]})


def _is_flat(producer: ir.Node | None) -> bool:
    """Whether what a node gives lies where the kernel of tanh is right."""
    bounds = g.clamp_bounds(producer) if producer is not None and producer.op_type == "Clip" else None
    return bounds is not None and bounds[0] >= -FLAT and bounds[1] <= FLAT


def _leaky_relu(lowering: Lowering, node: ir.Node) -> None:
    slope = g.float_attribute(node, "alpha", 0.01)
    if slope > 1 and lowering.absorbs and not lowering.is_arm:  # x86 takes the larger one of x and slope * x
        _sloped(lowering, node, np.array([slope], np.float32))
        return
    unary(lowering, node, "leaky_relu", {"alpha": attr(slope)})


def _elu(lowering: Lowering, node: ir.Node) -> None:
    alpha = g.float_attribute(node, "alpha", 1.0)
    if alpha < 0 and lowering.absorbs and not lowering.is_arm:
        raise Unsupported(f"Elu with alpha {alpha:g}: release 2.10 adds what is above zero to x", "use --nbTarget=arm")
    unary(lowering, node, "elu", {"alpha": attr(alpha)})


def _gelu(lowering: Lowering, node: ir.Node) -> None:
    is_tanh = g.text_attribute(node, "approximate", "none") == "tanh"
    if is_tanh and lowering.absorbs and not lowering.is_arm:
        _tanh_gelu(lowering, node)
    else:
        unary(lowering, node, "gelu", {"approximate": attr(is_tanh)})


def _tanh_gelu(lowering: Lowering, node: ir.Node) -> None:
    """``x * sigmoid(2 * c * (x + 0.044715 * x**3))``: the x86 kernel computes the other kind in any case."""
    name, value, factor = lowering.tensor(node.inputs[0]), node.outputs[0], 2 * math.sqrt(2 / math.pi)
    parts = [lowering.temporary(f"{value.name}.{part}", dims(value)) for part in ("square", "scaled", "cubic", "gate")]
    square, scaled, cubic, gate = parts
    combine(lowering, "mul", name, name, square)
    affine(lowering, square, scaled, scale=0.044715 * factor, bias=factor)
    combine(lowering, "mul", scaled, name, cubic)
    lowering.emit("sigmoid", {"X": [cubic]}, {"Out": [gate]})
    combine(lowering, "mul", gate, name, lowering.result(value))


def combine(lowering: Lowering, operator: str, left: str, right: str, result: str) -> None:
    """One of ``add``, ``mul``, ``div`` on two float tensors whose axes are aligned at the end."""
    lowering.emit(f"elementwise_{operator}", {"X": [left], "Y": [right]}, {"Out": [result]}, {"axis": attr(-1)})


def _clip(lowering: Lowering, node: ir.Node) -> None:
    if dtype_name(node.inputs[0]) != "float32":
        raise Unsupported(f"Clip of {dtype_name(node.inputs[0])}")
    bounds = g.clamp_bounds(node)
    if bounds is None:
        raise Unsupported("its bounds are computed at run time")
    lower, upper = max(bounds[0], -g.FLOAT_MAX), min(bounds[1], g.FLOAT_MAX)
    if lower == 0.0 and upper > 3e38:
        unary(lowering, node, "relu")
    elif (lower, upper) == (0.0, 6.0):  # ARM clips at 6 whatever the threshold is
        unary(lowering, node, "relu6", {"threshold": attr(upper)})
    else:
        unary(lowering, node, "clip", {"min": attr(lower), "max": attr(upper)})


def _prelu(lowering: Lowering, node: ir.Node) -> None:
    slope = g.constant(node.inputs[1])
    if slope is None:
        raise Unsupported("its slope is computed at run time")
    _sloped(lowering, node, slope)


def _sloped(lowering: Lowering, node: ir.Node, slope: NDArray[Any]) -> None:
    """``prelu`` with these slopes, in the mode that their shape has."""
    size, dimensions = slope.size, rank(node.inputs[0])
    channels = dims(node.inputs[0])[1] if dimensions > 1 else 1
    if dimensions == 1:  # the kernel reads a second size
        _prelu_by_parts(lowering, node, slope)
        return
    if size == 1:
        mode = "all"
    elif size == channels and slope.ndim >= dimensions - 1 and slope.shape[1 - dimensions] == size:
        mode = "channel"
    else:
        _prelu_by_parts(lowering, node, slope)
        return
    alpha = lowering.parameter(f"{node.name}.slope", slope.reshape(-1).astype(np.float32))
    inputs = {"X": [lowering.tensor(node.inputs[0])], "Alpha": [alpha]}
    outputs = {"Out": [lowering.result(node.outputs[0])]}
    lowering.emit("prelu", inputs, outputs, {"mode": attr(mode)})


def _prelu_by_parts(lowering: Lowering, node: ir.Node, slope: NDArray[Any]) -> None:
    """``max(x, 0) + slope * min(x, 0)``: the kernel's element mode gives NaN."""
    name, value = lowering.tensor(node.inputs[0]), node.outputs[0]
    positive, negative, scaled = (lowering.temporary(f"{value.name}.{part}", dims(value)) for part in ("p", "n", "s"))
    lowering.emit("relu", {"X": [name]}, {"Out": [positive]})
    lowering.emit("clip", {"X": [name]}, {"Out": [negative]}, {"min": attr(LOWEST), "max": attr(0.0)})
    factor = lowering.parameter(f"{node.name}.slope", slope.astype(np.float32))
    combine(lowering, "mul", negative, factor, scaled)
    combine(lowering, "add", positive, scaled, lowering.result(value))


def affine(
    lowering: Lowering, name: str, result: str, *, scale: float, bias: float = 0.0, dtype: str = "float32"
) -> None:
    """``result = scale * name + bias``."""
    attributes = {"scale": attr(scale), "bias": attr(bias), "bias_after_scale": attr(True)}
    lowering.emit("scale", {"X": [name]}, {"Out": [result]}, attributes, dtype=dtype)


def _negate(lowering: Lowering, node: ir.Node) -> None:
    name, result = lowering.tensor(node.inputs[0]), lowering.result(node.outputs[0])
    affine(lowering, name, result, scale=-1.0, dtype=dtype_name(node.inputs[0]))


def _ceil(lowering: Lowering, node: ir.Node) -> None:
    """No release has the operator: -floor(-x)."""
    value = node.outputs[0]
    negative = lowering.temporary(f"{value.name}.negative", dims(value))
    floored = lowering.temporary(f"{value.name}.floor", dims(value))
    affine(lowering, lowering.tensor(node.inputs[0]), negative, scale=-1.0)
    lowering.emit("floor", {"X": [negative]}, {"Out": [floored]})
    affine(lowering, floored, lowering.result(value), scale=-1.0)


def _erf(lowering: Lowering, node: ir.Node) -> None:
    """x86 has no such kernel before 2.13: erf(x) = 2·gelu(√2·x) / (√2·x) - 1 is singular, so it is refused there."""
    if lowering.target is not Target.ARM and lowering.absorbs:
        raise Unsupported("erf has no x86 kernel before release 2.13", "a Gelu around it is written as gelu")
    unary(lowering, node, "erf")


def _softsign(lowering: Lowering, node: ir.Node) -> None:
    """``x / (1 + |x|)`` where there is no such kernel: on ARM."""
    if choose("softsign", lowering.target, dtype="float32") is not None:
        unary(lowering, node, "softsign")
        return
    name, value = lowering.tensor(node.inputs[0]), node.outputs[0]
    size, divisor = (lowering.temporary(f"{value.name}.{part}", dims(value)) for part in ("size", "divisor"))
    lowering.emit("abs", {"X": [name]}, {"Out": [size]})
    affine(lowering, size, divisor, scale=1.0, bias=1.0)
    combine(lowering, "div", name, divisor, lowering.result(value))


def _log_softmax(lowering: Lowering, node: ir.Node) -> None:
    """Softmax and log: the operator of that name is missing in 2.10."""
    value = node.outputs[0]
    probabilities = lowering.temporary(f"{value.name}.softmax", dims(value))
    _along_axis(lowering, node, "softmax", result=probabilities)
    lowering.emit("log", {"X": [probabilities]}, {"Out": [lowering.result(value)]})


def _along_axis(lowering: Lowering, node: ir.Node, operator: str, *, result: str | None = None) -> None:
    value, source = node.outputs[0], node.inputs[0]
    assert source is not None
    dimensions = rank(source)
    modern = g.opset(lowering.quantized.model) >= 13
    axis = g.int_attribute(node, "axis", -1 if modern else 1) % dimensions
    name, final = lowering.tensor(source), result or lowering.result(value)
    if lowering.absorbs and not lowering.is_arm and modern and axis != dimensions - 1:
        _along_last_axis(lowering, operator, name, final, axis, dimensions)
        return
    if modern or axis == dimensions - 1:
        lowering.emit(operator, {"X": [name]}, {"Out": [final]}, {"axis": attr(axis)})
        return
    known = dims(source)
    rows = (*known[:axis], int(np.prod(known[axis:])))
    flat, folded = (lowering.temporary(f"{value.name}.{part}", rows) for part in ("flat", "folded"))
    reshape(lowering, name, flat, rows)
    lowering.emit(operator, {"X": [flat]}, {"Out": [folded]}, {"axis": attr(axis)})
    reshape(lowering, folded, final, known)


def _along_last_axis(lowering: Lowering, operator: str, name: str, final: str, axis: int, dimensions: int) -> None:
    """Between transposes: along other axes x86 kernels do not subtract the largest element, and end at infinity from 89 on."""
    order = list(range(dimensions))
    order[axis], order[-1] = order[-1], order[axis]
    turned, shares = (lowering.like(name, part, order=order) for part in ("turned", "shares"))
    transpose(lowering, name, turned, order)
    lowering.emit(operator, {"X": [turned]}, {"Out": [shares]}, {"axis": attr(dimensions - 1)})
    transpose(lowering, shares, final, order)


HANDLERS: dict[str, Handler] = {
    **{name: _function(operator) for name, operator in PLAIN.items()},
    "Tanh": _tanh,
    "Softsign": _softsign,
    "LeakyRelu": _leaky_relu,
    "Elu": _elu,
    "ThresholdedRelu": _function("thresholded_relu", threshold=("alpha", 1.0)),
    "HardSigmoid": _function("hard_sigmoid", slope=("alpha", 0.2), offset=("beta", 0.5)),
    "HardSwish": _function("hard_swish", threshold=6.0, scale=6.0, offset=3.0),
    "Mish": _function("mish", threshold=20.0),
    "Gelu": _gelu,
    "Swish": _function("swish", beta=("alpha", 1.0)),
    "Clip": _clip,
    "PRelu": _prelu,
    "Neg": _negate,
    "Ceil": _ceil,
    "Erf": _erf,
    "Softplus": _function("softplus", beta=1.0, threshold=20.0),
    "Softmax": partial(_along_axis, operator="softmax"),
    "LogSoftmax": _log_softmax,
}
