"""NVIDIA GPU through TensorRT's explicit quantization.

Source: TensorRT developer guide, explicit quantization (symmetric int8, per-tensor activations, per-channel weights along the
output channels, biases in float, Q/DQ placed on the inputs of quantizable layers); platform table of the PaddleSlim FAQ
(mul, conv2d, pool2d, depthwise_conv2d, elementwise_add, leaky_relu); measured behaviour of the original for NVGPU.
"""

from __future__ import annotations

from converter_lite.kernels.params import QuantSpec
from converter_lite.targets.cpu import SYMMETRIC_WEIGHT
from converter_lite.targets.spec import TargetSpec

NVGPU = TargetSpec(
    name="NVGPU",
    activation=QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True),
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}),
    quantize_bias=False,
    integer=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "MaxPool", "AveragePool", "GlobalAveragePool"})
    | {"LeakyRelu", "Concat", "Relu", "Clip", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Slice"},
    float_output=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "LeakyRelu", "AveragePool"})
    | {"GlobalAveragePool"},
    float_addend=True,
    bias_correction=False,
    note="TensorRT explicit quantization",
)
