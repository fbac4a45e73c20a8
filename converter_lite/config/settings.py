"""A configuration as typed values: one dataclass per section, one attribute per key, named as in the file.

Defaults are defined only in the table of :mod:`converter_lite.config.schema`; objects are made by the functions of
:mod:`converter_lite.config.parser` and changed with :func:`dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from converter_lite.config.names import (
    ActivationQuantMethod,
    BlockSize,
    DequantStrategy,
    DynamicQuantStrategy,
    ExportPrecisionMode,
    ImageFormat,
    InputType,
    Provider,
    QuantType,
    ResizeMethod,
    Rounding,
    Switch,
    TargetDevice,
    WeightQuantStrategy,
)

DYNAMIC_DIM = -1
"""Marks a dimension of :attr:`InputShape.dims` that ``dynamic_dims`` fills."""


class InputShape(NamedTuple):
    """Shape of one model input; dynamic dimensions are ``DYNAMIC_DIM``."""

    name: str
    dims: tuple[int, ...]


class DimRange(NamedTuple):
    """Sizes ``low..high`` (both included) that a dynamic dimension may take."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class CommonQuantParam:
    """``[common_quant_param]``."""

    quant_type: QuantType | None
    bit_num: int
    min_quant_weight_size: int
    min_quant_weight_channel: int
    skip_quant_node: tuple[str, ...]
    target_cosine: float | None
    target_error: float | None
    max_float_nodes: int
    portable: bool
    debug_info_save_path: str | None
    enable_encode: bool
    workspace: str | None


@dataclass(frozen=True, slots=True)
class WeightQuantParam:
    """``[weight_quant_param]``."""

    dequant_strategy: DequantStrategy | None
    per_channel: bool
    bias_correction: bool
    quant_strategy: WeightQuantStrategy
    rounding: Rounding | None
    block_size: BlockSize | None
    symmetric: bool
    eight_bit_node: tuple[str, ...]
    accuracy_level: int | None
    update_mindir: bool
    max_segments: int


@dataclass(frozen=True, slots=True)
class MixedBitWeightQuantParam:
    """``[mixed_bit_weight_quant_param]``."""

    init_scale: float
    auto_tune: bool
    use_cv_data: bool
    max_iterations: int


@dataclass(frozen=True, slots=True)
class FullQuantParam:
    """``[full_quant_param]``; ``per_channel`` is ``None`` if the file does not set it: the target decides."""

    activation_quant_method: ActivationQuantMethod
    bias_correction: bool
    per_channel: bool | None
    target_device: TargetDevice
    equalization: bool
    rounding: Rounding | None
    smooth_alpha: float
    enable_smooth_shift: bool


@dataclass(frozen=True, slots=True)
class DataPreprocessParam:
    """``[data_preprocess_param]``; ``calibrate_path`` holds (input name, directory), directories as written."""

    calibrate_path: tuple[tuple[str, str], ...]
    calibrate_size: int | None
    input_type: InputType | None
    image_to_format: ImageFormat | None
    normalize_mean: tuple[float, ...]
    normalize_std: tuple[float, ...]
    resize_width: int | None
    resize_height: int | None
    resize_method: ResizeMethod | None
    center_crop_width: int | None
    center_crop_height: int | None


@dataclass(frozen=True, slots=True)
class DynamicQuantParam:
    """``[dynamic_quant_param]``."""

    quant_strategy: DynamicQuantStrategy
    smoothing: bool
    rounding: Rounding | None
    attention_operator: bool


@dataclass(frozen=True, slots=True)
class AscendContext:
    """``[ascend_context]``; each entry of ``dynamic_dims`` gives one range per dynamic dimension of ``input_shape``."""

    provider: Provider | None
    input_shape: tuple[InputShape, ...]
    dynamic_dims: tuple[tuple[DimRange, ...], ...]


@dataclass(frozen=True, slots=True)
class TransformQuantParam:
    """``[transform_quant_param]``."""

    export_precision_mode: ExportPrecisionMode


@dataclass(frozen=True, slots=True)
class Registry:
    """``[registry]``."""

    disable_fusion: Switch
    fusion_blacklists: tuple[str, ...]


class GivenKey(NamedTuple):
    """A key as it was written; ``line`` is 0 where there is no file."""

    section: str
    key: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class QuantizationConfig:
    """A checked configuration. Two are equal if their settings are, wherever and however they were written.

    Attributes:
        config_path: File as named by the caller; empty for values given through the Python interface.
        warnings: Sentences with their place, in file order.
        given_keys: What was written, in file order; defaults are not in it.
    """

    common_quant_param: CommonQuantParam
    weight_quant_param: WeightQuantParam
    mixed_bit_weight_quant_param: MixedBitWeightQuantParam
    full_quant_param: FullQuantParam
    data_preprocess_param: DataPreprocessParam
    dynamic_quant_param: DynamicQuantParam
    ascend_context: AscendContext
    transform_quant_param: TransformQuantParam
    registry: Registry
    config_path: str = field(default="", compare=False)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    given_keys: tuple[GivenKey, ...] = field(default=(), compare=False, repr=False)

    def given(self, section: str, key: str) -> bool:
        """Whether the key was written (and does not merely have its default)."""
        return self._find(section, key) is not None

    def location(self, section: str, key: str) -> str:
        """Place of a written key, ``full_quant.cfg:12 [full_quant_param] bias_correction``; else an empty string."""
        found = self._find(section, key)
        return place(self.config_path, found.line, section, key) if found else ""

    def as_mapping(self) -> dict[str, dict[str, str]]:
        """Section -> key -> text of everything that was written; ``config_from_mapping`` reads it back."""
        mapping: dict[str, dict[str, str]] = {}
        for found in self.given_keys:
            mapping.setdefault(found.section, {})[found.key] = found.text
        return mapping

    def _find(self, section: str, key: str) -> GivenKey | None:
        return next((found for found in self.given_keys if (found.section, found.key) == (section, key)), None)


def place(path: str, line: int, section: str, key: str) -> str:
    """``path:line [section] key``; parts that are empty (or line 0) are left out."""
    file = f"{path}:{line}" if path and line else path
    return " ".join(part for part in (file, f"[{section}]" if section else "", key) if part)
