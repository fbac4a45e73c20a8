"""Rules between keys: what must come together, what contradicts, what has no effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from converter_lite.config.keys import DYNAMIC, FULL, WEIGHT, Condition, Section, Use
from converter_lite.config.names import (
    BLOCK_BITS,
    FULL_BITS,
    ImageFormat,
    InputType,
    QuantType,
    Rounding,
    TargetDevice,
    WeightQuantStrategy,
)
from converter_lite.config.schema import SECTIONS
from converter_lite.config.settings import QuantizationConfig
from converter_lite.config.shapes import DYNAMIC_DIM
from converter_lite.config.values import MIN_FLOAT32

Slot = tuple[str, str]
"""Section and key."""

QUANT_TYPE: Slot = ("common_quant_param", "quant_type")
_BIT_NUM: Slot = ("common_quant_param", "bit_num")
_ENABLE_ENCODE: Slot = ("common_quant_param", "enable_encode")
_TARGET: Slot = ("full_quant_param", "target_device")
_DEQUANT: Slot = ("weight_quant_param", "dequant_strategy")
_STRATEGY: Slot = ("weight_quant_param", "quant_strategy")
_ROUNDING: Slot = ("weight_quant_param", "rounding")
_BLOCK_SIZE: Slot = ("weight_quant_param", "block_size")
_PER_CHANNEL: Slot = ("weight_quant_param", "per_channel")
_SYMMETRIC: Slot = ("weight_quant_param", "symmetric")
_ACCURACY_LEVEL: Slot = ("weight_quant_param", "accuracy_level")
_DYNAMIC_ROUNDING: Slot = ("dynamic_quant_param", "rounding")
_AUTO_TUNE: Slot = ("mixed_bit_weight_quant_param", "auto_tune")
_INIT_SCALE: Slot = ("mixed_bit_weight_quant_param", "init_scale")
_MAX_ITERATIONS: Slot = ("mixed_bit_weight_quant_param", "max_iterations")
_WIDTHS = (_BIT_NUM, _AUTO_TUNE, _INIT_SCALE)
_FLOAT_LEVEL = 1
_DATA = "data_preprocess_param"
NO_DATA_TO_FIT = f"fits the rounding to calibration data, and there are none: add [{_DATA}] or remove the key"
_CALIBRATION = ("calibrate_path", "calibrate_size", "input_type")


@dataclass(frozen=True, slots=True)
class Facts:
    """The content of a file, for the rules.

    Attributes:
        values: Typed value of every key, defaults where nothing (or nothing legal) was written.
        given: Keys that were written, in any spelling that could be recognized.
        unreliable: Keys whose value is unknown since they, or their value, were misspelled.
        sections: Names of the sections that were opened, misspelled ones too.
        external_data: The caller brings the calibration samples itself.
    """

    values: Mapping[Slot, Any]
    given: frozenset[Slot]
    unreliable: frozenset[Slot]
    sections: tuple[str, ...]
    external_data: bool

    def known(self, *slots: Slot) -> bool:
        """Whether the values of these keys are reliable."""
        return self.unreliable.isdisjoint(slots)

    def data(self, key: str) -> Any:
        """Value of a key of the data section."""
        return self.values[_DATA, key]

    def data_known(self, *keys: str) -> bool:
        """Whether these keys of the data section were written, and recognized."""
        slots = [(_DATA, key) for key in keys]
        return self.given.issuperset(slots) and self.known(*slots)


Remark = tuple[str, str, str]
"""Section, key (or an empty string), message."""


def find_errors(facts: Facts) -> list[Remark]:
    """Every contradiction between keys."""
    return [remark for rule in _ERROR_RULES for remark in rule(facts)]


def find_warnings(facts: Facts) -> list[Remark]:
    """Every key or section that has no effect."""
    return [
        *(remark for section in SECTIONS for remark in _without_effect(facts, section)),
        *_scale_beside_search(facts),
    ]


def without_effect_on(config: QuantizationConfig, formats: Sequence[str]) -> Iterator[str]:
    """A sentence for every key that was written and has an effect on none of the output formats."""
    for section in SECTIONS:
        for key in section.keys:
            if key.formats and config.given(section.name, key.name) and not set(key.formats) & set(formats):
                where = config.location(section.name, key.name) or f"[{section.name}] {key.name}"
                yield f"{where}: has no effect on {' and '.join(formats)} files, only on {' and '.join(key.formats)}"


def _quant_type_is_given(facts: Facts) -> Iterator[Remark]:
    """Sections whose keys are all commented out ask for nothing; ON_THE_FLY alone, for a model that is quantized already."""
    used = {section.name for section in SECTIONS if section.is_quantization} & {
        slot[0] for slot in facts.given - {_DEQUANT}
    }
    if used and QUANT_TYPE not in facts.given:
        words = ", ".join(word.value for word in QuantType)
        opened = [name for name in facts.sections if name in {QUANT_TYPE[0], *used}]
        opened.sort(key=lambda name: name != QUANT_TYPE[0])
        if opened:  # else all keys stand outside of their sections, which is an error already
            yield opened[0], "", f"quant_type is missing: set it in [common_quant_param] to one of {words}"


def _partners_are_given(facts: Facts) -> Iterator[Remark]:
    for section in SECTIONS:
        for group in section.together:
            yield from _group_is_complete(facts, section.name, group)
    if facts.values[QUANT_TYPE] is not FULL and not (
        facts.external_data and (_DATA, _CALIBRATION[0]) not in facts.given
    ):
        yield from _group_is_complete(facts, _DATA, _CALIBRATION)
    if ("ascend_context", "dynamic_dims") in facts.given:
        yield from _group_is_complete(facts, "ascend_context", ("dynamic_dims", "input_shape"))


def _group_is_complete(facts: Facts, section: str, group: tuple[str, ...]) -> Iterator[Remark]:
    given = [key for key in group if (section, key) in facts.given]
    missing = [key for key in group if key not in given]
    if given and missing:
        yield section, given[0], f"has no effect without {_join(missing)}: add what is missing, or remove it"


def _calibration_is_given(facts: Facts) -> Iterator[Remark]:
    if facts.values[QUANT_TYPE] is not FULL or facts.external_data:
        return
    missing = [key for key in _CALIBRATION if (_DATA, key) not in facts.given]
    if missing:
        where, key = (_DATA, "") if _DATA in facts.sections else QUANT_TYPE
        yield where, key, f"FULL_QUANT needs calibration data: {_join(missing)} missing in [{_DATA}]"


def _bits_fit(facts: Facts) -> Iterator[Remark]:
    if not facts.known(QUANT_TYPE, _BIT_NUM):
        return
    quant_type, bits = facts.values[QUANT_TYPE], facts.values[_BIT_NUM]
    if quant_type is WEIGHT:
        if facts.known(_ENABLE_ENCODE) and not facts.values[_ENABLE_ENCODE] and bits not in (8, 16):
            yield *_ENABLE_ENCODE, f"can be false with bit_num 8 or 16 only, not {bits}"
        if facts.known(_DEQUANT) and facts.values[_DEQUANT] is not None and bits == 0:
            yield *_DEQUANT, "needs a fixed number of bits: set bit_num to 1..16"
    elif quant_type is FULL and bits not in FULL_BITS:
        yield *_BIT_NUM, f"must be 8 (or 4, for ONNX files) with {quant_type.value}, not {bits}"
    elif quant_type is DYNAMIC and bits != 8:
        yield *_BIT_NUM, f"must be 8 with {quant_type.value}, not {bits}"


def _dynamic_rounding_fits(facts: Facts) -> Iterator[Remark]:
    if facts.values[QUANT_TYPE] is not DYNAMIC or not facts.known(_DYNAMIC_ROUNDING):
        return
    has_data = facts.external_data or (_DATA, _CALIBRATION[0]) in facts.given
    if _is_fitted(facts.values[_DYNAMIC_ROUNDING]) and not has_data:
        yield *_DYNAMIC_ROUNDING, NO_DATA_TO_FIT


def _is_fitted(rounding: object) -> bool:
    return isinstance(rounding, Rounding) and rounding.is_fitted


def _rounding_fits(facts: Facts) -> Iterator[Remark]:
    if facts.values[QUANT_TYPE] is not WEIGHT or not facts.known(_STRATEGY, _ROUNDING):
        return
    is_gptq = facts.values[_STRATEGY] is WeightQuantStrategy.GPTQ
    rounding = facts.values[_ROUNDING]
    has_data = facts.external_data or (_DATA, _CALIBRATION[0]) in facts.given
    if is_gptq and rounding is Rounding.NEAREST:
        yield *_ROUNDING, "contradicts quant_strategy=GPTQ, which fits the rounding to data: remove one of the two"
    elif (is_gptq or _is_fitted(rounding)) and not has_data:
        yield *(_STRATEGY if is_gptq else _ROUNDING), NO_DATA_TO_FIT


def _blocks_fit(facts: Facts) -> Iterator[Remark]:
    if _BLOCK_SIZE not in facts.given or not facts.known(QUANT_TYPE, _BIT_NUM, _BLOCK_SIZE):
        return
    quant_type, bits = facts.values[QUANT_TYPE], facts.values[_BIT_NUM]
    if quant_type is not WEIGHT:
        if quant_type is not None:
            yield (
                *_BLOCK_SIZE,
                f"needs quant_type={WEIGHT.value}: no kernel of {quant_type.value} takes a scale per block",
            )
        return
    if bits not in BLOCK_BITS:
        yield *_BLOCK_SIZE, f"needs bit_num {' or '.join(map(str, BLOCK_BITS))}, not {bits}"
    if facts.known(_PER_CHANNEL) and not facts.values[_PER_CHANNEL]:
        yield *_PER_CHANNEL, "contradicts block_size, which gives every block a scale: remove one of the two"
    if facts.known(_SYMMETRIC, _ACCURACY_LEVEL) and not facts.values[_SYMMETRIC] and bits == BLOCK_BITS[0]:
        level = facts.values[_ACCURACY_LEVEL]
        if level is not None and level != _FLOAT_LEVEL:
            yield (
                *_ACCURACY_LEVEL,
                f"must be {_FLOAT_LEVEL} with symmetric=false and {bits} bits: kernels that round activations are reported to be "
                "wrong there on processors with AVX2 only (onnxruntime issue 29853)",
            )


def _normalization_fits(facts: Facts) -> Iterator[Remark]:
    if facts.data_known("normalize_std") and any(abs(std) < MIN_FLOAT32 for std in facts.data("normalize_std")):
        yield _DATA, "normalize_std", "must not be 0: pixels are divided by it"
    if not facts.data_known("normalize_mean", "normalize_std"):
        return
    mean, std = facts.data("normalize_mean"), facts.data("normalize_std")
    if len(mean) != len(std):
        yield _DATA, "normalize_std", f"must have as many numbers as normalize_mean: {len(mean)}, not {len(std)}"
    elif facts.known((_DATA, "image_to_format")) and facts.data("input_type") is InputType.IMAGE:
        image_format = facts.data("image_to_format") or ImageFormat.BGR
        channels = 1 if image_format is ImageFormat.GRAY else 3
        if len(mean) != channels:
            message = f"must have one number per channel of {image_format.value}: {channels}, not {len(mean)}"
            yield _DATA, "normalize_mean", message


def _crop_fits(facts: Facts) -> Iterator[Remark]:
    for side in ("width", "height"):
        crop, size = f"center_crop_{side}", f"resize_{side}"
        if facts.data_known(crop, size) and facts.data(crop) > facts.data(size):
            yield _DATA, crop, f"must not be larger than {size}={facts.data(size)}: the crop comes after resizing"


def _dynamic_dims_fit(facts: Facts) -> Iterator[Remark]:
    slots = [("ascend_context", key) for key in ("input_shape", "dynamic_dims")]
    if not (facts.given.issuperset(slots) and facts.known(*slots)):
        return
    shapes, ranges = (facts.values[slot] for slot in slots)
    free = sum(shape.dims.count(DYNAMIC_DIM) for shape in shapes)
    if len(ranges[0]) != free:
        message = f"must have one size per -1 of input_shape in each bracket: {free}, not {len(ranges[0])}"
        yield "ascend_context", "dynamic_dims", message


_ERROR_RULES: tuple[Callable[[Facts], Iterator[Remark]], ...] = (
    _quant_type_is_given,
    _partners_are_given,
    _calibration_is_given,
    _bits_fit,
    _rounding_fits,
    _blocks_fit,
    _dynamic_rounding_fits,
    _normalization_fits,
    _crop_fits,
    _dynamic_dims_fit,
)


def _without_effect(facts: Facts, section: Section) -> Iterator[Remark]:
    if section.name not in {slot[0] for slot in facts.given}:
        return
    reason = _why_unused(facts, section.uses)
    if reason:
        yield section.name, "", f"the section has no effect {reason}"
        return
    used = {_MAX_ITERATIONS} if _searches_widths(facts) else set()
    for key in section.keys:
        if (section.name, key.name) in facts.given - used:
            reason = f"here: {key.inert}" if key.inert else _why_unused(facts, section.uses_of(key))
            if reason:
                yield section.name, key.name, f"has no effect {reason}"


def _why_unused(facts: Facts, uses: tuple[Use, ...]) -> str:
    """Empty if one of ``uses`` applies, or none is named; else the rest of a sentence."""
    if not uses:
        return ""
    quant_type = facts.values[QUANT_TYPE]
    if quant_type is None:
        return "without quantization"
    of_type = [use for use in uses if use.quant_type is quant_type]
    if not of_type:
        return f"with quant_type={quant_type.value}"
    target: TargetDevice = facts.values[_TARGET]
    of_target = [use for use in of_type if not use.targets or target in use.targets]
    if not of_target:
        return f"with target_device={target.value}"
    if any(_holds(facts, use.when) for use in of_target):
        return ""
    return f"unless {' or '.join(' and '.join(map(str, use.when)) for use in of_target)}"


def _scale_beside_search(facts: Facts) -> Iterator[Remark]:
    """Widths that are searched for a cosine do not depend on the error that a layer may have."""
    if _INIT_SCALE in facts.given and facts.known(*_WIDTHS) and _searches_widths(facts):
        yield *_INIT_SCALE, "has no effect with auto_tune=true: widths are searched for a cosine"


def _searches_widths(facts: Facts) -> bool:
    """Whether widths are searched: on request, or where there is data and ``init_scale`` is not written."""
    if facts.values[QUANT_TYPE] is not WEIGHT or facts.values[_BIT_NUM] != 0:
        return False
    has_data = facts.external_data or (_DATA, _CALIBRATION[0]) in facts.given
    return bool(facts.values[_AUTO_TUNE]) or (has_data and _INIT_SCALE not in facts.given)


def _holds(facts: Facts, conditions: tuple[Condition, ...]) -> bool:
    return all(condition.holds(facts.values[condition.section, condition.key]) for condition in conditions)


def _join(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
