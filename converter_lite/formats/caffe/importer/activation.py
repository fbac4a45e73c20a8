"""Functions of one blob, element by element, and Softmax.

Source: ``exp_layer.cpp``, ``log_layer.cpp``, ``power_layer.cpp`` and their neighbours in BVLC/caffe.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.caffe.importer.context import Kind, Step

PLAIN = {"Sigmoid": "Sigmoid", "TanH": "Tanh", "AbsVal": "Abs", "BNLL": "Softplus", "Mish": "Mish"}
"""Layer -> ONNX operator without attributes."""


def _plain(step: Step) -> None:
    step.finish(PLAIN[step.layer.type], step.input())


def _relu(step: Step) -> None:
    slope = step.parameters.number("negative_slope", 0.0)
    if slope:
        step.finish("LeakyRelu", step.input(), alpha=slope)
    else:
        step.finish("Relu", step.input())


def _relu6(step: Step) -> None:
    step.finish("Clip", step.input(), step.constant("lowest", 0.0), step.constant("highest", 6.0))


def _clip(step: Step) -> None:
    bounds = [step.constant(name, step.parameters.number(name)) for name in ("min", "max") if step.parameters.has(name)]
    if len(bounds) != 2:
        raise ModelError("it needs min and max")
    step.finish("Clip", step.input(), *bounds)


def _prelu(step: Step) -> None:
    shape = step.shape()
    if len(shape) < 2:
        raise ModelError(f"'{step.layer.bottoms[0]}' has {len(shape)} dimensions, and not at least 2")
    channels = 1 if step.parameters.flag("channel_shared", False) else shape[1]
    slope = step.blob(0, (channels,)).reshape(channels, *(1,) * (len(shape) - 2))
    step.finish("PRelu", step.input(), step.constant("slope", slope))


def _elu(step: Step) -> None:
    step.finish("Elu", step.input(), alpha=step.parameters.number("alpha", 1.0))


def _swish(step: Step) -> None:
    value = step.input()
    gate = step.emit("Sigmoid", _affine(step, value, step.parameters.number("beta", 1.0), 0.0))
    step.finish("Mul", value, gate)


def _affine(step: Step, value: ir.Value, scale: float, shift: float) -> ir.Value:
    if scale != 1.0:
        value = step.emit("Mul", value, step.constant("scale", scale))
    return step.emit("Add", value, step.constant("shift", shift)) if shift else value


def _power(step: Step) -> None:
    """``(shift + scale * x) ** power``."""
    power, scale, shift = (step.parameters.number(n, d) for n, d in (("power", 1.0), ("scale", 1.0), ("shift", 0.0)))
    if not power * scale:
        raise ModelError("it gives one number whatever it reads", hint="remove it, and what depends on it")
    if power != 1.0:
        value = _affine(step, step.input(), scale, shift)
        if power == 2.0:
            step.finish("Mul", value, value)
        elif power in (0.5, -1.0):
            step.finish("Sqrt" if power == 0.5 else "Reciprocal", value)
        else:
            step.finish("Pow", value, step.constant("power", power))
    elif shift:
        step.finish("Add", _affine(step, step.input(), scale, 0.0), step.constant("shift", shift))
    elif scale != 1.0:
        step.finish("Mul", step.input(), step.constant("scale", scale))
    else:
        step.bind(step.input())


def _base(step: Step) -> float:
    """Natural logarithm of the base, which -1 says is e."""
    base = step.parameters.number("base", -1.0)
    if base != -1.0 and not (base > 0 and math.isfinite(base)):
        raise ModelError(f"base {base:g}")
    return 1.0 if base == -1.0 else math.log(base)


def _exp(step: Step) -> None:
    """``base ** (shift + scale * x)``."""
    base, scale, shift = _base(step), step.parameters.number("scale", 1.0), step.parameters.number("shift", 0.0)
    value, factor = _affine(step, step.input(), base * scale, 0.0), math.exp(base * shift)
    if factor != 1.0:
        step.finish("Mul", step.emit("Exp", value), step.constant("factor", factor))
    else:
        step.finish("Exp", value)


def _log(step: Step) -> None:
    """The logarithm of ``shift + scale * x`` to a base."""
    base = _base(step)
    if not base:
        raise ModelError("base 1")
    value = _affine(step, step.input(), step.parameters.number("scale", 1.0), step.parameters.number("shift", 0.0))
    if base != 1.0:
        step.finish("Mul", step.emit("Log", value), step.constant("factor", 1.0 / base))
    else:
        step.finish("Log", value)


def _threshold(step: Step) -> None:
    above = step.emit("Greater", step.input(), step.constant("threshold", step.parameters.number("threshold", 0.0)))
    step.finish("Cast", above, to=int(ir.DataType.FLOAT))


def _softmax(step: Step) -> None:
    step.finish("Softmax", step.input(), axis=step.axis("axis", 1))


KINDS: dict[str, Kind] = {
    "ReLU": Kind(_relu, "Relu, LeakyRelu", "relu_param", "negative_slope engine"),
    "ReLU6": Kind(_relu6, "Clip", "relu6_param"),
    "Clip": Kind(_clip, "Clip", "clip_param", "min max"),
    "PReLU": Kind(_prelu, "PRelu", "prelu_param", "channel_shared filler", weighted=True),
    "ELU": Kind(_elu, "Elu", "elu_param", "alpha"),
    "Sigmoid": Kind(_plain, "Sigmoid", "sigmoid_param", "engine"),
    "TanH": Kind(_plain, "Tanh", "tanh_param", "engine"),
    "AbsVal": Kind(_plain, "Abs"),
    "BNLL": Kind(_plain, "Softplus"),
    "Mish": Kind(_plain, "Mish", "mish_param", "engine"),
    "Swish": Kind(_swish, "Sigmoid, Mul", "swish_param", "beta"),
    "Power": Kind(_power, "Mul, Add, Sqrt, Reciprocal, Pow", "power_param", "power scale shift"),
    "Exp": Kind(_exp, "Mul, Exp", "exp_param", "base scale shift"),
    "Log": Kind(_log, "Mul, Add, Log", "log_param", "base scale shift"),
    "Threshold": Kind(_threshold, "Greater, Cast", "threshold_param", "threshold"),
    "Softmax": Kind(_softmax, "Softmax", "softmax_param", "engine axis"),
}
