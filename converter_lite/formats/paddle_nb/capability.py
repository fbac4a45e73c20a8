"""Which nodes a Paddle-Lite target can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_nb.md, weight-only and full int8. Everything that makes a plan for a ``.nb`` file asks here.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle_nb.kernels import Target
from converter_lite.formats.paddle_nb.lowering import constant, dims, float_attribute, is_constant
from converter_lite.quantization.params import QuantSpec

WEIGHT_8 = QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True)
"""Grid of int8 weights and activations: zero point 0, -127 to 127."""

X86_SIGNED = QuantSpec(bits=7, signed=True, symmetric=True, narrow_range=True)
"""Grid of the signed operand of x86 kernels, whose 16-bit sums saturate beyond -63 to 63."""


@dataclass(frozen=True, slots=True)
class Capability:
    """What may be done with one node.

    Attributes:
        weight_axis: Channel axis of its weight (input 1; input 0 of a Gather); ``None`` without a usable weight.
        weight_reason: Why its weight cannot be stored as integers; empty when it can.
        integer_reason: Why it cannot compute with integers; empty when it can.
        integer_weight: Grid of its weight when it does.
        integer_activation: Grid of its data input (and of its output) when it does.
    """

    weight_axis: int | None
    weight_reason: str = ""
    integer_reason: str = ""
    integer_weight: QuantSpec = WEIGHT_8
    integer_activation: QuantSpec = WEIGHT_8

    @property
    def weight(self) -> bool:
        """Whether the weight may be stored as integers (mode WEIGHT)."""
        return not self.weight_reason

    @property
    def integer(self) -> bool:
        """Whether the node may compute with integers (mode INTEGER)."""
        return not self.integer_reason


def capability(node: ir.Node, target: str) -> Capability:
    """What ``target`` (``arm``, ``x86``, ``host``) can do with ``node``.

    Raises:
        ValueError: The target does not exist.
    """
    place = Target.parse(target)
    if node.domain not in ("", "ai.onnx"):
        return _neither("an operator of another domain")
    if node.op_type == "Conv":
        return _conv(node, place)
    if node.op_type == "ConvTranspose":
        return _conv_transpose(node, place)
    if node.op_type in ("Gemm", "MatMul"):
        return _matrix(node, place)
    if node.op_type == "Gather":
        return _table(node)
    return _neither("Paddle-Lite has no integer kernel for it")


def weight_of(node: ir.Node) -> ir.Value | None:
    """The value that holds a node's weight: the table of a Gather, else input 1."""
    index = 0 if node.op_type == "Gather" else 1
    return node.inputs[index] if index < len(node.inputs) else None


def _neither(reason: str) -> Capability:
    return Capability(None, reason, reason)


def _conv(node: ir.Node, target: Target) -> Capability:
    weight = constant(node.inputs[1])
    if weight is None:
        return _neither("its weight is not a constant")
    if weight.ndim not in (3, 4):
        return _neither("only convolutions over one or two dimensions can be written")
    reason = "a convolution over one dimension is written through two reshapes" if weight.ndim == 3 else ""
    spec = WEIGHT_8 if target is Target.ARM else X86_SIGNED
    if not reason and target is not Target.ARM:
        reason = _calib_tail(node)
    return Capability(0, "", reason, spec)


def _calib_tail(node: ir.Node) -> str:
    """The x86 conversion to int8 leaves elements unwritten unless their count fits."""
    sizes = dims(node.inputs[0])  # type: ignore[arg-type]
    if not sizes or min(sizes) < 1:
        return "x86 converts activations to int8 correctly only for certain sizes, and this one is not fixed"
    count = 1
    for size in sizes:
        count *= size
    return "" if count % 32 < 8 else "x86 converts activations of this size to int8 wrongly"


def _conv_transpose(node: ir.Node, target: Target) -> Capability:
    weight = constant(node.inputs[1])
    no_weight = "the runtime does not dequantize weights of a transposed convolution"
    if weight is None or weight.ndim != 4:
        return _neither("its weight is not a constant of four dimensions")
    if target is not Target.ARM:
        return Capability(1, no_weight, "x86 has no int8 kernel for a transposed convolution")
    groups = g.int_attribute(node, "group", 1)
    reason = "int8 transposed convolutions with groups are wrong in the runtime" if groups > 1 else ""
    return Capability(1, no_weight, reason)


def _matrix(node: ir.Node, target: Target) -> Capability:
    data, weight = node.inputs[0], node.inputs[1]
    if not is_constant(weight) or is_constant(data):
        return _neither("a product of two activations stays float: the runtime does not dequantize it")
    array = constant(weight)
    if array is None or array.ndim != 2:
        return _neither("its weight is not a matrix")
    if node.op_type == "Gemm":
        if g.int_attribute(node, "transA", 0) or float_attribute(node, "alpha", 1.0) <= 0:
            return _neither("Gemm with transA or a negative alpha")
        axis = 0 if g.int_attribute(node, "transB", 0) else 1
    else:
        axis = 1
    if target is Target.ARM:
        return Capability(axis)
    return Capability(axis, "", _fully_connected_limits(node, array.shape[axis]), WEIGHT_8, X86_SIGNED)


def _fully_connected_limits(node: ir.Node, columns: int) -> str:
    sizes = dims(node.inputs[0])  # type: ignore[arg-type]
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    if rows == columns:
        return "x86 takes one scale per column for one per row when both counts are equal"
    return _calib_tail(node)


def _table(node: ir.Node) -> Capability:
    table = constant(node.inputs[0])
    if table is None or table.ndim != 2 or g.int_attribute(node, "axis", 0) != 0 or table.dtype.kind != "f":
        return _neither("Paddle-Lite has no integer kernel for it")
    return Capability(1, "", "a table of rows has no integer kernel")
