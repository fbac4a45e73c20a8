"""Templates and the table of keys are made from the schema."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from converter_lite.config import load_config, parse_config
from converter_lite.config.names import DequantStrategy, DynamicQuantStrategy, QuantType, TargetDevice
from converter_lite.config.schema import SECTIONS
from converter_lite.config.template import TEMPLATES, keys_table_markdown, main, template
from converter_lite.errors import UsageError

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.mark.parametrize("use", TEMPLATES)
def test_the_file_in_configs_is_the_template(use: str) -> None:
    assert (CONFIGS / f"{use}.cfg").read_text(encoding="utf-8") == template(use)


def test_configs_holds_nothing_else() -> None:
    assert sorted(path.name for path in CONFIGS.iterdir()) == sorted(f"{use}.cfg" for use in TEMPLATES)


def test_the_command_writes_every_file(tmp_path: Path) -> None:
    main([str(tmp_path)])
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(TEMPLATES)


@pytest.mark.parametrize("use", TEMPLATES)
def test_a_template_is_legal_and_every_key_in_it_has_an_effect(use: str) -> None:
    assert load_config(CONFIGS / f"{use}.cfg").warnings == ()


@pytest.mark.parametrize("use", TEMPLATES)
def test_a_template_with_every_setting_switched_on_is_legal_too(use: str) -> None:
    lines = template(use).splitlines()
    switched_on = [line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in lines]
    assert switched_on != lines
    assert parse_config("\n".join(switched_on)).warnings == ()


@pytest.mark.parametrize("use", TEMPLATES)
def test_every_setting_of_a_template_is_explained_above_it(use: str) -> None:
    lines = template(use).splitlines()
    for above, line in itertools.pairwise(lines):
        assert len(line) <= 120
        if "=" in line and not line.startswith("# "):
            assert above.startswith("# ")


def test_templates_say_what_their_names_promise() -> None:
    configs = {use: parse_config(template(use)) for use in TEMPLATES}
    types = {use: config.common_quant_param.quant_type for use, config in configs.items()}
    for use, quant_type in types.items():
        assert quant_type is QuantType(f"{use.partition('_')[0].upper()}_QUANT")
    targets = {use: config.full_quant_param.target_device for use, config in configs.items()}
    assert targets["full_quant"] is TargetDevice.CPU
    assert targets["full_quant_nvgpu"] is TargetDevice.NVGPU
    assert targets["full_quant_dsp"] is TargetDevice.DSP
    assert targets["full_quant_ascend"] is targets["full_quant_ascend_dynamic"] is TargetDevice.ASCEND
    assert configs["full_quant_per_layer"].full_quant_param.per_channel is False
    assert configs["full_quant_ascend_dynamic"].ascend_context.input_shape[0].dims[0] == -1
    assert configs["weight_quant_mixed"].common_quant_param.bit_num == 0
    assert configs["weight_quant_on_the_fly"].weight_quant_param.dequant_strategy is DequantStrategy.ON_THE_FLY
    assert configs["dynamic_quant"].dynamic_quant_param.quant_strategy is DynamicQuantStrategy.ALWC


def test_an_unknown_template_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean full_quant_dsp") as caught:
        template("full_quant_dps")
    assert "weight_quant_mixed" in caught.value.hint


def test_the_table_has_one_row_per_key_and_marks_our_own_words() -> None:
    rows = keys_table_markdown().splitlines()
    assert len(rows) == 2 + sum(len(section.keys) for section in SECTIONS)
    assert all(row.count(" | ") == 5 for row in rows)
    (method,) = [row for row in rows if "`activation_quant_method`" in row]
    assert "`PERCENTILE`*" in method
    assert "`KL`," in method
    (width,) = [row for row in rows if "`resize_width`" in row]
    assert "| 1..65535 | not set | all with input_type=IMAGE |" in width
