"""Mistakes in a configuration: each is told with its place and the remedy, all in one go."""

from __future__ import annotations

import pytest

from converter_lite.config import parse_config
from converter_lite.config.parser import MAX_PROBLEMS
from converter_lite.errors import EXIT_USAGE, ConfigError
from tests.config.texts import DYNAMIC, FULL, WEIGHT, problem, problems

REFUSED = {
    "unknown section": (WEIGHT + "[foo_bar]\nx=1\n", "a.cfg:3 [foo_bar]: unknown section"),
    "misspelled section": (
        "[comon_quant_param]\nquant_type=WEIGHT_QUANT\n",
        "a.cfg:1 [comon_quant_param]: unknown section; did you mean [common_quant_param]?",
    ),
    "section in capitals": (
        "[Common_Quant_Param]\nquant_type=WEIGHT_QUANT\n",
        "a.cfg:1 [Common_Quant_Param]: unknown section; did you mean [common_quant_param]?",
    ),
    "unknown key": (
        WEIGHT + "bit_nums=8\n",
        "a.cfg:3 [common_quant_param] bit_nums: unknown key; did you mean bit_num?",
    ),
    "key far from any": (WEIGHT + "foo=8\n", "a.cfg:3 [common_quant_param] foo: unknown key"),
    "key of another section": (
        WEIGHT + "target_device=DSP\n",
        "a.cfg:3 [common_quant_param] target_device: unknown key; it belongs to [full_quant_param]",
    ),
    "quant_type missing": (
        "[common_quant_param]\nbit_num=8\n",
        "a.cfg:1 [common_quant_param]: quant_type is missing: set it in [common_quant_param] to one of "
        "WEIGHT_QUANT, FULL_QUANT, DYNAMIC_QUANT",
    ),
    "quant_type missing, other section": (
        "\n[full_quant_param]\nbias_correction=true\n",
        "a.cfg:2 [full_quant_param]: quant_type is missing: set it in [common_quant_param] to one of "
        "WEIGHT_QUANT, FULL_QUANT, DYNAMIC_QUANT",
    ),
    "empty value": (
        WEIGHT + "skip_quant_node=\n",
        "a.cfg:3 [common_quant_param] skip_quant_node: has no value: give one, or remove the line to get the default",
    ),
    "only a comment as value": (
        WEIGHT + "bit_num= # 8\n",
        "a.cfg:3 [common_quant_param] bit_num: has no value: give one, or remove the line to get the default",
    ),
    "no =": (
        WEIGHT + "bit_num\n",
        "a.cfg:3 [common_quant_param]: 'bit_num' is neither [section] nor key=value nor a comment",
    ),
    "no key": (WEIGHT + "=5\n", "a.cfg:3 [common_quant_param]: there is no key before the = in '=5'"),
    "word in lower case": (
        "[common_quant_param]\nquant_type=weight_quant\n",
        "a.cfg:2 [common_quant_param] quant_type: must be WEIGHT_QUANT, FULL_QUANT or DYNAMIC_QUANT, "
        "not 'weight_quant'; did you mean WEIGHT_QUANT?",
    ),
    "number that does not fit": (
        WEIGHT + "bit_num=4294967304\n",
        "a.cfg:3 [common_quant_param] bit_num: must be a whole number from 0 to 16, not '4294967304'",
    ),
    "glued comment": (
        WEIGHT + "bit_num=8#x\n",
        "a.cfg:3 [common_quant_param] bit_num: must be a whole number from 0 to 16, not '8#x' "
        "(a comment behind a value needs a blank before it)",
    ),
    "duplicate key": (
        WEIGHT + "bit_num=8\nbit_num=8\n",
        "a.cfg:4 [common_quant_param] bit_num: is given twice, first in line 3: remove one",
    ),
    "duplicate key in a section opened twice": (
        WEIGHT + "bit_num=8\n[weight_quant_param]\n[common_quant_param]\nbit_num=4\n",
        "a.cfg:6 [common_quant_param] bit_num: is given twice, first in line 3: remove one",
    ),
    "no bracket": (
        "[common_quant_param\nquant_type=WEIGHT_QUANT\n",
        "a.cfg:1: the section has no closing bracket: '[common_quant_param'",
    ),
    "bracket in the comment": (
        "[common_quant_param #]\nquant_type=WEIGHT_QUANT\n",
        "a.cfg:1: the section has no closing bracket: '[common_quant_param'",
    ),
    "section without name": (WEIGHT + "[ ]\n", "a.cfg:3 [common_quant_param]: the section has no name"),
    "text behind the section": (
        "[common_quant_param] bit_num=8\nquant_type=WEIGHT_QUANT\n",
        "a.cfg:1: there is more behind the section: '[common_quant_param] bit_num=8'",
    ),
    "key before any section": (
        "quant_type=WEIGHT_QUANT\n[common_quant_param]\n",
        "a.cfg:1 quant_type: stands before any section; it belongs to [common_quant_param]",
    ),
    "quote not closed": (
        WEIGHT + 'debug_info_save_path="a\n',
        "a.cfg:3 [common_quant_param]: a double quote is not closed: 'debug_info_save_path=\"a'",
    ),
    "enable_encode 0": (
        WEIGHT + "enable_encode=0\n",
        "a.cfg:3 [common_quant_param] enable_encode: must be true or false, not '0'",
    ),
    "GPTQ without data": (
        WEIGHT + "[weight_quant_param]\nquant_strategy=GPTQ\n",
        "a.cfg:4 [weight_quant_param] quant_strategy: fits the rounding to calibration data, and there are none: "
        "add [data_preprocess_param] or remove the key",
    ),
    "ADAPTIVE without data": (
        WEIGHT + "[weight_quant_param]\nrounding=ADAPTIVE\n",
        "a.cfg:4 [weight_quant_param] rounding: fits the rounding to calibration data, and there are none: "
        "add [data_preprocess_param] or remove the key",
    ),
    "GPTQ that rounds to nearest": (
        WEIGHT + "[weight_quant_param]\nquant_strategy=GPTQ\nrounding=NEAREST\n",
        "a.cfg:5 [weight_quant_param] rounding: contradicts quant_strategy=GPTQ, which fits the rounding to data: "
        "remove one of the two",
    ),
    "dequant_strategy DEFAULT": (
        WEIGHT + "[weight_quant_param]\ndequant_strategy=DEFAULT\n",
        "a.cfg:4 [weight_quant_param] dequant_strategy: must be ON_THE_FLY, not 'DEFAULT'",
    ),
    "ON_THE_FLY with mixed bits": (
        WEIGHT + "bit_num=0\n[weight_quant_param]\ndequant_strategy=ON_THE_FLY\n",
        "a.cfg:5 [weight_quant_param] dequant_strategy: needs a fixed number of bits: set bit_num to 1..16",
    ),
    "FULL with 7 bits": (
        FULL.replace("FULL_QUANT\n", "FULL_QUANT\nbit_num=7\n"),
        "a.cfg:3 [common_quant_param] bit_num: must be 8 (or 4, for ONNX files) with FULL_QUANT, not 7",
    ),
    "DYNAMIC with 0 bits": (
        DYNAMIC + "bit_num=0\n",
        "a.cfg:3 [common_quant_param] bit_num: must be 8 with DYNAMIC_QUANT, not 0",
    ),
    "FULL without data": (
        "[common_quant_param]\nquant_type=FULL_QUANT\n",
        "a.cfg:2 [common_quant_param] quant_type: FULL_QUANT needs calibration data: "
        "calibrate_path, calibrate_size and input_type missing in [data_preprocess_param]",
    ),
    "FULL without input_type": (
        FULL.replace("input_type=IMAGE\n", ""),
        "a.cfg:3 [data_preprocess_param]: FULL_QUANT needs calibration data: "
        "input_type missing in [data_preprocess_param]",
    ),
    "WEIGHT with half of the data keys": (
        WEIGHT + "[data_preprocess_param]\ncalibrate_path=x:d\n",
        "a.cfg:4 [data_preprocess_param] calibrate_path: has no effect without calibrate_size and input_type: "
        "add what is missing, or remove it",
    ),
    "resize_method without sizes": (
        FULL + "resize_method=LINEAR\n",
        "a.cfg:7 [data_preprocess_param] resize_method: has no effect without resize_width and resize_height: "
        "add what is missing, or remove it",
    ),
    "resize sizes without method": (
        FULL + "resize_width=8\nresize_height=8\n",
        "a.cfg:7 [data_preprocess_param] resize_width: has no effect without resize_method: "
        "add what is missing, or remove it",
    ),
    "mean without std": (
        FULL + "normalize_mean=[1,1,1]\n",
        "a.cfg:7 [data_preprocess_param] normalize_mean: has no effect without normalize_std: "
        "add what is missing, or remove it",
    ),
    "std without mean": (
        FULL + "normalize_std=[1,1,1]\n",
        "a.cfg:7 [data_preprocess_param] normalize_std: has no effect without normalize_mean: "
        "add what is missing, or remove it",
    ),
    "crop width without height": (
        FULL + "center_crop_width=4\n",
        "a.cfg:7 [data_preprocess_param] center_crop_width: has no effect without center_crop_height: "
        "add what is missing, or remove it",
    ),
    "lengths differ": (
        FULL + "normalize_mean=[1,1,1]\nnormalize_std=[1]\n",
        "a.cfg:8 [data_preprocess_param] normalize_std: must have as many numbers as normalize_mean: 3, not 1",
    ),
    "channels differ": (
        FULL + "image_to_format=GRAY\nnormalize_mean=[1,1,1]\nnormalize_std=[1,1,1]\n",
        "a.cfg:8 [data_preprocess_param] normalize_mean: must have one number per channel of GRAY: 1, not 3",
    ),
    "channels differ without a format": (
        FULL + "normalize_mean=[1]\nnormalize_std=[1]\n",
        "a.cfg:7 [data_preprocess_param] normalize_mean: must have one number per channel of BGR: 3, not 1",
    ),
    "std 0": (
        FULL + "normalize_mean=[1,1,1]\nnormalize_std=[1,0,1]\n",
        "a.cfg:8 [data_preprocess_param] normalize_std: must not be 0: pixels are divided by it",
    ),
    "crop larger than the resized picture": (
        FULL + "resize_width=8\nresize_height=8\nresize_method=CUBIC\ncenter_crop_width=8\ncenter_crop_height=9\n",
        "a.cfg:11 [data_preprocess_param] center_crop_height: must not be larger than resize_height=8: "
        "the crop comes after resizing",
    ),
    "dynamic_dims without input_shape": (
        WEIGHT + "[ascend_context]\ndynamic_dims=[1]\n",
        "a.cfg:4 [ascend_context] dynamic_dims: has no effect without input_shape: add what is missing, or remove it",
    ),
    "dynamic_dims of a fixed shape": (
        WEIGHT + "[ascend_context]\ninput_shape=x:[1,2]\ndynamic_dims=[1]\n",
        "a.cfg:5 [ascend_context] dynamic_dims: must have one size per -1 of input_shape in each bracket: 0, not 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_one_problem_with_place_and_remedy(case: str) -> None:
    text, expected = REFUSED[case]
    assert problem(text) == expected


@pytest.mark.parametrize("bits", [0, *range(1, 8), *range(9, 16)])
def test_enable_encode_false_needs_whole_bytes(bits: int) -> None:
    place = "a.cfg:4 [common_quant_param] enable_encode"
    expected = f"{place}: can be false with bit_num 8 or 16 only, not {bits}"
    assert problem(WEIGHT + f"bit_num={bits}\nenable_encode=False\n") == expected


@pytest.mark.parametrize("bits", [8, 16])
def test_enable_encode_false_is_fine_with_whole_bytes(bits: int) -> None:
    assert not parse_config(WEIGHT + f"bit_num={bits}\nenable_encode=false\n").common_quant_param.enable_encode


def test_all_problems_are_reported_in_one_go_in_file_order() -> None:
    text = FULL.replace("FULL_QUANT", "FULL_QANT") + "resize_width=0\nhello\n[full_quant]\nbias_correction=no\nfoo=1\n"
    lines = [told.partition(" ")[0] for told in problems(text)]
    assert lines == ["a.cfg:2", "a.cfg:7", "a.cfg:7", "a.cfg:8", "a.cfg:9", "a.cfg:10", "a.cfg:11"]


def test_a_misspelled_key_is_not_also_reported_as_missing() -> None:
    assert "calibrate_sise: unknown key" in problem(FULL.replace("calibrate_size", "calibrate_sise"))
    assert "quant_typ: unknown key" in problem(WEIGHT.replace("quant_type", "quant_typ"))


def test_keys_below_a_misspelled_section_are_checked_too() -> None:
    told = problems("[comon_quant_param]\nquant_type=WEIGHT_QUANT\nbit_num=17\n")
    assert [line.partition(" ")[0] for line in told] == ["a.cfg:1", "a.cfg:3"]


def test_a_file_of_something_else_gives_a_bounded_list() -> None:
    told = problems("x\n" * 1000)
    assert len(told) == MAX_PROBLEMS + 1
    assert told[-1] == f"a.cfg: {1000 - MAX_PROBLEMS} more problems"


def test_the_error_prints_every_problem_and_exits_as_wrong_usage() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config("a\nb\n", path="a.cfg")
    assert str(caught.value).splitlines() == list(caught.value.problems)
    assert caught.value.exit_status == EXIT_USAGE
    assert caught.value.message == "2 problems in the configuration"
