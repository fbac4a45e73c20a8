"""All sections.

Parser, messages, templates, the documentation's tables and the tests are made from ``SECTIONS``. A new key is one attribute in
:mod:`converter_lite.config.sections`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from converter_lite.config.keys import Section
from converter_lite.config.sections import data, quantization, surroundings

SECTIONS: tuple[Section, ...] = (
    quantization.COMMON,
    quantization.WEIGHTS,
    quantization.MIXED_BITS,
    quantization.FULLY,
    data.DATA,
    quantization.DYNAMICALLY,
    surroundings.ASCEND,
    surroundings.TRANSFORM,
    surroundings.REGISTRY,
)

_DEVICE_ONLY = "the section sets up a device's own compiler or runtime, which reads its own file: no effect here"

FOREIGN_SECTIONS: Mapping[str, str] = MappingProxyType(
    {
        "micro_param": "no C code is generated: models are written as files for the runtimes",
        "model_param": "the section is not about quantization: no effect",
        "third_party_model": "the section is not about quantization: no effect",
        **dict.fromkeys(
            ("cpu_option_cfg_param", "graph_kernel_param", "gpu_context", "acl_option_cfg_param"), _DEVICE_ONLY
        ),
        **dict.fromkeys(
            ("acl_init_options", "acl_build_options", "aoe_global_options", "aoe_tuning_options"), _DEVICE_ONLY
        ),
        **dict.fromkeys(("ge_global_options", "ge_session_options", "ge_graph_options"), _DEVICE_ONLY),
    }
)
"""Sections of the original that are not about quantization: known, accepted, and why they have no effect."""


def find_section(name: str) -> Section | None:
    """The section of this name."""
    return next((section for section in SECTIONS if section.name == name), None)


def sections_with(key: str) -> tuple[str, ...]:
    """Names of the sections that have a key of this name."""
    return tuple(section.name for section in SECTIONS if section.find(key))
