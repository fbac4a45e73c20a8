"""Functions of one tensor that ONNX has only as several operators, or with other attributes."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.context import Handler, Importer, output
from converter_lite.formats.paddle.importer.sizes import known, like, scalar
from converter_lite.formats.paddle.program import Operator

EXACT_SOFTPLUS = 15.0
"""Above it softplus(x) and x are equal in float32: a threshold there makes no difference."""

LARGEST_FLOAT = float(np.finfo(np.float32).max)


def _value(importer: Importer, op: Operator) -> ir.Value:
    return importer.value(op.input("X"))


def _round(importer: Importer, op: Operator) -> None:
    value, places = _value(importer, op), int(op.get("decimals", 0))
    if not places:
        importer.finish(output(op), "Round", value)
        return
    factor = like(importer, value, 10.0**places, "factor")
    importer.finish(output(op), "Div", importer.compute("Round", importer.compute("Mul", value, factor)), factor)


def _trunc(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    whole = importer.compute("Floor", importer.compute("Abs", value))
    importer.finish(output(op), "Mul", importer.compute("Sign", value), whole)


def _exponential(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    importer.finish(output(op), "Sub", importer.compute("Exp", value), like(importer, value, 1.0, "one"))


def _logarithm(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    if op.type == "log1p":
        moved = importer.compute("Add", value, like(importer, value, 1.0, "one"))
        importer.finish(output(op), "Log", moved)
        return
    base = {"log2": 2.0, "log10": 10.0}[op.type]
    natural = importer.compute("Log", value)
    importer.finish(output(op), "Mul", natural, like(importer, value, 1.0 / math.log(base), "factor"))


def _finite(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    if op.type == "isinf_v2":
        importer.finish(output(op), "IsInf", value)
        return
    odd = importer.compute("Or", importer.compute("IsInf", value), importer.compute("IsNaN", value))
    importer.finish(output(op), "Not", odd)


def _bitwise_not(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    importer.finish(output(op), "Not" if value.dtype == ir.DataType.BOOL else "BitwiseNot", value)


def _celu(importer: Importer, op: Operator) -> None:
    importer.finish(output(op), "Celu", _value(importer, op), alpha=float(op.get("alpha", 1.0)))


def _selu(importer: Importer, op: Operator) -> None:
    numbers = {"alpha": float(op.get("alpha", 1.6732632)), "gamma": float(op.get("scale", 1.0507010))}
    importer.finish(output(op), "Selu", _value(importer, op), **numbers)


def _shrink(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    if op.type == "tanh_shrink":
        importer.finish(output(op), "Sub", value, importer.compute("Tanh", value))
    elif op.type == "hard_shrink":
        importer.finish(output(op), "Shrink", value, lambd=float(op.get("threshold", 0.5)), bias=0.0)
    else:
        limit = float(op.get("lambda", 0.5))
        importer.finish(output(op), "Shrink", value, lambd=limit, bias=limit)


def _log_sigmoid(importer: Importer, op: Operator) -> None:
    turned = importer.compute("Softplus", importer.compute("Neg", _value(importer, op)))
    importer.finish(output(op), "Neg", turned)


def _softplus(importer: Importer, op: Operator) -> None:
    value, beta, limit = _value(importer, op), float(op.get("beta", 1.0)), float(op.get("threshold", 20.0))
    name = output(op)
    scaled = value if beta == 1.0 else importer.compute("Mul", value, like(importer, value, beta, "beta"))
    curve = importer.compute("Softplus", scaled) if beta != 1.0 or limit < EXACT_SOFTPLUS else None
    if curve is None:
        importer.finish(name, "Softplus", scaled)
        return
    if beta != 1.0:
        curve = importer.compute("Div", curve, like(importer, value, beta, "beta"))
    if limit < EXACT_SOFTPLUS:
        is_linear = importer.compute("Greater", scaled, like(importer, value, limit, "threshold"))
        curve = importer.compute("Where", is_linear, value, curve)
    importer.finish(name, "Identity", curve)


def _stanh(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    inner = importer.compute("Mul", value, like(importer, value, float(op.get("scale_a", 0.67)), "scale"))
    scale = like(importer, value, float(op.get("scale_b", 1.7159)), "scale")
    importer.finish(output(op), "Mul", importer.compute("Tanh", inner), scale)


def _thresholded(importer: Importer, op: Operator) -> None:
    value, limit, other = _value(importer, op), float(op.get("threshold", 1.0)), float(op.get("value", 0.0))
    if other == 0.0:
        importer.finish(output(op), "ThresholdedRelu", value, alpha=limit)
        return
    above = importer.compute("Greater", value, like(importer, value, limit, "threshold"))
    importer.finish(output(op), "Where", above, value, like(importer, value, other))


def _logit(importer: Importer, op: Operator) -> None:
    value, margin = _value(importer, op), float(op.get("eps", 1e-6))
    bounds = [like(importer, value, bound, "bound") for bound in (margin, 1.0 - margin)]
    inside = importer.compute("Clip", value, *bounds)
    rest = importer.compute("Sub", like(importer, value, 1.0, "one"), inside)
    importer.finish(output(op), "Log", importer.compute("Div", inside, rest))


def _rrelu(importer: Importer, op: Operator) -> None:
    if not op.get("is_test", True):
        raise ModelError("it is in training mode: its slopes are random", hint="call eval() before saving the model")
    slope = (float(op.get("lower", 1 / 8)) + float(op.get("upper", 1 / 3))) / 2
    importer.finish(output(op), "LeakyRelu", _value(importer, op), alpha=slope)


def _swiglu(importer: Importer, op: Operator) -> None:
    value = _value(importer, op)
    if op.input("Y") is not None:
        gate, other = value, importer.value(op.input("Y"))
    else:
        names = [f"{output(op)}.gate", f"{output(op)}.other"]
        gate, other = importer.node("Split", [value], {"axis": -1, "num_outputs": 2}, names=names)
    swish = importer.compute("Mul", gate, importer.compute("Sigmoid", gate))
    importer.finish(output(op), "Mul", swish, other)


def _maxout(importer: Importer, op: Operator) -> None:
    value, groups = _value(importer, op), int(op.get("groups", 1))
    shape = known(importer, value)
    axis = axis_of(int(op.get("axis", 1)), len(shape))
    if shape[axis] < 1 or groups < 1 or shape[axis] % groups:
        raise ModelError(f"{shape[axis]} channels in groups of {groups}")
    split = [0] * axis + [shape[axis] // groups, groups] + shape[axis + 1 :]
    if any(size < 0 for size in shape[axis + 2 :]):
        raise ModelError("the dimensions behind the channels are not known")
    grouped = importer.compute("Reshape", value, importer.add_constant("shape", split))
    axes = importer.add_constant("axes", [axis + 1])
    importer.finish(output(op), "ReduceMax", grouped, axes, keepdims=0)


def _bounded(importer: Importer, op: Operator) -> None:
    """Bounds on both sides; the largest float stands for none."""
    value = _value(importer, op)
    low, high = ("min", "max") if op.type == "clip" else ("t_min", "t_max")
    bounds = [_bound(importer, op, value, low, "Min"), _bound(importer, op, value, high, "Max")]
    importer.finish(output(op), "Clip", value, *bounds)


def _bound(importer: Importer, op: Operator, value: ir.Value, attribute: str, slot: str) -> ir.Value | None:
    name = op.input(slot)
    if name is not None:
        given = scalar(importer, importer.value(name))
        return given if given.dtype == value.dtype else importer.compute("Cast", given, to=int(value.dtype or 1))
    number = float(op.attributes[attribute].value)
    if abs(number) >= LARGEST_FLOAT:
        return None
    return like(importer, value, number, "bound")


def _dropout(importer: Importer, op: Operator) -> None:
    if not op.get("is_test", True):
        raise ModelError("it is in training mode: its result is random", hint="call eval() before saving the model")
    value, share = _value(importer, op), float(op.get("dropout_prob", 0.5))
    if op.get("dropout_implementation", "downgrade_in_infer") == "upscale_in_train" or share == 0:
        importer.bind(output(op), value)
    else:
        importer.finish(output(op), "Mul", value, like(importer, value, 1.0 - share, "share"))


HANDLERS: dict[str, Handler] = {
    "round": _round,
    "trunc": _trunc,
    "expm1": _exponential,
    **dict.fromkeys(("log1p", "log2", "log10"), _logarithm),
    **dict.fromkeys(("isinf_v2", "isfinite_v2"), _finite),
    "bitwise_not": _bitwise_not,
    "celu": _celu,
    "selu": _selu,
    **dict.fromkeys(("hard_shrink", "softshrink", "tanh_shrink"), _shrink),
    "logsigmoid": _log_sigmoid,
    "softplus": _softplus,
    "stanh": _stanh,
    "thresholded_relu": _thresholded,
    "logit": _logit,
    "rrelu": _rrelu,
    "swiglu": _swiglu,
    "maxout": _maxout,
    **dict.fromkeys(("clip", "brelu"), _bounded),
    "dropout": _dropout,
}
