"""Normalizations."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.graph_builder import axis_of
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, output, step_names
from converter_lite.formats.paddle.importer.filled import filled
from converter_lite.formats.paddle.importer.images import back, inner, planar
from converter_lite.formats.paddle.importer.sizes import known
from converter_lite.formats.paddle.program import Operator

TRAINING = "call eval() before saving the model"

NO_EPSILON = 1e-9
"""Up to this, what is added to a sum of squares makes no difference; Paddle's default is 1e-10."""


def _batch_norm(importer: Importer, op: Operator) -> None:
    if not op.get("is_test", True) and not op.get("use_global_stats", False):
        raise ModelError("it is in training mode: it takes mean and variance of its input", hint=TRAINING)
    name, layout = output(op, "Y"), "data_layout"
    value = planar(importer, op, importer.value(op.input("X")), layout)
    mean, variance = (importer.value(op.input(slot)) for slot in ("Mean", "Variance"))
    size = max((importer.shape(mean) or [0])[0], 0)
    inputs = [value, *_ones_and_zeros(importer, op, size), mean, variance]
    numbers = {"epsilon": float(op.get("epsilon", 1e-5))}
    made = importer.node("BatchNormalization", inputs, numbers, names=[inner(op, layout, name)])[0]
    back(importer, op, made, layout, name)


def _ones_and_zeros(importer: Importer, op: Operator, size: int) -> tuple[ir.Value, ir.Value]:
    """Scale and bias, 1 and 0 where the operator has none."""
    scale, bias = op.input("Scale"), op.input("Bias")
    ones = importer.initializer("scale", filled(importer, [size], 1.0)) if scale is None else importer.value(scale)
    zeros = importer.initializer("bias", filled(importer, [size], 0.0)) if bias is None else importer.value(bias)
    return ones, zeros


def _instance_norm(importer: Importer, op: Operator) -> None:
    value, name = importer.value(op.input("X")), output(op, "Y")
    channels = (importer.shape(value) or [0, 0])[1]
    scale, bias = _ones_and_zeros(importer, op, max(channels, 0))
    numbers = {"epsilon": float(op.get("epsilon", 1e-5))}
    kind = str(op.get("activation_type", ""))
    names = step_names(name, kind not in NO_FUNCTION)
    result = importer.node("InstanceNormalization", [value, scale, bias], numbers, names=[next(names)])[0]
    importer.bind(name, result if kind in NO_FUNCTION else fused(importer, op, result, kind, next(names)))


def _layer_norm(importer: Importer, op: Operator) -> None:
    value = importer.value(op.input("X"))
    shape = known(importer, value)
    axis = axis_of(int(op.get("begin_norm_axis", 1)), len(shape))
    trailing = shape[axis:]
    if min(trailing) < 1 and len(trailing) == 1 and op.input("Scale") is not None:
        trailing = known(importer, importer.value(op.input("Scale")))
    if min(trailing) < 1:
        raise ModelError("the normalized dimensions are not known")
    inputs = [value]
    for given in _ones_and_zeros(importer, op, math.prod(trailing)):
        shaped = given
        array = g.constant(given)
        if array is not None and list(array.shape) != trailing:
            shaped = importer.initializer(f"{given.name}.shaped", array.reshape(trailing))
        inputs.append(shaped)
    importer.finish(output(op, "Y"), "LayerNormalization", *inputs, axis=axis, epsilon=float(op.get("epsilon", 1e-5)))


def _rms_norm(importer: Importer, op: Operator) -> None:
    """Over the last dimensions, as many as the operator names."""
    value = importer.value(op.input("X"))
    rank, count = importer.rank(value), max(len(op.get("normalized_shape", ())), 1)
    axes = importer.add_constant("axes", list(range(rank - count, rank)))
    squares = importer.compute("ReduceMean", importer.compute("Mul", value, value), axes, keepdims=1)
    number = importer.add_constant("epsilon", float(op.get("epsilon", 1e-5)), np.float32)
    spread = importer.compute("Sqrt", importer.compute("Add", squares, number))
    if op.input("Scale") is None:
        importer.finish(output(op, "Y"), "Div", value, spread)
        return
    normal = importer.compute("Div", value, spread)
    importer.finish(output(op, "Y"), "Mul", normal, importer.value(op.input("Scale")))


def _group_norm(importer: Importer, op: Operator) -> None:
    """Instance normalization over groups, then a scale and bias per channel."""
    name, layout, groups = output(op, "Y"), "data_layout", int(op.get("groups", 1))
    value = planar(importer, op, importer.value(op.input("X")), layout)
    shape = importer.shape(value) or []
    if len(shape) < 3 or shape[1] < 1:
        raise ModelError("the number of channels is not known")
    if groups < 1 or shape[1] % groups:
        raise ModelError(f"{shape[1]} channels in {groups} groups")
    scale, bias = _ones_and_zeros(importer, op, shape[1])
    grouped = importer.compute("Reshape", value, importer.add_constant("shape", [0, groups, -1]))
    ones, zeros = (importer.initializer(n, filled(importer, [groups], f)) for n, f in (("one", 1), ("zero", 0)))
    numbers = {"epsilon": float(op.get("epsilon", 1e-5))}
    normal = importer.node("InstanceNormalization", [grouped, ones, zeros], numbers, names=["groups"])[0]
    size = importer.compute("Shape", value)
    restored = importer.compute("Reshape", normal, size)
    axes = importer.add_constant("axes", list(range(1, len(shape) - 1)))
    scaled = importer.compute("Mul", restored, importer.compute("Unsqueeze", scale, axes))
    addend = importer.compute("Unsqueeze", bias, axes)
    made = importer.node("Add", [scaled, addend], names=[inner(op, layout, name)])[0]
    back(importer, op, made, layout, name)


def _norm(importer: Importer, op: Operator) -> None:
    """``x / sqrt(sum(x * x) + epsilon)``; an epsilon as small as usual is left out."""
    value, axis, epsilon = importer.value(op.input("X")), int(op.get("axis", -1)), float(op.get("epsilon", 1e-10))
    if epsilon <= NO_EPSILON:
        importer.finish(output(op), "LpNormalization", value, axis=axis, p=2)
        return
    squares = importer.compute("ReduceSumSquare", value, importer.add_constant("axes", [axis]), keepdims=1)
    total = importer.compute("Add", squares, importer.add_constant("epsilon", epsilon, np.float32))
    importer.finish(output(op), "Div", value, importer.compute("Sqrt", total))


def _p_norm(importer: Importer, op: Operator) -> None:
    value, order, keep = importer.value(op.input("X")), float(op.get("porder", 2.0)), int(op.get("keepdim", False))
    inputs = [] if op.get("asvector", False) else [importer.add_constant("axes", [int(op.get("axis", -1))])]
    if order in (1.0, 2.0):
        importer.finish(output(op), f"ReduceL{order:.0f}", value, *inputs, keepdims=keep)
        return
    magnitude = importer.compute("Abs", value)
    if math.isinf(order):
        importer.finish(output(op), "ReduceMax" if order > 0 else "ReduceMin", magnitude, *inputs, keepdims=keep)
        return
    if order == 0:
        raise ModelError("p_norm of order 0")
    powers = importer.compute("Pow", magnitude, importer.add_constant("order", order, np.float32))
    total = importer.compute("ReduceSum", powers, *inputs, keepdims=keep)
    importer.finish(output(op), "Pow", total, importer.add_constant("root", 1 / order, np.float32))


def _frobenius(importer: Importer, op: Operator) -> None:
    axes = [] if op.get("reduce_all", False) else [int(axis) for axis in op.get("dim", ())]
    inputs = [importer.add_constant("axes", axes)] if axes else []
    keep = int(op.get("keep_dim", False))
    importer.finish(output(op), "ReduceL2", importer.value(op.input("X")), *inputs, keepdims=keep)


def _lrn(importer: Importer, op: Operator) -> None:
    name, size = output(op), int(op.get("n", 5))
    if size % 2 == 0:
        raise ModelError(f"a window of {size} channels, which has no middle")
    numbers = {
        "size": size,
        "alpha": float(op.get("alpha", 1e-4)) * size,
        "beta": float(op.get("beta", 0.75)),
        "bias": float(op.get("k", 1.0)),
    }
    value = planar(importer, op, importer.value(op.input("X")), "data_format")
    made = importer.node("LRN", [value], numbers, names=[inner(op, "data_format", name)])[0]
    back(importer, op, made, "data_format", name)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("batch_norm", "sync_batch_norm"), _batch_norm),
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "rms_norm": _rms_norm,
    "norm": _norm,
    "frobenius_norm": _frobenius,
    "p_norm": _p_norm,
    "lrn": _lrn,
}
