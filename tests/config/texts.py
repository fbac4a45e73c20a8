"""Configurations that tests start from, and what is said about wrong ones."""

from __future__ import annotations

import pytest

from converter_lite.config import parse_config
from converter_lite.errors import ConfigError

WEIGHT = "[common_quant_param]\nquant_type=WEIGHT_QUANT\n"
FULL = """[common_quant_param]
quant_type=FULL_QUANT
[data_preprocess_param]
calibrate_path=x:d
calibrate_size=10
input_type=IMAGE
"""
DYNAMIC = "[common_quant_param]\nquant_type=DYNAMIC_QUANT\n"


def problems(text: str, *, external_data: bool = False) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, path="a.cfg", external_data=external_data)
    return caught.value.problems


def problem(text: str) -> str:
    (only,) = problems(text)
    return only
