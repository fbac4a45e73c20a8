"""What a ``.ms`` file can hold as integers: the policy for the planner, and how a weight is stored most economically.

Source: every row was run in the released 2.0.0 runtimes (x86-64 and ARM64). Integer kernels that are wrong or missing there are
not in the table (broadcast Add, Sigmoid, Resize, Softmax with parameters other than its own, ...). Add of equal shapes loads and
runs, but rounds its inputs so coarsely that files of a residual network differ from their own ONNX version (mean cosine 0.9980
with it, 0.9995 without): it stays float.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import onnx_ir as ir

from converter_lite.formats.mindspore_lite.encodings import WHOLE_BYTES
from converter_lite.graph import int_attribute, static_shape
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.quantization.storage import Storage
from converter_lite.targets.devices import INT8_ACTIVATION, SYMMETRIC_WEIGHT
from converter_lite.targets.operands import RECURRENT, is_recurrent, stored_axis, weight_of
from converter_lite.targets.policy import DEVICE_STEM
from converter_lite.targets.spec import TargetSpec

LARGEST_AVERAGE = 128
"""Elements up to which integer averages are right: both runtimes add values of up to 255 in 16 bits."""

_WRONG = "the integer {} of MindSpore Lite gives other numbers"

MS_CPU = TargetSpec(
    name="CPU",
    activation=INT8_ACTIVATION,
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv", "Gemm", "MatMul"}),
    quantize_bias=True,
    integer=frozenset({"Conv", "Gemm", "MatMul", "Concat", "Relu", "Clip"})
    | {"MaxPool", "AveragePool", "GlobalAveragePool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"},
    unused={
        "Add": "an Add of integers saves MindSpore Lite no time, and costs accuracy",
        "Mul": "a Mul of integers saves MindSpore Lite little, and costs accuracy",
        "Resize": _WRONG.format("Resize"),
        "Sigmoid": _WRONG.format("Sigmoid"),
        "Softmax": "MindSpore Lite takes much longer for a Softmax of integers",
    },
    averaged=LARGEST_AVERAGE,
    keeps_grid=frozenset({"AveragePool", "GlobalAveragePool"}),
    weight_only=frozenset({"ConvTranspose", "Gather", *RECURRENT}),
    stored_per_channel=frozenset({"Gather"}),
    shared_below=7,
    float_stem=DEVICE_STEM,
    note="integer kernels of the MindSpore Lite 2.0.0 runtimes",
)

GIVEN_GRIDS = replace(MS_CPU, keeps_grid=frozenset())
"""The same where a model says its grids."""

DYNAMIC_OPERATORS = frozenset({"MatMul", "Gemm"})
"""Operators whose activations can be quantized at run time; their weights are int8, symmetric."""

LEAST_SUMMANDS = 2
"""Elements that such a product adds up at least: elements that are all equal, as one is, have no range to make a scale of. The
x86 runtime's sums overflow for a single one from some 700 on, and one below 1e-5 is taken for 0."""


def needs_one_scale(node: ir.Node, params: QuantParams) -> bool:
    """Whether a convolution stays float for its scales: integer kernels of grouped filters, but depthwise ones, take one."""
    if node.op_type != "Conv" or not params.is_per_channel:
        return False
    group, shape = int_attribute(node, "group", 1), static_shape(weight_of(node)) or (0, 0)
    return group > 1 and not (shape[1] == 1 and shape[0] == group)


PARAMETER_BYTES = 20
"""Bytes of one more scale and zero point in a file."""

_WORTHWHILE_BITS = 4
"""With fewer extra bits, one scale per tensor loses more than the wider integers gain."""

_MAX_BITS = 16


def economical_spec(spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
    """A grid that takes no more bytes than ``spec`` per channel, and is finer where channels are tiny.

    A depthwise 3x3 filter has 9 weights per channel, and its parameters would take 20 bytes. One scale for the tensor
    with wider integers takes as many bytes as that and follows small channels better.

    Args:
        spec: Per-channel grid of a weight.
        channels: Number of its channels.
        elements: Number of its weights.
    """
    if spec.axis is None or channels == 0:
        return spec
    extra = int(8 * PARAMETER_BYTES * channels / elements)
    if extra < _WORTHWHILE_BITS or spec.bits == _MAX_BITS:
        return spec
    return QuantSpec(min(_MAX_BITS, spec.bits + extra))


@dataclass(frozen=True, slots=True)
class MsStorage(Storage):
    """Weights of any width; see :class:`~converter_lite.quantization.storage.Storage`.

    Less than 4 bits lose far more than they save (docs/decisions/0007); between 8 and 16 nothing is gained.

    Attributes:
        packed: Integers of any width are stored without gaps; otherwise grids are of whole bytes.
    """

    widths: tuple[int, ...] = (4, 5, 6, 7, 8, _MAX_BITS)
    measured: tuple[int, ...] = (4, 8)
    fits_steps: bool = False
    packed: bool = True

    def axis(self, node: ir.Node, weight: ir.Value) -> int | None:
        """Axis of scales per channel; weights of recurrent layers have one scale."""
        return None if is_recurrent(node) else stored_axis(node, weight)

    def least_bits(self, node: ir.Node, weight: ir.Value) -> int:
        """Eight bits with the one scale of a recurrent layer; less would lose far more than with a scale per gate's row."""
        del weight
        return 8 if is_recurrent(node) else 1

    def spec(self, spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
        """See :func:`economical_spec`; one bit has a grid of its own."""
        better = spec if spec.bits == 1 else economical_spec(spec, channels=channels, elements=elements)
        return better if self.packed or better.bits in WHOLE_BYTES else spec

    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """Packed bits and parameters; entropy coding comes on top where it pays."""
        shape = static_shape(weight) or (0,)
        axis, elements = self.axis(node, weight) if per_channel else None, math.prod(shape)
        channels = 1 if axis is None else shape[axis]
        spec = self.spec(QuantSpec(bits, axis=axis), channels=channels, elements=elements)
        return -(-elements * spec.bits // 8) + PARAMETER_BYTES * (channels if spec.axis is not None else 1)
