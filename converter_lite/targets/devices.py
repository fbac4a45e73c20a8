"""What each device can compute in integers: tables, no code."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

from converter_lite.errors import TargetError
from converter_lite.kernels.params import QuantSpec
from converter_lite.targets.operands import RECURRENT
from converter_lite.targets.operators import OPERATORS
from converter_lite.targets.policy import DynamicCosts, KernelCosts, StemLimits
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
    | {"AveragePool", "GlobalAveragePool", "MaxPool", "ReduceMax", "Resize", "Reshape", "Transpose"}
    | {"Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Expand", "Tile", "DepthToSpace"},
    attributes={"Resize": {"mode": ("nearest",)}},
    weight_only=frozenset({"ConvTranspose", "Gather", *RECURRENT}),
    float_output=frozenset({"Gemm", "MatMul"}),
    # measured with and without VNNI: 16 to 32 and 32 to 32 channels are as fast in float, 24 to 48 are slower with it
    float_stem=StemLimits(share=0.02, narrow=32),
    costs=KernelCosts(
        call=0.5,
        saved=6.0,
        product=0.2,
        column=2.0,
        fetched=0.02,
        single=0.33,
        narrow=600,
        multiplied=1500,
        grouped=(3.0, 2.0),
        picture=0.3,
        window=4.5,
        series=0.1,
        volume=5.0,
        # 1.4 times what they take alone: tensors of a network come from further away, and a gain has to be one everywhere
        quantize=(0.4, 0.28),
        dequantize=(0.4, 0.18),
        reorder=(0.4, 0.14),
        activation=(1.0, 0.6),
        gate=(0.5, 0.3),
        floats=(0.3, 9.0),
        shortest=2,
        dynamic=DynamicCosts(call=2.0, saved=9.8, fetched=0.08, converted=0.35, added=(1.9, 0.3), rows=64),
    ),
    pairs_saturate=True,
    note="integer kernels of onnxruntime's CPU provider",
)
"""CPU (the default): what onnxruntime's CPU provider computes in integers.

Source: optimized graphs of onnxruntime 1.31 for one-operator Q/DQ models; operators that keep their float kernel between
DequantizeLinear and QuantizeLinear (Sub, Div, Tanh, HardSwish, PRelu, linear Resize, Pad, ConvTranspose, ReduceMean, ...)
would only become slower and are left out; so would Softmax, whose integer kernel takes six times as long as the float one.
Costs: fitted to whole runs of chains of six layers and to the profiles of twelve networks' layers, the less favourable of the
figures with and without VNNI (fastest of twelve runs, one thread; those of dynamic products with onnxruntime 1.32).

Activations are uint8 (the same 256 levels as the original's int8): on x86 onnxruntime turns int8 tensors with one reader
into uint8 and leaves those with several, and kernels between the two stay float (19 of 52 convolutions of a detector, 6 of
9 of a ResNet)."""

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
"""NVIDIA GPU through TensorRT's explicit quantization.

Source: TensorRT developer guide, explicit quantization (symmetric int8, per-tensor activations, per-channel weights along the
output channels, biases in float, Q/DQ placed on the inputs of quantizable layers); platform table of the PaddleSlim FAQ
(mul, conv2d, pool2d, depthwise_conv2d, elementwise_add, leaky_relu); measured behaviour of the original for NVGPU."""

DSP = TargetSpec(
    name="DSP",
    activation=QuantSpec(bits=8, signed=False),
    weight=SYMMETRIC_WEIGHT,
    per_channel=False,
    per_channel_operators=frozenset({"Conv", "ConvTranspose"}),
    quantize_bias=True,
    integer=frozenset(OPERATORS),
    only_between_weighted=False,
    float_small_numbers=False,
    note="every operator of the catalogue",
)
"""DSP: every float node in integers, asymmetric uint8 activations, per-tensor weights unless the file asks otherwise.

Source: behaviour of the original for DSP (every node quantized; only Conv and ConvTranspose per channel); uint8 is the
convention of Q/DQ models for DSP execution providers."""

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
"""Ascend NPU: Conv and matrix products in int8, everything else in float.

Source: behaviour of the original for ASCEND (int8 activations, symmetric int8 weights, Conv2D and MatMul)."""

KIRIN = TargetSpec(
    name="KIRIN",
    activation=UINT8_ACTIVATION,
    weight=SYMMETRIC_WEIGHT,
    per_channel=True,
    per_channel_operators=frozenset({"Conv"}),
    quantize_bias=True,
    integer=frozenset({"Conv", "Gemm", "MatMul", "Relu", "Clip"}),
    float_output=frozenset({"Conv", "Gemm", "MatMul"}),
    note="Conv and fully connected layers only",
)
"""Kirin NPU: convolutions and fully connected layers in integers, everything else in float.

Source: behaviour of the original for KIRIN (uint8 activations, int8 weights, per channel for Conv2D; no cast behind a layer)."""

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
"""ARM CPUs (Paddle-Lite's platform table: conv2d, depthwise_conv2d, mul; channel-wise abs-max weights)."""

X86 = replace(
    ARM,
    name="X86",
    per_channel=False,
    per_channel_operators=frozenset(),
    pairs_saturate=True,
    note="PaddleSlim FAQ, x86 row",
)
"""x86 through oneDNN (PaddleSlim's table: conv2d, depthwise_conv2d, mul, matmul; per-tensor abs-max weights)."""

TARGETS: dict[str, TargetSpec] = {spec.name: spec for spec in (CPU, NVGPU, DSP, ASCEND, KIRIN, ARM, X86)}


def target_spec(name: str) -> TargetSpec:
    """The table of a device.

    Raises:
        TargetError: No such device; the nearest names are listed.
    """
    if name in TARGETS:
        return TARGETS[name]
    near = get_close_matches(name, TARGETS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(TARGETS)}"
    raise TargetError(f"unknown target device {name!r}", hint=hint)
