"""Commented configuration files, one per use, and the tables of keys of the documentation: both made from the schema.

``python -m converter_lite.config.template [directory]`` writes the files (by default into ``configs/``).
"""

from __future__ import annotations

import enum
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from converter_lite.config.keys import Condition, Key, Kind, Section, Use
from converter_lite.config.names import QuantType, TargetDevice
from converter_lite.config.schema import SECTIONS
from converter_lite.errors import UsageError, did_you_mean

_WIDTH = 100
_PICTURES: Mapping[str, str] = MappingProxyType(
    {
        "calibrate_path": "input:samples/calibration",
        "calibrate_size": "100",
        "input_type": "IMAGE",
        "image_to_format": "RGB",
        "normalize_mean": "[127.5, 127.5, 127.5]",
        "normalize_std": "[127.5, 127.5, 127.5]",
        "resize_width": "64",
        "resize_height": "64",
        "resize_method": "LINEAR",
    }
)


@dataclass(frozen=True, slots=True)
class Template:
    """A ready configuration.

    Attributes:
        title: First comment of the file.
        settings: section -> key -> text of the keys that are switched on; the other keys of these sections that have
            an effect in this use follow as comments.
        offered: Sections that are shown as comments only.
    """

    title: str
    settings: Mapping[str, Mapping[str, str]]
    offered: tuple[str, ...] = ()


def _full(title: str, full_quant_param: Mapping[str, str], **sections: Mapping[str, str]) -> Template:
    return Template(
        title,
        {
            "common_quant_param": {"quant_type": "FULL_QUANT", "bit_num": "8"},
            "data_preprocess_param": _PICTURES,
            "full_quant_param": {"activation_quant_method": "MAX_MIN", **full_quant_param},
            **sections,
        },
    )


def _weight(title: str, common: Mapping[str, str], **sections: Mapping[str, str]) -> Template:
    settings = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", **common}, **sections}
    return Template(title, settings, ("data_preprocess_param",))


TEMPLATES: Mapping[str, Template] = MappingProxyType(
    {
        "full_quant": _full(
            "Full quantization for the CPU: weights and activations in 8 bits, one weight scale per channel.",
            {"bias_correction": "true", "per_channel": "true"},
        ),
        "full_quant_per_layer": _full(
            "Full quantization for the CPU with one weight scale per layer.",
            {"bias_correction": "true", "per_channel": "false"},
        ),
        "full_quant_nvgpu": _full(
            "Full quantization for NVIDIA GPUs; run with --saveType=ONNX.", {"target_device": "NVGPU"}
        ),
        "full_quant_dsp": _full(
            "Full quantization for DSPs; run with --saveType=ONNX.", {"bias_correction": "true", "target_device": "DSP"}
        ),
        "full_quant_ascend": _full(
            "Full quantization for Ascend devices, fixed input shape; run with --saveType=ONNX and "
            "--optimize=ascend_oriented.",
            {"bias_correction": "true", "target_device": "ASCEND"},
        ),
        "full_quant_ascend_dynamic": _full(
            "Full quantization for Ascend devices, varying input shape; run with --saveType=ONNX, "
            "--optimize=ascend_oriented and "
            "--inputShape giving the shape of the calibration data.",
            {"bias_correction": "true", "target_device": "ASCEND"},
            ascend_context={"input_shape": "input:[-1,3,64,64]", "dynamic_dims": "[1~4],[8],[16]"},
        ),
        "weight_quant": _weight(
            "Weight quantization with a fixed number of bits.",
            {"bit_num": "8", "min_quant_weight_size": "0", "min_quant_weight_channel": "16"},
            weight_quant_param={"per_channel": "true", "bias_correction": "true"},
        ),
        "weight_quant_mixed": _weight(
            "Weight quantization with a searched number of bits per layer.",
            {"bit_num": "0", "min_quant_weight_size": "5000", "min_quant_weight_channel": "5"},
            mixed_bit_weight_quant_param={"init_scale": "0.02", "auto_tune": "false"},
        ),
        "weight_quant_on_the_fly": _weight(
            "Weight quantization for Ascend devices, weights become float while the model runs.",
            {"bit_num": "8", "min_quant_weight_size": "5000", "min_quant_weight_channel": "5"},
            weight_quant_param={"dequant_strategy": "ON_THE_FLY", "per_channel": "true", "bias_correction": "false"},
            ascend_context={"provider": "ge"},
        ),
        "dynamic_quant": Template(
            "Dynamic quantization: weights now, activations while the model runs.",
            {
                "common_quant_param": {"quant_type": "DYNAMIC_QUANT", "bit_num": "8"},
                "dynamic_quant_param": {"quant_strategy": "ALWC"},
            },
            ("data_preprocess_param",),
        ),
    }
)
"""Name of a use -> its configuration; ``configs/`` holds one file for each."""


def template(use: str) -> str:
    """Commented configuration file for a use (a key of ``TEMPLATES``).

    In it ``# text`` is a comment and ``#key=value`` a setting that is switched off.

    Raises:
        UsageError: There is no such use; the message lists them.
    """
    if use not in TEMPLATES:
        raise UsageError(
            f"unknown template {use!r}{did_you_mean(use, TEMPLATES)}", hint=f"one of {', '.join(TEMPLATES)}"
        )
    chosen = TEMPLATES[use]
    blocks = [_comment(chosen.title)]
    for section in SECTIONS:
        if section.name in chosen.settings:
            blocks.append(_section_text(chosen, section, chosen.settings[section.name], mark=""))
        elif section.name in chosen.offered:
            blocks.append(_section_text(chosen, section, _PICTURES, mark="#"))
    return "\n".join(blocks)


def keys_table_markdown(section: Section) -> str:
    """Markdown table of the keys of a section: key, values, default, where it has an effect, meaning.

    Keys and words that the original does not have carry a ``*``.
    """
    rows = [["Key", "Values", "Default", "Used by", "Meaning"], ["---"] * 5]
    for key in section.keys:
        meaning = f"No effect: {key.inert}." if key.inert else key.help
        cells = [f"`{key.name}`{'*' if key.is_ours else ''}", _values_text(key), _text(key.default) or "not set"]
        rows.append([*cells, _uses_text(section.uses_of(key)), meaning])
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def write_templates(directory: Path) -> None:
    """Write ``NAME.cfg`` for every use."""
    for use in TEMPLATES:
        (directory / f"{use}.cfg").write_text(template(use), encoding="utf-8", newline="\n")


def _section_text(chosen: Template, section: Section, active: Mapping[str, str], *, mark: str) -> str:
    lines = [f"{_comment(section.help)}{mark}[{section.name}]\n"]
    for key in _effective_keys(chosen, section):
        text = active.get(key.name)
        off = "#" if text is None else mark
        lines.append(f"{_comment(_help_text(key))}{off}{key.name}={text or _text(key.default) or key.example}\n")
    return "".join(lines)


def _effective_keys(chosen: Template, section: Section) -> Iterator[Key]:
    settings = {**({"data_preprocess_param": _PICTURES} if chosen.offered else {}), **chosen.settings}
    for key in section.keys:
        is_shown = not key.inert and (key.example or _text(key.default) or key.name in settings[section.name])
        uses = section.uses_of(key)
        if is_shown and (not uses or any(_applies(settings, use) for use in uses)):
            yield key


def _applies(settings: Mapping[str, Mapping[str, str]], use: Use) -> bool:
    quant_type = QuantType(settings["common_quant_param"]["quant_type"])
    target = TargetDevice(settings.get("full_quant_param", {}).get("target_device", TargetDevice.CPU.value))
    is_target = not use.targets or target in use.targets
    return use.quant_type is quant_type and is_target and all(_holds(settings, item) for item in use.when)


def _holds(settings: Mapping[str, Mapping[str, str]], condition: Condition) -> bool:
    found = settings.get(condition.section, {}).get(condition.key)
    return found is not None if condition.value is None else found == _text(condition.value)


def _help_text(key: Key) -> str:
    return f"{key.help} Values: {', '.join(key.words)}." if key.words else key.help


def _comment(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_long_words=False) + "\n"


def _values_text(key: Key) -> str:
    if key.kind is Kind.CHOICE:
        return ", ".join(f"`{word}`{'*' if word in key.own_words else ''}" for word in key.words)
    if key.kind is Kind.INTEGER:
        return f"{key.low}..{key.high}"
    if key.kind is Kind.FLOAT:
        return f"between {key.low} and {key.high}"
    return f"`{key.kind.value}`"


def _uses_text(uses: tuple[Use, ...]) -> str:
    if not uses:
        return "every conversion"
    types_by_condition: dict[str, list[str]] = {}
    for use in uses:
        targets = f" ({', '.join(target.value for target in use.targets)})" if use.targets else ""
        word = "where" if any(condition.value is None for condition in use.when) else "with"
        condition = f" {word} {' and '.join(map(str, use.when))}" if use.when else ""
        types_by_condition.setdefault(condition, []).append(f"{use.quant_type.value}{targets}")
    every_type = [quant_type.value for quant_type in QuantType]
    return "; ".join(
        f"{'all' if types == every_type else ', '.join(types)}{condition}"
        for condition, types in types_by_condition.items()
    )


def _text(value: Any) -> str:
    """A typed value as it is written; empty for "not set"."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if value is None or value == ():
        return ""
    return str(value).lower()


def main(arguments: list[str]) -> None:
    """Write the files into the directory that is named, or into ``configs/`` of the checkout."""
    write_templates(Path(arguments[0]) if arguments else Path(__file__).parents[2] / "configs")


if __name__ == "__main__":
    main(sys.argv[1:])
