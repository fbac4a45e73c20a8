"""What a configuration means: freedom of form, rules between keys, places."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from converter_lite.config import parse_config
from converter_lite.config.names import ImageFormat, QuantType, TargetDevice
from tests.config.texts import DYNAMIC, FULL, WEIGHT, problems

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


def test_the_configuration_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, converter_lite.config, converter_lite.config.template\n"
        "print([m for m in ('numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'PIL') if m in sys.modules])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
