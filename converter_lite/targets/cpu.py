"""CPU (the default): what onnxruntime's CPU provider computes in integers.

Source: optimized graphs of onnxruntime 1.31 for one-operator Q/DQ models; operators that keep their float kernel between
DequantizeLinear and QuantizeLinear (Sub, Div, Tanh, HardSwish, PRelu, linear Resize, Pad, ConvTranspose, ReduceMean, ...)
would only become slower and are left out.
"""

from __future__ import annotations

from converter_lite.quantization.params import QuantSpec
from converter_lite.targets.spec import TargetSpec

ACTIVATION = QuantSpec(bits=8, signed=True)
SYMMETRIC_WEIGHT = QuantSpec(bits=8, signed=True, symmetric=True, narrow_range=True)

CPU = TargetSpec(
    name="CPU",
    activation=ACTIVATION,
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
    weight_only=frozenset({"ConvTranspose"}),
    float_output=frozenset({"Gemm", "MatMul"}),
    note="integer kernels of onnxruntime's CPU provider",
)
