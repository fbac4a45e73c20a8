"""Options for a ``.ms`` file, and the problems that are reported."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Compatibility(enum.Enum):
    """Which runtimes must load the file as it is."""

    DEVICE = "device"
    """Runtimes built for devices, which dequantize every weight: the smallest standard encoding of each tensor."""
    WHEEL = "wheel"
    """Also the released desktop packages, which refuse packed weights of K×K convolutions and matrix products."""


@dataclass(frozen=True, slots=True)
class MsOptions:
    """Choices of the writer.

    Attributes:
        compatibility: See :class:`Compatibility`.
        encode: Store weights in the smallest encoding; otherwise raw bytes (8 and 16 bits) or packed bits.
        corrections: Store the variance and mean corrections of per-channel weights, as the original converter does.
        nchw_inputs: Keep 4-D graph inputs in NCHW (a Transpose follows) instead of making them NHWC.
        nhwc_outputs: Give 4-D graph outputs in NHWC instead of the order of the ONNX model.
        float16: Store float32 constants as float16.
    """

    compatibility: Compatibility = Compatibility.DEVICE
    encode: bool = True
    corrections: bool = False
    nchw_inputs: bool = False
    nhwc_outputs: bool = False
    float16: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that a ``.ms`` file cannot express."""

    node: str
    op_type: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node} ({self.op_type}): {self.reason}"
