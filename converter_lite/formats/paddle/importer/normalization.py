"""Normalizations."""

from __future__ import annotations

import math

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.paddle.importer.activation import NO_FUNCTION, fused
from converter_lite.formats.paddle.importer.context import Handler, Importer, step_names
from converter_lite.formats.paddle.importer.elementwise import output
from converter_lite.formats.paddle.importer.filled import filled
from converter_lite.formats.paddle.program import Operator


def _batch_norm(importer: Importer, op: Operator) -> None:
    slots = ("X", "Scale", "Bias", "Mean", "Variance")
    inputs = [importer.value(op.input(slot)) for slot in slots]
    importer.finish(output(op, "Y"), "BatchNormalization", *inputs, epsilon=float(op.get("epsilon", 1e-5)))


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
    value, axis = importer.value(op.input("X")), int(op.get("begin_norm_axis", 1))
    trailing = (importer.shape(value) or [])[axis:]
    if not trailing or min(trailing) < 1:
        raise ModelError("the normalized dimensions are not known")
    inputs = [value]
    for given in _ones_and_zeros(importer, op, math.prod(trailing)):
        shaped = given
        array = None if given.const_value is None else given.const_value.numpy()
        if array is not None and list(array.shape) != trailing:
            shaped = importer.initializer(f"{given.name}.shaped", array.reshape(trailing))
        inputs.append(shaped)
    importer.finish(output(op, "Y"), "LayerNormalization", *inputs, axis=axis, epsilon=float(op.get("epsilon", 1e-5)))


def _group_norm(importer: Importer, op: Operator) -> None:
    """Instance normalization over groups, then a scale and bias per channel."""
    value, groups = importer.value(op.input("X")), int(op.get("groups", 1))
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
    back = importer.compute("Reshape", normal, size)
    axes = importer.add_constant("axes", list(range(1, len(shape) - 1)))
    scaled = importer.compute("Mul", back, importer.compute("Unsqueeze", scale, axes))
    importer.finish(output(op, "Y"), "Add", scaled, importer.compute("Unsqueeze", bias, axes))


def _norm(importer: Importer, op: Operator) -> None:
    value, axis = importer.value(op.input("X")), int(op.get("axis", -1))
    importer.finish(output(op), "LpNormalization", value, axis=axis, p=2)


def _p_norm(importer: Importer, op: Operator) -> None:
    if float(op.get("porder", 2.0)) != 2.0 or op.get("asvector", False):
        raise ModelError("p_norm with an order other than 2, or of the whole tensor")
    axes = importer.add_constant("axes", [int(op.get("axis", -1))])
    importer.finish(output(op), "ReduceL2", importer.value(op.input("X")), axes, keepdims=int(op.get("keepdim", False)))


def _lrn(importer: Importer, op: Operator) -> None:
    size = int(op.get("n", 5))
    numbers = {
        "size": size,
        "alpha": float(op.get("alpha", 1e-4)) * size,
        "beta": float(op.get("beta", 0.75)),
        "bias": float(op.get("k", 1.0)),
    }
    importer.finish(output(op), "LRN", importer.value(op.input("X")), **numbers)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("batch_norm", "sync_batch_norm"), _batch_norm),
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "norm": _norm,
    "p_norm": _p_norm,
    "lrn": _lrn,
}
