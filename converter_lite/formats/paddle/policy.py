"""Which nodes a Paddle-Lite target can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_nb.md, weight-only and full int8. Everything that makes a plan for a ``.nb`` file uses this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.exporter.lowering import dims
from converter_lite.formats.paddle.kernels import Target
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.storage import Storage
from converter_lite.targets.operands import is_recurrent, missing_weight, stored_weights
from converter_lite.targets.operators import WEIGHTED
from converter_lite.targets.policy import DEVICE_STEM, Capability, KernelCosts, StemLimits

WEIGHT_8 = QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True)
"""Grid of int8 weights and activations: zero point 0, -127 to 127."""

X86_SIGNED = QuantSpec(bits=7, signed=True, symmetric=True, narrow_range=True)
"""Grid of the signed operand of x86 kernels, whose 16-bit sums saturate beyond -63 to 63."""

WEIGHT_BITS = (8, 16)
"""Widths of integer weights that the runtime dequantizes."""

MIN_ELEMENTS = 64
"""Smaller weights stay float: their scales and attributes cost what the integers save."""


@dataclass(frozen=True, slots=True)
class PaddlePolicy:
    """What a Paddle-Lite target can do; a :class:`~converter_lite.targets.policy.Policy`.

    Attributes:
        name: ``arm``, ``x86`` or ``host``.
        sparse: Names of nodes whose weights are stored without their zeros, as floats.
    """

    name: str
    sparse: frozenset[str] = frozenset()
    activation: QuantSpec = WEIGHT_8
    per_channel: bool = True
    quantize_bias: bool = False
    bias_correction: bool = True
    float_output: frozenset[str] = frozenset(WEIGHTED)
    float_addend: bool = False
    keeps_grid: frozenset[str] = frozenset()
    only_between_weighted: bool = False
    integer_ends: frozenset[str] = frozenset()
    grid_ends: frozenset[str] = frozenset()
    float_small_numbers: bool = True
    float_stem: StemLimits = DEVICE_STEM
    costs: KernelCosts | None = None
    pairs_saturate: bool = False

    def capability(self, node: ir.Node) -> Capability:
        """What the target can do with a node.

        Raises:
            ValueError: The target does not exist.
        """
        place = Target.parse(self.name)
        if node.name in self.sparse:
            return _neither("its weight is sparse")
        if node.domain:
            return _neither("an operator of another domain")
        handler = {
            "Conv": _conv,
            "ConvTranspose": _conv_transpose,
            "Gemm": _matrix,
            "MatMul": _matrix,
            "Gather": _table,
            "LSTM": _recurrent,
            "GRU": _recurrent,
        }
        if node.op_type not in handler:
            return _neither("Paddle-Lite has no integer kernel for it")
        weights = stored_weights(node)
        if len(weights) < 1 + is_recurrent(node):
            return _neither(missing_weight(node))
        return handler[node.op_type](node, g.static_shape(weights[0]) or (), place)

    def computed(self, producer: ir.Node, grid: QuantParams) -> QuantParams:
        """What the file says."""
        del producer
        return grid


@dataclass(frozen=True, slots=True)
class PaddleStorage(Storage):
    """Weights of 8 or 16 bits; see :class:`~converter_lite.quantization.storage.Storage`.

    Attributes:
        policy: The target.
    """

    widths: tuple[int, ...] = WEIGHT_BITS
    measured: tuple[int, ...] = WEIGHT_BITS[:-1]
    least_channels: int = 0
    precise_share: float = 0.01
    policy: PaddlePolicy = PaddlePolicy("arm")

    def refusal(self, node: ir.Node) -> str:
        """Weights that the runtime does not dequantize stay float, and those that would not get smaller."""
        sizes = [math.prod(g.static_shape(weight) or ()) for weight in stored_weights(node)]
        if sizes and min(sizes) < MIN_ELEMENTS:
            return f"its weight has fewer than {MIN_ELEMENTS} elements"
        return self.policy.capability(node).stored

    def axis(self, node: ir.Node, weight: ir.Value) -> int | None:
        """The runtime's: columns of a table, not its rows."""
        del weight
        return self.policy.capability(node).weight.axis

    def spec(self, spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
        """No zero points, and no lowest integer."""
        del channels, elements
        return replace(spec, symmetric=True, narrow_range=True)

    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """Integers, and one scale per channel in any case."""
        del per_channel
        shape, axis = g.static_shape(weight) or (0,), self.axis(node, weight)
        return math.prod(shape) * bits // 8 + 4 * (1 if axis is None else shape[axis])


def _neither(reason: str) -> Capability:
    return Capability(reason, reason, WEIGHT_8, WEIGHT_8)


def _able(
    axis: int, integer: str = "", stored: str = "", weight: QuantSpec = WEIGHT_8, data: QuantSpec = WEIGHT_8
) -> Capability:
    """A node whose weight has scales along ``axis``; integer kernels do not limit weights that are only stored."""
    return Capability(integer, stored, replace(WEIGHT_8 if integer else weight, axis=axis), data)


def _recurrent(node: ir.Node, shape: tuple[int, ...], target: Target) -> Capability:
    del node, shape, target
    return _able(2, "Paddle-Lite has no integer kernel for it")


def _conv(node: ir.Node, shape: tuple[int, ...], target: Target) -> Capability:
    if len(shape) not in (3, 4):
        return _neither("only convolutions over one or two dimensions can be written")
    reason = "a convolution over one dimension is written through two reshapes" if len(shape) == 3 else ""
    spec = WEIGHT_8 if target is Target.ARM else X86_SIGNED
    if not reason and target is not Target.ARM:
        reason = _calib_tail(node)
    return _able(0, reason, weight=spec)


def _calib_tail(node: ir.Node) -> str:
    """The x86 conversion to int8 leaves elements unwritten unless their count fits."""
    sizes = dims(node.inputs[0])
    if not sizes or min(sizes) < 1:
        return "x86 converts activations to int8 correctly only for certain sizes, and this one is not fixed"
    return "" if math.prod(sizes) % 32 < 8 else "x86 converts activations of this size to int8 wrongly"


def _conv_transpose(node: ir.Node, shape: tuple[int, ...], target: Target) -> Capability:
    no_weight = "the runtime does not dequantize weights of a transposed convolution"
    if len(shape) != 4:
        return _neither("its weight does not have four dimensions")
    if target is not Target.ARM:
        return _able(1, "x86 has no int8 kernel for a transposed convolution", no_weight)
    groups = g.int_attribute(node, "group", 1)
    return _able(
        1, "int8 transposed convolutions with groups are wrong in the runtime" if groups > 1 else "", no_weight
    )


def _matrix(node: ir.Node, shape: tuple[int, ...], target: Target) -> Capability:
    if g.is_constant(node.inputs[0]):
        return _neither("a product of two constants stays float")
    if len(shape) != 2:
        return _neither("its weight is not a matrix")
    if node.op_type == "Gemm":
        if g.int_attribute(node, "transA", 0) or g.float_attribute(node, "alpha", 1.0) <= 0:
            return _neither("Gemm with transA or a negative alpha")
        axis = 0 if g.int_attribute(node, "transB", 0) else 1
    else:
        axis = 1
    if target is Target.ARM:
        return _able(axis)
    return _able(axis, _fully_connected_limits(node, shape[axis]), data=X86_SIGNED)


def _fully_connected_limits(node: ir.Node, columns: int) -> str:
    sizes = dims(node.inputs[0])
    if math.prod(sizes[:-1]) == columns:
        return "x86 takes one scale per column for one per row when both counts are equal"
    return _calib_tail(node)


def _table(node: ir.Node, shape: tuple[int, ...], target: Target) -> Capability:
    del target
    if len(shape) != 2 or g.int_attribute(node, "axis", 0) != 0:
        return _neither("Paddle-Lite has no integer kernel for it")
    return _able(1, "a table of rows has no integer kernel")
