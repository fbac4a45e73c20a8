"""Ascend NPU: Conv and matrix products in int8, everything else in float.

Source: behaviour of the original for ASCEND (int8 activations, symmetric int8 weights, Conv2D and MatMul).
"""

from __future__ import annotations

from converter_lite.targets.cpu import INT8_ACTIVATION, SYMMETRIC_WEIGHT
from converter_lite.targets.spec import TargetSpec

ASCEND = TargetSpec(
    name="ASCEND",
    activation=INT8_ACTIVATION,
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv", "Gemm", "MatMul"}),
    quantize_bias=True,
    integer=frozenset({"Conv", "Gemm", "MatMul", "Relu", "Clip"}),
    float_output=frozenset({"Conv", "Gemm", "MatMul"}),
    note="Conv and MatMul only",
)
