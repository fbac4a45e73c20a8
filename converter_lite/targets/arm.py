"""ARM CPUs (Paddle-Lite's platform table: conv2d, depthwise_conv2d, mul; channel-wise abs-max weights)."""

from __future__ import annotations

from converter_lite.kernels.params import QuantSpec
from converter_lite.targets.cpu import SYMMETRIC_WEIGHT
from converter_lite.targets.spec import TargetSpec

ARM = TargetSpec(
    name="ARM",
    activation=QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True),
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv", "Gemm", "MatMul"}),
    quantize_bias=True,
    integer=frozenset({"Conv", "Gemm", "MatMul", "Relu", "Clip"}),
    weight_only=frozenset({"Gather"}),
    note="PaddleSlim FAQ, ARM row",
)
