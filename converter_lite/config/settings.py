"""A checked configuration as typed values; its sections are the dataclasses of :mod:`converter_lite.config.sections`.

Objects are made by the functions of :mod:`converter_lite.config.parser` and changed with :func:`dataclasses.replace`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from converter_lite.config.sections.data import DataPreprocessParam
from converter_lite.config.sections.quantization import (
    CommonQuantParam,
    DynamicQuantParam,
    FullQuantParam,
    MixedBitWeightQuantParam,
    WeightQuantParam,
)
from converter_lite.config.sections.surroundings import AscendContext, Registry, TransformQuantParam


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
