"""What each device can compute in integers: tables, no code."""

from __future__ import annotations

from difflib import get_close_matches

from converter_lite.errors import TargetError
from converter_lite.targets.arm import ARM
from converter_lite.targets.ascend import ASCEND
from converter_lite.targets.cpu import CPU
from converter_lite.targets.dsp import DSP
from converter_lite.targets.nvgpu import NVGPU
from converter_lite.targets.spec import TargetSpec
from converter_lite.targets.x86 import X86

TARGETS: dict[str, TargetSpec] = {spec.name: spec for spec in (CPU, NVGPU, DSP, ASCEND, ARM, X86)}


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
