"""Every key of the table, with what it takes and what it refuses."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, get_type_hints

import pytest

from converter_lite.config import names, parse_config
from converter_lite.config.keys import Key, Kind
from converter_lite.config.schema import SECTIONS, find_section
from converter_lite.config.settings import QuantizationConfig
from converter_lite.config.shapes import DimRange, InputShape
from converter_lite.errors import ConfigError

Slot = tuple[str, str]

# Settings that a key needs around it so that it is legal alone; the key itself is left out where it is tested.
BASE: dict[str, dict[str, str]] = {"common_quant_param": {"quant_type": "WEIGHT_QUANT"}}
FULL: dict[str, dict[str, str]] = {
    "common_quant_param": {"quant_type": "FULL_QUANT"},
    "data_preprocess_param": {
        "calibrate_path": "x:d",
        "calibrate_size": "10",
        "input_type": "IMAGE",
        "normalize_mean": "[1, 2, 3]",
        "normalize_std": "[1, 2, 3]",
        "resize_width": "65535",
        "resize_height": "65535",
        "resize_method": "LINEAR",
        "center_crop_width": "1",
        "center_crop_height": "1",
    },
    "ascend_context": {"input_shape": "x:[-1,3]"},
}

GOOD: dict[Slot, list[tuple[str, Any]]] = {
    ("common_quant_param", "quant_type"): [(word.value, word) for word in (names.QuantType.WEIGHT_QUANT,)],
    ("common_quant_param", "bit_num"): [("0", 0), ("08", 8), ("+8", 8), ("16", 16), ("'8'", 8), ('"8"', 8)],
    ("common_quant_param", "min_quant_weight_size"): [("0", 0), ("65535", 65535)],
    ("common_quant_param", "min_quant_weight_channel"): [("0", 0), ("65535", 65535)],
    ("common_quant_param", "skip_quant_node"): [
        ("conv, fc", ("conv", "fc")),
        ("conv,fc,", ("conv", "fc")),
        ("'a b' , c", ("a b", "c")),
        ("'a,b'", ("a,b",)),
        ("a=b", ("a=b",)),
        ("'a,b', 'c' ,o'neil,d'", ("a,b", "c", "o'neil", "d'")),
        ("a#b,c;d", ("a#b", "c;d")),
        ("/model/layer.0/Conv", ("/model/layer.0/Conv",)),
    ],
    ("common_quant_param", "target_cosine"): [("0.99", 0.99), ("0.99999", 0.99999)],
    ("common_quant_param", "target_error"): [("0.1", 0.1), ("1e2", 100.0)],
    ("common_quant_param", "max_float_nodes"): [("0", 0), ("12", 12)],
    ("common_quant_param", "learn_seconds"): [("1", 1), ("65535", 65535)],
    ("common_quant_param", "learn_seed"): [("0", 0), ("65535", 65535)],
    ("common_quant_param", "portable"): [("false", False), ("true", True)],
    ("common_quant_param", "debug_info_save_path"): [
        ("reports/a b", "reports/a b"),
        ('"reports #1"', "reports #1"),
        ("'reports ;1'", "reports ;1"),
        ("/home/o'neil # comment", "/home/o'neil"),
    ],
    ("common_quant_param", "enable_encode"): [("FALSE", False), ("true", True)],
    ("common_quant_param", "workspace"): [("w", "w")],
    ("weight_quant_param", "dequant_strategy"): [("ON_THE_FLY", names.DequantStrategy.ON_THE_FLY)],
    ("weight_quant_param", "per_channel"): [("False", False)],
    ("weight_quant_param", "bias_correction"): [("false", False)],
    ("weight_quant_param", "quant_strategy"): [(word.value, word) for word in names.WeightQuantStrategy],
    ("weight_quant_param", "rounding"): [(word.value, word) for word in names.Rounding],
    ("weight_quant_param", "block_size"): [(word.value, word) for word in names.BlockSize],
    ("weight_quant_param", "symmetric"): [("false", False)],
    ("weight_quant_param", "eight_bit_node"): [("Gather,lm_head*", ("Gather", "lm_head*"))],
    ("weight_quant_param", "accuracy_level"): [("0", 0), ("4", 4)],
    ("weight_quant_param", "update_mindir"): [("false", False)],
    ("weight_quant_param", "max_segments"): [("2", 2)],
    ("mixed_bit_weight_quant_param", "init_scale"): [("0.5", 0.5), ("1e-3", 1e-3), (".25", 0.25)],
    ("mixed_bit_weight_quant_param", "auto_tune"): [("true", True)],
    ("mixed_bit_weight_quant_param", "use_cv_data"): [("false", False)],
    ("mixed_bit_weight_quant_param", "max_iterations"): [("40", 40), ("65535", 65535)],
    ("full_quant_param", "activation_quant_method"): [
        *((word.value, word) for word in names.ActivationQuantMethod),
        ("RemovalOutlier", names.ActivationQuantMethod.REMOVAL_OUTLIER),
    ],
    ("full_quant_param", "bias_correction"): [("false", False)],
    ("full_quant_param", "per_channel"): [("false", False), ("true", True)],
    ("full_quant_param", "activation_bits"): [(word.value, word) for word in names.Width],
    ("full_quant_param", "target_device"): [(word.value, word) for word in names.TargetDevice],
    ("full_quant_param", "equalization"): [("false", False), ("TRUE", True)],
    ("full_quant_param", "rounding"): [(word.value, word) for word in names.Rounding],
    ("full_quant_param", "smooth_alpha"): [("0.3", 0.3)],
    ("full_quant_param", "enable_smooth_shift"): [("false", False)],
    ("data_preprocess_param", "calibrate_path"): [
        ("x:/data/x", (("x", "/data/x"),)),
        (" x : data/x/ , y:d", (("x", "data/x/"), ("y", "d"))),
        ("a:b:dir", (("a:b", "dir"),)),
        ("x:'/d:i,r #1'", (("x", "/d:i,r #1"),)),
        ('"x:/d"', (("x", "/d"),)),
    ],
    ("data_preprocess_param", "calibrate_size"): [("1", 1), ("65535", 65535)],
    ("data_preprocess_param", "input_type"): [("IMAGE", names.InputType.IMAGE), ("BIN", names.InputType.BIN)],
    ("data_preprocess_param", "image_to_format"): [("RGB", names.ImageFormat.RGB), ("BGR", names.ImageFormat.BGR)],
    ("data_preprocess_param", "normalize_mean"): [
        ("[127.5, 127.5 ,\t1e2]", (127.5, 127.5, 100.0)),
        ("[ -1,0,+.5 ]", (-1.0, 0.0, 0.5)),
    ],
    ("data_preprocess_param", "normalize_std"): [("[58.395,57.12,57.375]", (58.395, 57.12, 57.375))],
    ("data_preprocess_param", "resize_width"): [("1", 1), ("65535", 65535)],
    ("data_preprocess_param", "resize_height"): [("1", 1), ("65535", 65535)],
    ("data_preprocess_param", "resize_method"): [(word.value, word) for word in names.ResizeMethod],
    ("data_preprocess_param", "center_crop_width"): [("1", 1), ("65535", 65535)],
    ("data_preprocess_param", "center_crop_height"): [("1", 1), ("65535", 65535)],
    ("dynamic_quant_param", "quant_strategy"): [(word.value, word) for word in names.DynamicQuantStrategy],
    ("dynamic_quant_param", "smoothing"): [("false", False)],
    ("dynamic_quant_param", "rounding"): [(word.value, word) for word in names.Rounding],
    ("dynamic_quant_param", "attention_operator"): [("false", False)],
    ("dynamic_quant_param", "recurrent_operator"): [("false", False)],
    ("ascend_context", "provider"): [("ge", names.Provider.GE)],
    ("ascend_context", "input_shape"): [
        ("input_1:[-1,32,32,4]", (InputShape("input_1", (-1, 32, 32, 4)),)),
        ("a:[1, 2];b:0:[3]", (InputShape("a", (1, 2)), InputShape("b:0", (3,)))),
        ("a:[1],b:[2]", (InputShape("a", (1,)), InputShape("b", (2,)))),
    ],
    ("ascend_context", "dynamic_dims"): [
        ("[1~4],[8],[16]", ((DimRange(1, 4),), (DimRange(8, 8),), (DimRange(16, 16),))),
        ("[ 2 ] , [ 1 ~ 3 ]", ((DimRange(2, 2),), (DimRange(1, 3),))),
    ],
    ("transform_quant_param", "export_precision_mode"): [(word.value, word) for word in names.ExportPrecisionMode],
    ("registry", "disable_fusion"): [(word.value, word) for word in names.Switch],
    ("registry", "fusion_blacklists"): [("ConvBatchNormFusion,fold_pad", ("ConvBatchNormFusion", "fold_pad"))],
}

INTEGERS = ["eight", "8.0", "0x8", "8 8", "8#x", "8;", "1_0", "٨", "-1", "65536", "4294967304", "9" * 5000]
BOOLEANS = ["yes", "1", "0", "on", "'true"]
NUMBERS = ["1,2,3", "[1,2", "[]", "[1,,2]", "[1 2 3]", "[1,2,nan]", "[1,2,inf]", "[1,2,1e39]", "[1,2,0x1]", "[1_0,2,3]"]

BAD: dict[Slot, list[str]] = {
    ("common_quant_param", "quant_type"): ["weight_quant", "FULL", "WEIGHT_QUANT,FULL_QUANT", "PTQ"],
    ("common_quant_param", "bit_num"): [*INTEGERS, "17", "4294967304", "=8", "8 = 8"],
    ("common_quant_param", "min_quant_weight_size"): INTEGERS,
    ("common_quant_param", "min_quant_weight_channel"): INTEGERS,
    ("common_quant_param", "skip_quant_node"): [",", "a,,b", ",a", "''", "'first, part,b", "a,'b"],
    ("common_quant_param", "target_cosine"): ["0", "1", "1.5", "-0.9", "99%", "nan"],
    ("common_quant_param", "target_error"): ["0", "-1", "1e39", "inf", "small"],
    ("common_quant_param", "max_float_nodes"): INTEGERS,
    ("common_quant_param", "learn_seconds"): ["0", *INTEGERS],
    ("common_quant_param", "learn_seed"): INTEGERS,
    ("common_quant_param", "portable"): BOOLEANS,
    ("common_quant_param", "debug_info_save_path"): ["", '""', '"open', "#hidden", "a\x00b"],
    ("common_quant_param", "enable_encode"): BOOLEANS,
    ("common_quant_param", "workspace"): [""],
    ("weight_quant_param", "dequant_strategy"): ["DEFAULT", "on_the_fly"],
    ("weight_quant_param", "per_channel"): BOOLEANS,
    ("weight_quant_param", "bias_correction"): BOOLEANS,
    ("weight_quant_param", "quant_strategy"): ["gptq", "max_min", "KL"],
    ("weight_quant_param", "rounding"): ["adaptive", "GPTQ", "true"],
    ("weight_quant_param", "block_size"): ["16", "0", "large"],
    ("weight_quant_param", "symmetric"): BOOLEANS,
    ("weight_quant_param", "eight_bit_node"): ["a,,b", ",a", "''"],
    ("weight_quant_param", "accuracy_level"): ["5", *INTEGERS],
    ("weight_quant_param", "update_mindir"): BOOLEANS,
    ("weight_quant_param", "max_segments"): ["0", *INTEGERS],
    ("mixed_bit_weight_quant_param", "init_scale"): [
        "0",
        "1",
        "1.0",
        "-0.1",
        "text",
        "nan",
        "0x1p-3",
        "0.1f",
        "1e-400",
    ],
    ("mixed_bit_weight_quant_param", "auto_tune"): BOOLEANS,
    ("mixed_bit_weight_quant_param", "use_cv_data"): BOOLEANS,
    ("mixed_bit_weight_quant_param", "max_iterations"): ["39", *INTEGERS],
    ("full_quant_param", "activation_quant_method"): ["MINMAX", "kl", "removaloutlier"],
    ("full_quant_param", "bias_correction"): BOOLEANS,
    ("full_quant_param", "per_channel"): BOOLEANS,
    ("full_quant_param", "activation_bits"): ["2", "16", "four"],
    ("full_quant_param", "target_device"): ["kirin", "cpu", "TPU"],
    ("full_quant_param", "equalization"): BOOLEANS,
    ("full_quant_param", "rounding"): ["nearest", "ADAROUND", "false"],
    ("full_quant_param", "smooth_alpha"): ["0", "1", "x"],
    ("full_quant_param", "enable_smooth_shift"): BOOLEANS,
    ("data_preprocess_param", "calibrate_path"): ["dir", "x:", ":d", "x:d,", "x:d,x:e", "x:'d", "'x:d'", "x:d'e'f"],
    ("data_preprocess_param", "calibrate_size"): ["0", *INTEGERS],
    ("data_preprocess_param", "input_type"): ["image", "JPEG"],
    ("data_preprocess_param", "image_to_format"): ["rgb", "RGBA"],
    ("data_preprocess_param", "normalize_mean"): NUMBERS,
    ("data_preprocess_param", "normalize_std"): [*NUMBERS, "[1,0,1]", "[1,1,1e-40]", "[1,1,1e-400]", "[1,2]"],
    ("data_preprocess_param", "resize_width"): ["0", *INTEGERS],
    ("data_preprocess_param", "resize_height"): ["0", *INTEGERS],
    ("data_preprocess_param", "resize_method"): ["AREA", "linear", "NEARST"],
    ("data_preprocess_param", "center_crop_width"): ["0", *INTEGERS],
    ("data_preprocess_param", "center_crop_height"): ["0", *INTEGERS],
    ("dynamic_quant_param", "quant_strategy"): ["alwc", "MAX_MIN"],
    ("dynamic_quant_param", "smoothing"): BOOLEANS,
    ("dynamic_quant_param", "rounding"): ["adaptive", "GPTQ", "true"],
    ("dynamic_quant_param", "attention_operator"): BOOLEANS,
    ("dynamic_quant_param", "recurrent_operator"): BOOLEANS,
    ("ascend_context", "provider"): ["GE", "acl"],
    ("ascend_context", "input_shape"): ["[1,2]", "a:1,2", "a:[]", "a:[0]", "a:[-2]", "a:[1],a:[2]", "a:[1]b:[2]"],
    ("ascend_context", "dynamic_dims"): [
        *("1~4", "[4~1]", "[0]", "[-1]", "[1~2~3]", "[]", "[1],[2,3]", "[1]x[2]"),
        "[1,2]",
    ],
    ("transform_quant_param", "export_precision_mode"): ["float32", "quant", "INT8"],
    ("registry", "disable_fusion"): ["true", "ON", "yes"],
    ("registry", "fusion_blacklists"): [",", "a,,b", ""],
}

SLOTS = [(section.name, key.name) for section in SECTIONS for key in section.keys]
GOOD_CASES = [(slot, text, value) for slot, cases in GOOD.items() for text, value in cases]
BAD_CASES = [(slot, text) for slot, texts in BAD.items() for text in texts]


def ini(slot: Slot, text: str) -> str:
    """The key with this text among settings that make every other rule content."""
    settings = {
        section: dict(keys)
        for section, keys in (FULL if slot[0] in FULL and slot[0] != "common_quant_param" else BASE).items()
    }
    if slot == ("data_preprocess_param", "normalize_mean"):
        settings[slot[0]]["normalize_std"] = "[1,1,1]"
    if slot[0] == "weight_quant_param":  # some of its words need data
        settings["data_preprocess_param"] = {"calibrate_path": "x:d", "calibrate_size": "10", "input_type": "BIN"}
    settings.setdefault(slot[0], {})[slot[1]] = text
    lines = [
        f"[{section}]\n" + "".join(f"{key}={value}\n" for key, value in keys.items())
        for section, keys in settings.items()
    ]
    return "".join(lines)


def test_every_key_has_good_and_bad_cases() -> None:
    assert list(GOOD) == SLOTS
    assert list(BAD) == SLOTS
    assert all(GOOD.values())
    assert all(BAD.values())


def test_every_word_of_every_choice_has_a_good_case() -> None:
    for section in SECTIONS:
        for key in section.keys:
            tested = {text for text, _ in GOOD[section.name, key.name]}
            untested = set(key.words) - tested - {"FULL_QUANT", "DYNAMIC_QUANT", "GRAY"}  # these need other settings
            assert not untested, key.name


@pytest.mark.parametrize(("slot", "text", "value"), GOOD_CASES)
def test_a_good_value_is_read(slot: Slot, text: str, value: Any) -> None:
    config = parse_config(ini(slot, text))
    assert getattr(getattr(config, slot[0]), slot[1]) == value
    assert config.given(*slot)


@pytest.mark.parametrize(("slot", "text"), BAD_CASES)
def test_a_bad_value_is_reported_with_line_and_key(slot: Slot, text: str) -> None:
    content = ini(slot, text)
    number = content.splitlines().index(f"{slot[1]}={text}") + 1 if "\x00" not in text else 3
    with pytest.raises(ConfigError) as caught:
        parse_config(content, path="a.cfg")
    (problem,) = caught.value.problems
    assert problem.startswith(f"a.cfg:{number} [{slot[0]}]")
    assert slot[1] in problem


def damaged(text: str) -> set[str]:
    """Every text with one character lost, doubled, swapped with the next, or replaced, and some with one more."""
    made = {text + more for more in "0x ,-'\""} | {more + text for more in '0x -["'}
    for i in range(len(text)):
        before, letter, behind = text[:i], text[i], text[i + 1 :]
        made |= {before + behind, before + letter + letter + behind, before + behind[:1] + letter + behind[1:]}
        made |= {before + other + behind for other in "0x .,:-]" if other != letter} | {
            before + letter.swapcase() + behind
        }
    return made - {text}


def bare(text: str) -> str:
    return text[1:-1].strip() if re.fullmatch(r"'[^']*'", text) else text


def plain_reading(key: Key, text: str) -> Any:
    """What a text says to a person, read in another way than the parser's.

    Raises:
        ValueError: It says nothing that this key could mean.
    """
    text = text.replace('"', "").strip()
    text = bare(text) if key.kind is not Kind.DIRECTORIES else text
    parts = [part.strip() for part in text.split(",")]
    if key.kind is Kind.INTEGER:
        return int(text)
    if key.kind is Kind.FLOAT:
        return float(text)
    if key.kind is Kind.BOOLEAN:
        return {"true": True, "false": False}[text.lower()]
    if key.kind is Kind.CHOICE:
        assert key.choices is not None
        return key.choices(dict(key.aliases).get(text, text))
    if key.kind is Kind.NAMES:
        return tuple(bare(part) for part in parts if part)
    if key.kind is Kind.NUMBERS:
        return tuple(float(part) for part in text.removeprefix("[").removesuffix("]").split(","))
    if key.kind is Kind.DIRECTORIES:
        pairs = (part.rpartition(":") for part in parts)
        return tuple((bare(name.strip()), bare(folder.strip())) for name, _, folder in pairs)
    return text


EXACT = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.CHOICE, Kind.TEXT, Kind.NAMES, Kind.NUMBERS, Kind.DIRECTORIES)
"""Kinds whose values are simple enough to be read a second time."""


@pytest.mark.parametrize(("slot", "good"), [(slot, text) for slot, cases in GOOD.items() for text, _ in cases])
def test_a_damaged_value_is_reported_or_means_what_it_says(slot: Slot, good: str) -> None:
    section = find_section(slot[0])
    key = section.find(slot[1]) if section else None
    assert key is not None
    for text in damaged(good):
        if re.search(r"[#;]|'.*[,:].*'", text):
            continue  # a comment, or quoted separators: cases of their own in test_parser.py
        try:
            config = parse_config(ini(slot, text), path="a.cfg")
        except ConfigError as error:
            assert all(problem.startswith("a.cfg:") for problem in error.problems)
        else:
            value = getattr(getattr(config, slot[0]), slot[1])
            assert key.kind not in EXACT or value == plain_reading(key, text), text


@pytest.mark.parametrize("slot", SLOTS)
def test_an_empty_value_is_an_error(slot: Slot) -> None:
    with pytest.raises(ConfigError, match=rf"\[{slot[0]}\] {slot[1]}: has no value"):
        parse_config(ini(slot, ""))


def test_settings_mirror_the_table() -> None:
    sections = get_type_hints(QuantizationConfig)
    for section in SECTIONS:
        attributes = [attribute.name for attribute in dataclasses.fields(sections[section.name])]
        assert attributes == [key.name for key in section.keys]


def test_keys_that_are_not_written_have_the_default_of_the_table() -> None:
    config = parse_config("")
    for section in SECTIONS:
        for key in section.keys:
            assert getattr(getattr(config, section.name), key.name) == key.default
            assert not config.given(section.name, key.name)


def test_defaults_are_the_originals() -> None:
    documented = {"bit_num": 8, "min_quant_weight_size": 0, "min_quant_weight_channel": 16, "enable_encode": True}
    common = find_section("common_quant_param")
    mixed = find_section("mixed_bit_weight_quant_param")
    assert common is not None
    assert mixed is not None
    assert {key.name: key.default for key in common.keys if key.name in documented} == documented
    assert [key.default for key in mixed.keys] == [0.02, False, False, 40]


def test_the_table_is_consistent() -> None:
    for section in SECTIONS:
        keys = {key.name for key in section.keys}
        assert len(keys) == len(section.keys)
        assert keys.issuperset(name for group in section.together for name in group)
        for key in section.keys:
            assert key.help.endswith(".")
            assert (key.kind is Kind.CHOICE) == (key.choices is not None)
            assert set(key.own_words) <= set(key.words)
            for use in section.uses_of(key):
                for condition in use.when:
                    other = find_section(condition.section)
                    assert other is not None
                    assert other.find(condition.key) is not None
