"""Vendor words of the configuration file: each enumeration value is the text that stands in the file."""

from __future__ import annotations

import enum


class QuantType(enum.Enum):
    """What is quantized."""

    WEIGHT_QUANT = "WEIGHT_QUANT"
    """Weights only; computation stays in float."""
    FULL_QUANT = "FULL_QUANT"
    """Weights and activations, with ranges from calibration data."""
    DYNAMIC_QUANT = "DYNAMIC_QUANT"
    """Weights now, activations while the model runs."""


class ActivationQuantMethod(enum.Enum):
    """How the range of an activation is found."""

    MAX_MIN = "MAX_MIN"
    KL = "KL"
    REMOVAL_OUTLIER = "REMOVAL_OUTLIER"
    PERCENTILE = "PERCENTILE"
    """Ours."""
    MSE = "MSE"
    """Ours."""


class TargetDevice(enum.Enum):
    """Device whose rules decide what may be quantized and how."""

    CPU = "CPU"
    NVGPU = "NVGPU"
    DSP = "DSP"
    ASCEND = "ASCEND"
    ARM = "ARM"
    """Ours."""
    X86 = "X86"
    """Ours."""


class DequantStrategy(enum.Enum):
    """When stored weights become float again."""

    ON_THE_FLY = "ON_THE_FLY"


class WeightQuantStrategy(enum.Enum):
    """How fixed-bit weights are rounded (``[weight_quant_param] quant_strategy``)."""

    MAX_MIN = "MAX_MIN"
    GPTQ = "GPTQ"


class Rounding(enum.Enum):
    """How real weights become integers. Ours."""

    NEAREST = "NEAREST"
    ADAPTIVE = "ADAPTIVE"


class DynamicQuantStrategy(enum.Enum):
    """Granularity of dynamic quantization (``[dynamic_quant_param] quant_strategy``)."""

    ALWC = "ALWC"
    """Activations per layer, weights per channel."""
    ACWL = "ACWL"
    """Activations per channel (row), weights per layer."""


class InputType(enum.Enum):
    """Kind of calibration files."""

    IMAGE = "IMAGE"
    BIN = "BIN"


class ImageFormat(enum.Enum):
    """Channel order of calibration pictures; decoding gives BGR."""

    RGB = "RGB"
    GRAY = "GRAY"
    BGR = "BGR"


class ResizeMethod(enum.Enum):
    """Interpolation of calibration pictures."""

    LINEAR = "LINEAR"
    NEAREST = "NEAREST"
    CUBIC = "CUBIC"


class Provider(enum.Enum):
    """Graph engine of an Ascend device."""

    GE = "ge"


class ExportPrecisionMode(enum.Enum):
    """Precision in which an already quantized input model is written."""

    QUANT = "QUANT"
