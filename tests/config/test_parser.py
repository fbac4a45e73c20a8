"""Form of the file, rules between keys, places, warnings."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from converter_lite.config import QuantizationConfig, config_from_mapping, load_config, parse_config
from converter_lite.config.names import ImageFormat, QuantType, TargetDevice
from converter_lite.config.parser import MAX_BYTES, MAX_PROBLEMS
from converter_lite.errors import EXIT_USAGE, ConfigError

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


# --- form: the rows of the measured table, with the outcome that we want ---

SAME_AS_PLAIN = {
    "comment behind a value, #": WEIGHT + "bit_num=4 # x\n",
    "comment behind a value, ;": WEIGHT + "bit_num=4 ; x\n",
    "comment behind a value after a tab": WEIGHT + "bit_num=4\t# x\n",
    "comment lines": "# a\n; b\n  # c\n\t; d\n" + WEIGHT + "bit_num=4\n",
    "comment with quotes": "# it's \"so\n" + WEIGHT + "bit_num=4 # it's \"so\n",
    "comment behind a section": "[common_quant_param] # x\nquant_type=WEIGHT_QUANT\nbit_num=4\n",
    "comment glued to a section": "[common_quant_param];x\nquant_type=WEIGHT_QUANT\nbit_num=4\n",
    "comment with =": "[common_quant_param] # a=b\nquant_type=WEIGHT_QUANT ; a=b\nbit_num=4 # a=b\n",
    "blanks around =": WEIGHT + "bit_num = 4\n",
    "blanks before the key": WEIGHT + "   bit_num=4   \n",
    "tabs around =": WEIGHT + "bit_num\t=\t4\n",
    "blanks in the section name": "[ common_quant_param ]\nquant_type=WEIGHT_QUANT\nbit_num=4\n",
    "tab in the section name": "[\tcommon_quant_param\t]\nquant_type=WEIGHT_QUANT\nbit_num=4\n",
    "blank behind the section": "[common_quant_param] \nquant_type=WEIGHT_QUANT\nbit_num=4\n",
    "CRLF": (WEIGHT + "bit_num=4\n").replace("\n", "\r\n"),
    "CR": (WEIGHT + "bit_num=4\n").replace("\n", "\r"),
    "blank CRLF lines": "\r\n" + WEIGHT.replace("\n", "\r\n \r\n\t\r\n") + "bit_num=4\r\n",
    "byte order mark": "\ufeff" + WEIGHT + "bit_num=4\n",
    "double quotes": WEIGHT + 'bit_num="4"\n',
    "single quotes": WEIGHT + "bit_num='4'\n",
    "quoted word": '[common_quant_param]\nquant_type="WEIGHT_QUANT"\nbit_num=4',
    "quoted section": '["common_quant_param"]\nquant_type=WEIGHT_QUANT\nbit_num=4\n',
    "leading zero": WEIGHT + "bit_num=04\n",
    "no line end at the end": WEIGHT + "bit_num=4",
    "section opened twice, no key twice": WEIGHT + "[weight_quant_param]\n[common_quant_param]\nbit_num=4\n",
}


@pytest.mark.parametrize("case", SAME_AS_PLAIN)
def test_freedom_of_form_does_not_change_the_meaning(case: str) -> None:
    config = parse_config(SAME_AS_PLAIN[case])
    assert config == parse_config(WEIGHT + "bit_num=4\n")
    assert config.common_quant_param.bit_num == 4
    assert config.warnings == ()


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
        "\n[full_quant_param]\n",
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
        "a.cfg:3 [common_quant_param] bit_num: must be 8 with FULL_QUANT, not 7",
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
    "KIRIN": (
        FULL + "[full_quant_param]\ntarget_device=KIRIN\n",
        "a.cfg:8 [full_quant_param] target_device: KIRIN is not supported: its NPU runs models of a closed format "
        "only, and a KIRIN model of the original does not load anywhere else; ARM runs on the processor of the "
        "same chips",
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


def test_all_problems_are_told_in_one_go_in_file_order() -> None:
    text = FULL.replace("FULL_QUANT", "FULL_QANT") + "resize_width=0\nhello\n[full_quant]\nbias_correction=no\nfoo=1\n"
    lines = [told.partition(" ")[0] for told in problems(text)]
    assert lines == ["a.cfg:2", "a.cfg:7", "a.cfg:7", "a.cfg:8", "a.cfg:9", "a.cfg:10", "a.cfg:11"]


def test_a_misspelled_key_is_not_also_told_as_missing() -> None:
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


# --- meaning ---


def test_gray_pictures_take_one_mean() -> None:
    config = parse_config(FULL + "image_to_format=GRAY\nnormalize_mean=[1]\nnormalize_std=[2]\n")
    assert config.data_preprocess_param.image_to_format is ImageFormat.GRAY
    assert config.data_preprocess_param.normalize_std == (2.0,)


@pytest.mark.parametrize("key", ["quant_strategy=GPTQ", "rounding=ADAPTIVE", "quant_strategy=GPTQ\nrounding=ADAPTIVE"])
def test_adaptive_rounding_takes_data_from_the_file_or_from_the_caller(key: str) -> None:
    text = WEIGHT + f"[weight_quant_param]\n{key}\n"
    data = FULL.partition("[data_preprocess_param]")[1:]
    assert parse_config(text, external_data=True).warnings == ()
    assert parse_config(text + "".join(data)).warnings == ()


def test_adaptive_rounding_of_another_quant_type_needs_nothing() -> None:
    (warning,) = parse_config(DYNAMIC + "[weight_quant_param]\nquant_strategy=GPTQ\n").warnings
    assert "no effect with quant_type=DYNAMIC_QUANT" in warning


def test_per_channel_is_unset_unless_written() -> None:
    assert parse_config(FULL).full_quant_param.per_channel is None
    assert parse_config(FULL + "[full_quant_param]\nper_channel=True\n").full_quant_param.per_channel is True


def test_cpu_may_be_named() -> None:
    config = parse_config(FULL + "[full_quant_param]\ntarget_device=CPU\n")
    assert config.full_quant_param.target_device is TargetDevice.CPU


def test_full_quantization_needs_no_path_when_the_caller_brings_data() -> None:
    config = parse_config(FULL.partition("[data")[0], external_data=True)
    assert config.common_quant_param.quant_type is QuantType.FULL_QUANT
    only_size = WEIGHT + "[data_preprocess_param]\ncalibrate_size=3\n"
    assert parse_config(only_size, external_data=True).data_preprocess_param.calibrate_size == 3


def test_a_path_is_complete_even_when_the_caller_brings_data() -> None:
    (told,) = problems(WEIGHT + "[data_preprocess_param]\ncalibrate_path=x:d\n", external_data=True)
    assert "has no effect without calibrate_size and input_type" in told


def test_the_originals_documented_files_keep_their_meaning() -> None:
    config = parse_config(
        "[common_quant_param]\nquant_type=WEIGHT_QUANT\n# Weight quantization supports the number of bits [0,16].\n"
        "bit_num=8\nmin_quant_weight_size=5000\nmin_quant_weight_channel=5\nenable_encode = true\n\n"
        "[weight_quant_param]\ndequant_strategy=ON_THE_FLY\nper_channel=True\nbias_correction=False\n\n"
        "[ascend_context]\nprovider=ge\n"
    )
    assert config.warnings == ()
    assert config.common_quant_param.min_quant_weight_size == 5000
    assert not config.weight_quant_param.bias_correction


# --- places ---


def test_the_place_of_a_given_key_is_remembered() -> None:
    config = parse_config(WEIGHT + "skip_quant_node=a, b\n", path="dir/full_quant.cfg")
    assert config.location("common_quant_param", "skip_quant_node") == (
        "dir/full_quant.cfg:3 [common_quant_param] skip_quant_node"
    )
    assert config.given("common_quant_param", "skip_quant_node")


def test_a_default_has_no_place() -> None:
    config = parse_config(WEIGHT)
    assert config.location("common_quant_param", "bit_num") == ""
    assert not config.given("common_quant_param", "bit_num")


def test_a_configuration_is_hashable_and_picklable() -> None:
    config = parse_config(FULL)
    assert pickle.loads(pickle.dumps(config)) == config
    assert len({config, parse_config("# moved\n" + FULL)}) == 1


# --- warnings ---


def warnings(text: str) -> tuple[str, ...]:
    return parse_config(text, path="a.cfg").warnings


WARNED = {
    "section of another type": (
        WEIGHT + "[full_quant_param]\nbias_correction=true\n",
        "a.cfg:3 [full_quant_param]: the section has no effect with quant_type=WEIGHT_QUANT",
    ),
    "dynamic section": (
        WEIGHT + "[dynamic_quant_param]\nquant_strategy=ALWC\n",
        "a.cfg:3 [dynamic_quant_param]: the section has no effect with quant_type=WEIGHT_QUANT",
    ),
    "filter with DYNAMIC": (
        DYNAMIC + "min_quant_weight_size=1\n",
        "a.cfg:3 [common_quant_param] min_quant_weight_size: has no effect with quant_type=DYNAMIC_QUANT",
    ),
    "filter with FULL on CPU": (
        FULL + "[common_quant_param]\nmin_quant_weight_channel=1\n",
        "a.cfg:8 [common_quant_param] min_quant_weight_channel: has no effect with target_device=CPU",
    ),
    "mixed section with fixed bits": (
        WEIGHT + "[mixed_bit_weight_quant_param]\ninit_scale=0.1\n",
        "a.cfg:3 [mixed_bit_weight_quant_param]: the section has no effect unless bit_num=0",
    ),
    "iterations without search": (
        WEIGHT + "bit_num=0\n[mixed_bit_weight_quant_param]\nmax_iterations=50\n",
        "a.cfg:5 [mixed_bit_weight_quant_param] max_iterations: has no effect unless bit_num=0 and auto_tune=true",
    ),
    "picture keys with BIN": (
        FULL.replace("IMAGE", "BIN") + "image_to_format=RGB\n",
        "a.cfg:7 [data_preprocess_param] image_to_format: has no effect unless input_type=IMAGE",
    ),
    "ascend_context without ASCEND": (
        FULL + "[ascend_context]\nprovider=ge\n",
        "a.cfg:7 [ascend_context]: the section has no effect with target_device=CPU",
    ),
    "ascend_context without ON_THE_FLY": (
        WEIGHT + "[ascend_context]\nprovider=ge\n",
        "a.cfg:3 [ascend_context]: the section has no effect unless dequant_strategy=ON_THE_FLY",
    ),
    "key of the device runtime": (
        FULL + "[full_quant_param]\ntarget_device=ASCEND\n[ascend_context]\nprecision_mode=enforce_fp16\n",
        "a.cfg:10 [ascend_context] precision_mode: concerns the device runtime: no effect here",
    ),
    "section about something else": (
        WEIGHT + "[registry]\nplugin_path=a=b\nanything\t= at all\n",
        "a.cfg:3 [registry]: the section is not about quantization: no effect",
    ),
    "key that this program does not need": (
        WEIGHT + "workspace=w\n",
        "a.cfg:3 [common_quant_param] workspace: has no effect here: tensors stay in their files, no temporary "
        "model is written",
    ),
    "empty file": ("", "a.cfg: nothing is quantized: no quant_type is given, the model stays in float"),
}


@pytest.mark.parametrize("case", WARNED)
def test_what_has_no_effect_is_a_warning(case: str) -> None:
    text, expected = WARNED[case]
    assert warnings(text) == (expected,)


QUIET = {
    "data with WEIGHT": FULL.replace("FULL", "WEIGHT"),
    "data with DYNAMIC": FULL.replace("FULL", "DYNAMIC"),
    "filter with ASCEND": FULL
    + "[common_quant_param]\nmin_quant_weight_size=1\n[full_quant_param]\ntarget_device=ASCEND\n",
    "context with ASCEND": FULL + "[full_quant_param]\ntarget_device=ASCEND\n[ascend_context]\nprovider=ge\n",
    "mixed bits": WEIGHT + "bit_num=0\n[mixed_bit_weight_quant_param]\nauto_tune=true\nmax_iterations=50\n",
}


@pytest.mark.parametrize("case", QUIET)
def test_what_has_an_effect_is_no_warning(case: str) -> None:
    assert warnings(QUIET[case]) == ()


@pytest.mark.parametrize("text", ["", "# only a comment\n", "[ascend_context]\nprovider=ge\n", "[micro_param]\nx=1\n"])
def test_without_a_quantization_section_the_model_stays_in_float_and_that_is_said(text: str) -> None:
    config = parse_config(text, path="a.cfg")
    assert config.common_quant_param.quant_type is None
    assert config.warnings[-1] == "a.cfg: nothing is quantized: no quant_type is given, the model stays in float"


# --- files ---


def test_a_file_is_read_with_its_name_in_every_place(tmp_path: Path) -> None:
    path = tmp_path / "w.cfg"
    path.write_bytes(b"\xef\xbb\xbf" + WEIGHT.encode().replace(b"\n", b"\r\n"))
    config = load_config(path)
    assert config == parse_config(WEIGHT)
    assert config.config_path == str(path)
    assert config.location("common_quant_param", "quant_type") == f"{path}:2 [common_quant_param] quant_type"


def refusal(path: Path | str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value)


def test_a_missing_file_is_a_configuration_error(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no.cfg").startswith(
        f"{tmp_path / 'no.cfg'}: cannot read the configuration: No such file"
    )


def test_a_directory_is_a_configuration_error(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith(f"{tmp_path}: cannot read the configuration: Is a directory")


def test_a_path_with_a_null_character_is_a_configuration_error() -> None:
    assert "cannot read the configuration" in refusal("a\0b")


@pytest.mark.parametrize("line", ["skip_quant_node=卷积", "debug_info_save_path='报告'", "卷积=8"])
def test_undecodable_bytes_are_told_with_their_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "w.cfg"
    path.write_bytes(WEIGHT.encode() + line.encode("gbk"))
    assert f"{path}:3 [common_quant_param]: the line is not UTF-8 text" in refusal(path)


@pytest.mark.parametrize("encoding", ["gbk", "latin-1", "shift-jis"])
def test_comments_may_be_of_any_encoding(tmp_path: Path, encoding: str) -> None:
    words = {"gbk": "位数，默认为八", "latin-1": "précision", "shift-jis": "表示"}[encoding]
    path = tmp_path / "w.cfg"
    path.write_bytes(f"# {words}\n{WEIGHT}bit_num=4 # {words}\n; {words}\n".encode(encoding))
    assert load_config(path).common_quant_param.bit_num == 4


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_a_file_of_another_form_of_unicode_is_told(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "w.cfg"
    mark = "" if encoding == "utf-16" else "\ufeff"
    path.write_bytes((mark + WEIGHT).encode(encoding))
    assert "the configuration is UTF-16 text" in refusal(path)


def test_a_large_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "w.cfg"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    assert refusal(path).startswith(f"{path}: the configuration is larger than 1024 KiB")
    path.write_bytes(b"#" * MAX_BYTES)
    assert load_config(path).common_quant_param.quant_type is None


# --- settings given by a program ---


def as_mapping(text: str) -> dict[str, dict[str, str]]:
    return parse_config(text).as_mapping()


def test_a_mapping_means_the_same_as_a_file() -> None:
    mapping = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": "4"}}
    config = config_from_mapping(mapping)
    assert config == parse_config(WEIGHT + "bit_num=4\n")
    assert config.as_mapping() == mapping
    assert config.location("common_quant_param", "bit_num") == "[common_quant_param] bit_num"


@pytest.mark.parametrize("text", [FULL, WEIGHT + "skip_quant_node='a b', c # d\nbit_num=\"4\"\n", *QUIET.values()])
def test_a_configuration_survives_the_way_through_a_mapping(text: str) -> None:
    assert config_from_mapping(as_mapping(text)) == parse_config(text)


def test_a_mapping_is_checked_like_a_file() -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_mapping({"common_quant_param": {"quant_typ": "X", "bit_num": "17"}, "foo": {"a": "b"}})
    assert caught.value.problems == (
        "[common_quant_param] quant_typ: unknown key; did you mean quant_type?",
        "[foo]: unknown section",
        "[common_quant_param] bit_num: must be a whole number from 0 to 16, not '17'",
    )


def test_a_mapping_holds_text_only() -> None:
    mapping: dict[str, dict[str, str]] = {"common_quant_param": {"quant_type": "WEIGHT_QUANT", "bit_num": 8}}  # type: ignore[dict-item]
    with pytest.raises(ConfigError, match=r"\[common_quant_param\] bit_num: must be text, not int"):
        config_from_mapping(mapping)


def test_an_empty_mapping_is_a_quiet_float_conversion() -> None:
    config = config_from_mapping({})
    assert isinstance(config, QuantizationConfig)
    assert config.common_quant_param.quant_type is None
    assert config.warnings == ()


def test_the_configuration_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, converter_lite.config, converter_lite.config.template\n"
        "print([m for m in ('numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'PIL') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
