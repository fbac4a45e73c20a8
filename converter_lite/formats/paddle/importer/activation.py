"""Functions of one tensor, and those fused into other operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.sizes import scalar
from converter_lite.formats.paddle.program import Operator

NO_FUNCTION = ("", "none", "identity")
"""Names of a fused function that is none."""

PLAIN = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "abs": "Abs",
    "floor": "Floor",
    "ceil": "Ceil",
    "reciprocal": "Reciprocal",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "sign": "Sign",
    "negative": "Neg",
    "softsign": "Softsign",
    "erf": "Erf",
    "mish": "Mish",
    "logical_not": "Not",
    "acos": "Acos",
    "acosh": "Acosh",
    "asin": "Asin",
    "asinh": "Asinh",
    "atan": "Atan",
    "atanh": "Atanh",
    "cosh": "Cosh",
    "isnan_v2": "IsNaN",
    "sinh": "Sinh",
    "tan": "Tan",
}
"""Paddle operator -> ONNX operator without attributes."""


def _plain(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), PLAIN[op.type], importer.value(op.input("X")))


def clip(importer: Importer, value: ir.Value, low: float | None, high: float | None, name: str) -> ir.Value:
    """Clip to constant bounds."""
    bounds = [None if bound is None else importer.add_constant("bound", bound, np.float32) for bound in (low, high)]
    return importer.node("Clip", [value, *bounds], names=[name])[0]


def _relu6(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    importer.bind(output(op), clip(importer, value, 0.0, float(op.get("threshold", 6.0)), output(op)))


def _with_alpha(importer: Importer, op: Operator) -> None:
    kinds = {"leaky_relu": ("LeakyRelu", "alpha", 0.02), "elu": ("Elu", "alpha", 1.0)}
    kind, attribute, default = kinds[op.type]
    importer.finish(output(op), kind, importer.value(op.input("X")), alpha=float(op.get(attribute, default)))


def _hard_sigmoid(importer: Importer, op: Operator) -> None:
    slope, offset = float(op.get("slope", 0.2)), float(op.get("offset", 0.5))
    importer.finish(output(op), "HardSigmoid", importer.value(op.input("X")), alpha=slope, beta=offset)


def _hard_swish(importer: Importer, op: Operator) -> None:
    numbers = [float(op.get(name, default)) for name, default in (("threshold", 6.0), ("scale", 6.0), ("offset", 3.0))]
    importer.bind(output(op), hard_swish(importer, importer.value(op.input("X")), numbers, output(op)))


def hard_swish(importer: Importer, value: ir.Value, numbers: list[float], name: str) -> ir.Value:
    """``x * clip(x + offset, 0, threshold) / scale``; the usual numbers have an operator of their own."""
    threshold, scale, offset = numbers
    if numbers == [6.0, 6.0, 3.0]:
        return importer.node("HardSwish", [value], names=[name])[0]
    moved = importer.compute("Add", value, importer.add_constant("offset", offset, np.float32))
    limited = clip(importer, moved, 0.0, threshold, f"{name}.clip")
    product = importer.compute("Mul", value, limited)
    return importer.node("Div", [product, importer.add_constant("scale", scale, np.float32)], names=[name])[0]


def _gelu(importer: Importer, op: Operator) -> None:
    approximate = "tanh" if op.get("approximate", False) else "none"
    importer.finish(output(op), "Gelu", importer.value(op.input("X")), approximate=approximate)


def _swish(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    beta = float(op.get("beta", 1.0)) if op.type == "swish" else 1.0
    scaled = value if beta == 1.0 else importer.compute("Mul", value, importer.add_constant("beta", beta, np.float32))
    importer.finish(output(op), "Mul", value, importer.compute("Sigmoid", scaled))


def _power(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    exponent = {"square": 2.0, "rsqrt": -0.5}.get(op.type, op.get("factor", 1.0))
    if op.type == "rsqrt":
        importer.finish(output(op), "Reciprocal", importer.compute("Sqrt", value))
        return
    tensor = op.input("FactorTensor") if op.type == "pow" else None
    if tensor is not None:
        importer.finish(output(op), "Pow", value, scalar(importer, importer.value(tensor)))
        return
    importer.finish(output(op), "Pow", value, importer.add_constant("exponent", float(exponent), np.float32))


def _softmax(importer: Importer, op: Operator) -> None:
    kind = "LogSoftmax" if op.type == "log_softmax" else "Softmax"
    importer.finish(output(op), kind, importer.value(op.input("X")), axis=int(op.get("axis", -1)))


def _prelu(importer: Importer, op: Operator) -> None:
    value, slope = importer.value(op.input("X")), importer.array(op.input("Alpha"))
    if slope is None:
        raise ModelError("its slope is not a constant")
    if op.get("data_format", "NCHW") not in ("NCHW", "AnyLayout") and op.get("mode", "all") == "channel":
        raise ModelError(f"data format {op.get('data_format')} with a slope for each channel")
    importer.bind(output(op), prelu(importer, value, slope, str(op.get("mode", "all")), output(op)))


def prelu(importer: Importer, value: ir.Value, slope: NDArray[Any], mode: str, name: str) -> ir.Value:
    """PRelu with a slope per tensor, channel or element."""
    rank = importer.rank(value)
    shape = [1] * (rank - 1)
    if mode == "channel":
        shape[0] = slope.size
    elif mode == "element":
        shape = (importer.shape(value) or [])[1:]
    shaped = importer.initializer(f"{name}.slope", slope.reshape(shape).astype(np.float32))
    return importer.node("PRelu", [value, shaped], names=[name])[0]


def _scale(importer: Importer, op: Operator) -> None:
    value, name = importer.value(op.input("X")), output(op)
    bias, after = op.get("bias", 0.0), bool(op.get("bias_after_scale", True))
    factor = op.input("ScaleTensor")
    if factor is None:
        value = affine(importer, value, op.get("scale", 1.0), bias, after=after)
    else:
        value = value if after else affine(importer, value, 1.0, bias, after=True)
        value = importer.compute("Mul", value, scalar(importer, importer.value(factor)))
        value = affine(importer, value, 1.0, bias, after=True) if after else value
    if op.get("activation_type"):
        value = fused(importer, op, value, str(op.get("activation_type")), f"{name}.activation")
    if op.get("fuse_scaleact"):
        value = affine(importer, value, op.get("scale1", 1.0), op.get("bias1", 0.0), after=True)
    importer.finish(name, "Identity", value)


def affine(importer: Importer, value: ir.Value, scale: float, bias: float, *, after: bool) -> ir.Value:
    """``scale * x + bias``, or ``scale * (x + bias)``, in the tensor's own type."""
    dtype = value.dtype.numpy().type if value.dtype is not None else np.float32
    offset = float(bias) if after else float(bias) * float(scale)
    if float(scale) != 1.0:
        value = importer.compute("Mul", value, importer.add_constant("scale", scale, dtype))
    if offset != 0.0:
        value = importer.compute("Add", value, importer.add_constant("bias", offset, dtype))
    return value


def fused(importer: Importer, op: Operator, value: ir.Value, kind: str, name: str) -> ir.Value:
    """The function that operator ``op`` applies to its result.

    Raises:
        ModelError: It is unknown.
    """
    if kind in NO_FUNCTION:
        return value
    if kind in ("relu", "sigmoid", "tanh"):
        return importer.node(PLAIN[kind], [value], names=[name])[0]
    if kind == "relu6":
        limit = op.get("fuse_brelu_threshold", op.get("alpha", 6.0)) if op.type != "scale" else op.get("alpha", 6.0)
        return clip(importer, value, 0.0, float(limit), name)
    if kind == "leaky_relu":
        alpha = float(op.get("leaky_relu_alpha", op.get("alpha", 0.02)))
        return importer.node("LeakyRelu", [value], {"alpha": alpha}, names=[name])[0]
    if kind == "hard_swish":
        keys = (("hard_swish_threshold", 6.0), ("hard_swish_scale", 6.0), ("hard_swish_offset", 3.0))
        return hard_swish(importer, value, [float(op.get(key, default)) for key, default in keys], name)
    if kind == "hard_sigmoid":
        numbers = {"alpha": float(op.get("slope", 0.2)), "beta": float(op.get("offset", 0.5))}
        return importer.node("HardSigmoid", [value], numbers, names=[name])[0]
    if kind == "swish":
        beta = importer.add_constant("beta", float(op.get("swish_scale", 1.0)), np.float32)
        gate = importer.compute("Sigmoid", importer.compute("Mul", value, beta))
        return importer.node("Mul", [value, gate], names=[name])[0]
    if kind == "prelu":
        slope = importer.array(op.input("Prelu_alpha") or op.input("Alpha"))
        if slope is None:
            raise ModelError("its slope is not a constant")
        return prelu(importer, value, slope, str(op.get("prelu_mode", op.get("mode", "all"))), name)
    raise ModelError(f"the fused function {kind} is unknown")


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(PLAIN, _plain),
    "relu6": _relu6,
    **dict.fromkeys(("leaky_relu", "elu"), _with_alpha),
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "gelu": _gelu,
    **dict.fromkeys(("swish", "silu"), _swish),
    **dict.fromkeys(("square", "pow", "rsqrt"), _power),
    **dict.fromkeys(("softmax", "log_softmax"), _softmax),
    "prelu": _prelu,
    "scale": _scale,
}
