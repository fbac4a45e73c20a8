"""How a file format stores weights: the widths it has, and the bytes that a weight takes. A search of widths needs both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.kernels.params import QuantSpec
from converter_lite.quantization import forecast
from converter_lite.quantization.qdq.parts import GATHERED_BITS, NARROWEST, is_dequantized_whole
from converter_lite.targets.operands import stored_axis

WIDTHS = (4, 8, 16)
"""Widths to choose from, ascending: the integer types that ONNX has since operator set 21. See docs/decisions/0007."""


@dataclass(frozen=True, slots=True)
class Storage(ABC):
    """How a file format stores weights.

    Attributes:
        widths: Widths to choose from, ascending; the last one counts as exact.
        measured: Those whose loss is measured, from the first to the last but one; for those between it is interpolated.
        least_channels: A convolution weight is quantized only if it has more output channels than this, unless
            ``min_quant_weight_channel`` is set (the original's default).
        precise_share: Part of the float weights' bytes that an 8-bit file may spend on storing its smallest weights with
            16 bits: depthwise filters are few bytes and much error.
        fits_steps: Whether the steps of weights of less than 8 bits are fitted to samples together with their rounding.
    """

    widths: tuple[int, ...] = WIDTHS
    measured: tuple[int, ...] = WIDTHS[:-1]
    least_channels: int = 16
    precise_share: float = 0.0
    fits_steps: bool = True

    def refusal(self, node: ir.Node) -> str:
        """Why the format does not store the node's weight as integers; empty if it does."""
        del node
        return ""

    def axis(self, node: ir.Node, weight: ir.Value) -> int | None:
        """Axis of scales per channel."""
        return stored_axis(node, weight)

    def least_bits(self, node: ir.Node, weight: ir.Value) -> int:
        """The least width that a weight gets, whatever is asked for."""
        del node, weight
        return 1

    def spec(self, spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
        """The grid that a weight gets for which ``spec`` is the plain one; ``channels`` is 1 with one scale."""
        del channels, elements
        return spec

    @abstractmethod
    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """Estimated bytes of a weight with its parameters."""


@dataclass(frozen=True, slots=True)
class OnnxStorage(Storage):
    """Integer types of ONNX.

    Attributes:
        narrowest: Least width of stored integers; with 2, six bits are stored in two parts.
    """

    narrowest: int = NARROWEST

    def least_bits(self, node: ir.Node, weight: ir.Value) -> int:
        """A larger table that is only gathered takes a byte an element, whatever its grid: it gets the grid of a byte."""
        shape = g.static_shape(weight) or (0,)
        is_table = not is_dequantized_whole(shape) and all(user.op_type == "Gather" for user, _ in weight.uses())
        return GATHERED_BITS if node.op_type == "Gather" and is_table else 1

    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """See :func:`~converter_lite.quantization.forecast.stored_bytes`."""
        bits = max(bits, self.least_bits(node, weight))
        return forecast.stored_bytes(node, weight, bits, per_channel=per_channel, narrowest=self.narrowest)


ONNX_STORAGE = OnnxStorage()
"""Types of operator set 21."""

NEWER_ONNX_STORAGE = OnnxStorage(widths=(4, 6, 8, 16), narrowest=2)
"""Types of operator set 25."""
