"""From configuration to settings."""

from __future__ import annotations

import pytest

from converter_lite.config import config_from_mapping
from converter_lite.config.names import Rounding
from converter_lite.errors import ConfigError
from converter_lite.quantization.choice import Choice, choose
from converter_lite.quantization.settings import FullSettings, WeightSettings
from tests.support import build, normal


def chosen(quant_type: str, *, has_samples: bool = True, bit_num: int = 8, **keys: str) -> Choice:
    section = {"WEIGHT_QUANT": "weight_quant_param", "FULL_QUANT": "full_quant_param"}[quant_type]
    common = {"quant_type": quant_type, "bit_num": str(bit_num)}
    config = config_from_mapping({"common_quant_param": common, section: keys}, external_data=True)
    model = build("g (float[1,4] x) => (float[1,4] y) { y = MatMul(x, w) }", w=normal(4, 4))
    choice = choose(config, model, frozenset(), has_samples=has_samples)
    assert choice is not None
    return choice


def is_adaptive(*, has_samples: bool = True, bit_num: int = 8, **keys: str) -> bool:
    settings = chosen("WEIGHT_QUANT", has_samples=has_samples, bit_num=bit_num, **keys).settings
    assert isinstance(settings, WeightSettings)
    return settings.rounding.is_fitted


@pytest.mark.parametrize("bit_num", range(1, 17))
def test_weights_of_less_than_8_bits_are_rounded_to_samples_where_there_are_some(bit_num: int) -> None:
    assert is_adaptive(bit_num=bit_num) == (bit_num < 8)
    assert not is_adaptive(bit_num=bit_num, has_samples=False)


@pytest.mark.parametrize("bit_num", [1, 4, 8, 16])
@pytest.mark.parametrize(
    "keys", [{"rounding": "ADAPTIVE"}, {"quant_strategy": "GPTQ"}, {"quant_strategy": "GPTQ", "rounding": "ADAPTIVE"}]
)
def test_adaptive_rounding_that_is_asked_for_is_done_with_any_width(keys: dict[str, str], bit_num: int) -> None:
    assert is_adaptive(bit_num=bit_num, **keys)


@pytest.mark.parametrize("has_samples", [True, False])
def test_nearest_means_nearest(has_samples: bool) -> None:
    assert not is_adaptive(bit_num=4, rounding="NEAREST", has_samples=has_samples)
    assert not is_adaptive(bit_num=4, rounding="NEAREST", quant_strategy="MAX_MIN", has_samples=has_samples)


@pytest.mark.parametrize(("key", "word"), [("rounding", "ADAPTIVE"), ("quant_strategy", "GPTQ")])
def test_adaptive_rounding_without_samples_is_refused(key: str, word: str) -> None:
    with pytest.raises(ConfigError, match="fitted to calibration samples, and there are none") as caught:
        chosen("WEIGHT_QUANT", has_samples=False, **{key: word})
    assert caught.value.where == f"[weight_quant_param] {key}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, False),
        ({"per_channel": "false"}, True),
        ({"per_channel": "false", "rounding": "NEAREST"}, False),
        ({"per_channel": "false", "bias_correction": "false"}, False),
        ({"target_device": "DSP"}, True),
        ({"target_device": "DSP", "per_channel": "true"}, False),
    ],
)
def test_full_quantization_with_one_scale_per_layer_is_rounded_to_samples(keys: dict[str, str], expected: bool) -> None:
    settings = chosen("FULL_QUANT", **keys).settings
    assert isinstance(settings, FullSettings)
    assert settings.rounding.is_fitted == expected


def test_keys_of_full_quantization_arrive() -> None:
    assert chosen("FULL_QUANT").settings == FullSettings()
    keys = {"equalization": "false", "rounding": "ADAPTIVE", "smooth_alpha": "0.25", "bias_correction": "false"}
    expected = FullSettings(equalization=False, rounding=Rounding.ADAPTIVE, smooth_alpha=0.25, bias_correction=False)
    assert chosen("FULL_QUANT", **keys).settings == expected
