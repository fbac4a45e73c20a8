"""The command that asks for a conversion, to make it again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

from converter_lite.formats.registry import FORMATS
from converter_lite.pipeline.request import ConvertRequest

SWITCHES: Mapping[str, str] = {
    "fp16": "=on",
    "infer": "=true",
    "dry_run": "",
    "allow_external_paths": "",
    "allow_unsafe_models": "",
}
"""Options that are on or off -> what stands behind their flags."""

IN_MEMORY = ("config", "calibration_data")
"""What no command line can say."""

WITHOUT_FLAG = (*IN_MEMORY, "calibration_size", "quantize_if_possible", "proof_samples", "json")
"""Options that are not repeated: those without a flag, and where the result is described, in a batch a folder that is gone."""

SECRETS = ("encrypt_key", "decrypt_key")
"""Options whose values are not repeated."""


def command_line(request: ConvertRequest) -> str:
    """The request as a command for a shell, with the flags that differ from their defaults; empty if there is none."""
    if any(getattr(request, name) is not None for name in IN_MEMORY):
        return ""
    return shlex.join(["converter_lite", *_flags(request)])


def _flags(request: ConvertRequest) -> Iterator[str]:
    of_formats = {flag.attribute: flag for known in FORMATS.values() for flag in known.flags.flags()}
    for entry in sorted(fields(request), key=lambda entry: entry.name in of_formats):  # the general ones first
        value = getattr(request, entry.name)
        if entry.name in WITHOUT_FLAG or (value == entry.default and entry.name != "fmk") or value == {}:
            continue
        if entry.name in of_formats:
            if of_formats[entry.name].name:
                yield of_formats[entry.name].given(value)
        elif entry.name in SWITCHES:
            yield f"--{_spelled(entry.name)}{SWITCHES[entry.name]}"
        else:
            yield f"--{_spelled(entry.name)}={'...' if entry.name in SECRETS else text_of(value)}"


def _spelled(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def text_of(value: object) -> str:
    """The value of an option as it stands behind a flag."""
    if isinstance(value, Mapping):
        return ";".join(f"{name}:{','.join(map(str, shape))}" for name, shape in value.items())
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return (
        f"{value:.15g}" if isinstance(value, float) else str(value) if not isinstance(value, Path) else value.as_posix()
    )
