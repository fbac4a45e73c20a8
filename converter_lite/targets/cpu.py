"""CPU (the default): what onnxruntime's CPU provider computes in integers.

Source: optimized graphs of onnxruntime 1.31 for one-operator Q/DQ models; operators that keep their float kernel between
DequantizeLinear and QuantizeLinear (Sub, Div, Tanh, HardSwish, PRelu, linear Resize, Pad, ConvTranspose, ReduceMean, ...)
would only become slower and are left out.

Activations are uint8 (the same 256 levels as the original's int8): on x86 onnxruntime turns int8 tensors with one reader
into uint8 and leaves those with several, and kernels between the two stay float (19 of 52 convolutions of a detector, 6 of
9 of a ResNet).
"""

from __future__ import annotations

from converter_lite.kernels.params import QuantSpec
from converter_lite.targets.policy import StemLimits
from converter_lite.targets.spec import TargetSpec

INT8_ACTIVATION = QuantSpec(bits=8, signed=True)
UINT8_ACTIVATION = QuantSpec(bits=8, signed=False)
SYMMETRIC_WEIGHT = QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True)

CPU = TargetSpec(
    name="CPU",
    activation=UINT8_ACTIVATION,
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv", "Gemm", "MatMul"}),
    quantize_bias=True,
    integer=frozenset(
        {"Conv", "Gemm", "MatMul", "Add", "Mul", "Concat", "Split", "Relu", "Clip", "LeakyRelu", "Sigmoid"}
    )
    | {"Softmax", "AveragePool", "GlobalAveragePool", "MaxPool", "ReduceMax", "Resize", "Reshape", "Transpose"}
    | {"Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Expand", "Tile", "DepthToSpace"},
    attributes={"Resize": {"mode": ("nearest",)}},
    weight_only=frozenset({"ConvTranspose", "Gather"}),
    float_output=frozenset({"Gemm", "MatMul"}),
    # measured with and without VNNI: 16 to 32 and 32 to 32 channels are as fast in float, 24 to 48 are slower with it
    float_stem=StemLimits(share=0.02, narrow=32),
    pairs_saturate=True,
    note="integer kernels of onnxruntime's CPU provider",
)
