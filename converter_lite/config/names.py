"""Vendor words of the configuration file: each enumeration value is the text in the file."""

from __future__ import annotations

import enum


class Word(enum.Enum):
    """A word with what it means, for the help of its key; words of ours are unknown to the original."""

    meaning: str
    is_ours: bool

    def __new__(cls, word: str, meaning: str = "", is_ours: bool = False) -> Word:
        """The word itself is the value."""
        made = object.__new__(cls)
        made._value_, made.meaning, made.is_ours = word, meaning, is_ours
        return made

    @classmethod
    def meanings(cls) -> str:
        """All of them as a sentence."""
        return "; ".join(f"{word.value}: {word.meaning}" for word in cls) + "."


class QuantType(enum.Enum):
    """What is quantized."""

    WEIGHT_QUANT = "WEIGHT_QUANT"
    """Weights only; computation stays in float."""
    FULL_QUANT = "FULL_QUANT"
    """Weights and activations, with ranges from calibration data."""
    DYNAMIC_QUANT = "DYNAMIC_QUANT"
    """Weights now, activations while the model runs."""


class ActivationQuantMethod(Word):
    """How the range of an activation is found."""

    MAX_MIN = "MAX_MIN", "smallest and largest value"
    KL = "KL", "least Kullback-Leibler divergence of the histograms"
    REMOVAL_OUTLIER = (
        "REMOVAL_OUTLIER",
        "MAX_MIN without the outermost 0.01 percent of each sample, averaged over samples",
    )
    PERCENTILE = "PERCENTILE", "fixed share of the histogram", True
    MSE = "MSE", "least squared error", True


class TargetDevice(Word):
    """Device whose rules decide what may be quantized and how."""

    CPU = "CPU", "", True
    NVGPU = "NVGPU"
    DSP = "DSP"
    ASCEND = "ASCEND"
    KIRIN = "KIRIN"
    ARM = "ARM", "", True
    X86 = "X86", "", True


class DequantStrategy(enum.Enum):
    """When stored weights become float again."""

    ON_THE_FLY = "ON_THE_FLY"


class BlockSize(Word):
    """Elements of a weight that share a scale. Ours."""

    SMALL = "32", "", True
    MIDDLE = "64", "", True
    LARGE = "128", "", True


class Width(Word):
    """Bits of an activation. Ours."""

    FOUR = "4", "", True
    EIGHT = "8", "", True


FULL_BITS = (4, 8)
"""Widths of weights where activations are integers, too."""

BLOCK_BITS = (4, 8)
"""Widths of weights with a scale per block."""


class WeightQuantStrategy(enum.Enum):
    """How fixed-bit weights are rounded (``[weight_quant_param] quant_strategy``)."""

    MAX_MIN = "MAX_MIN"
    GPTQ = "GPTQ"


class Rounding(Word):
    """How real weights become integers. Ours."""

    NEAREST = "NEAREST", "to the nearest integer"
    ADAPTIVE = "ADAPTIVE", "fitted to what calibration samples make each layer read"
    LEARNED = "LEARNED", "ADAPTIVE, then integers, steps and biases learn from the float network (the extra [learn])"

    @property
    def is_fitted(self) -> bool:
        """Whether it needs calibration samples."""
        return self is not Rounding.NEAREST


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
    FLOAT32 = "FLOAT32"


class Switch(enum.Enum):
    """A value of ``[registry] disable_fusion``."""

    ON = "on"
    OFF = "off"
