"""Device-independent rules for integer computation: a node's data inputs, and why it has no integer form."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.targets.operands import FLOAT_TYPES, TRANSFORMS, bias_of, is_transform, operator, weight_of
from converter_lite.targets.operators import Role


def data_inputs(node: ir.Node) -> list[ir.Value]:
    """Float inputs that an integer kernel reads as activations (constants among them included)."""
    entry = operator(node)
    if entry is None:
        return []
    if entry.role is Role.WEIGHTED and weight_of(node) is None:
        positions: tuple[int, ...] = (0, 1)
    else:
        positions = entry.data or tuple(range(len(node.inputs)))
    return [value for i in positions if i < len(node.inputs) and (value := node.inputs[i]) is not None]


def refusal(node: ir.Node) -> str:
    """Why no device can compute this node in integers, whatever its kernels; empty if nothing rules it out."""
    entry = operator(node)
    if entry is None:
        return f"{node.op_type} has no integer form"
    if any(output.dtype not in FLOAT_TYPES for output in node.outputs[:1]):
        return "does not compute on float32"
    if all(g.is_constant(value) for value in data_inputs(node)):
        return "has no activation input"
    if any(value.dtype not in FLOAT_TYPES for value in data_inputs(node)):
        return "does not compute on float32"
    if entry.role is Role.ARITHMETIC and any(map(_is_infinite, data_inputs(node))):
        return "no grid holds its infinite constant"
    return _weighted_refusal(node) if entry.role is Role.WEIGHTED else ""


def _is_infinite(value: ir.Value) -> bool:
    """Whether a constant has infinite numbers; those that are none are an error, which calibration names."""
    array = g.constant(value)
    return array is not None and bool(np.isinf(array).any()) and not bool(np.isnan(array).any())


def _weighted_refusal(node: ir.Node) -> str:
    if is_transform(node):
        return TRANSFORMS
    if node.op_type != "MatMul" and weight_of(node) is None:
        return "its weight is not constant"
    bias = bias_of(node)
    if bias is not None and not g.is_constant(bias):
        return "its bias is not constant"
    if node.op_type == "Gemm":
        attributes = node.attributes
        factors = [float(attributes[a].as_float()) for a in ("alpha", "beta") if a in attributes]
        if g.int_attribute(node, "transA", 0) or any(f != 1.0 for f in factors):
            return "Gemm with transA, alpha or beta has no integer form"
        if bias is not None and not _is_row(bias, node.outputs[0]):
            return "its bias is not one value per output channel"
    return ""


def _is_row(bias: ir.Value, output: ir.Value) -> bool:
    shape, out = g.static_shape(bias), output.shape
    channels = out[-1] if out is not None and len(out) else None
    return shape is not None and len(shape) > 0 and shape[-1] == channels and all(d == 1 for d in shape[:-1])
