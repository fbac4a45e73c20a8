"""What a weight takes in a kind of file, and which widths there are: what a search of widths has to know about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import onnx_ir as ir

from converter_lite.formats.onnx_qdq.materialize import NARROWEST
from converter_lite.quantization.forecast import stored_bytes
from converter_lite.quantization.params import QuantSpec

WIDTHS = (4, 8, 16)
"""Widths to choose from, ascending: the integer types that ONNX has since operator set 21. See docs/decisions/0007."""


class Storage(Protocol):
    """How a kind of file stores weights."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths to choose from, ascending; the last one counts as exact."""

    @property
    def measured(self) -> tuple[int, ...]:
        """Those whose loss is measured, from the first to the last but one; for those between it is interpolated."""

    def spec(self, spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
        """The grid that a weight with one scale per channel gets."""

    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """Estimated bytes of a weight with its parameters."""


@dataclass(frozen=True, slots=True)
class OnnxStorage:
    """Integer types of ONNX.

    Attributes:
        narrowest: Least width of stored integers; with 2, six bits are stored in two parts.
    """

    widths: tuple[int, ...] = WIDTHS
    measured: tuple[int, ...] = WIDTHS[:-1]
    narrowest: int = NARROWEST

    def spec(self, spec: QuantSpec, *, channels: int, elements: int) -> QuantSpec:
        """As it is."""
        return spec

    def nbytes(self, node: ir.Node, weight: ir.Value, bits: int, *, per_channel: bool) -> int:
        """See :func:`~converter_lite.quantization.forecast.stored_bytes`."""
        return stored_bytes(node, weight, bits, per_channel=per_channel, narrowest=self.narrowest)


ONNX_STORAGE = OnnxStorage()
"""Types of operator set 21."""

NEWER_ONNX_STORAGE = OnnxStorage(widths=(4, 6, 8, 16), narrowest=2)
"""Types of operator set 25."""
