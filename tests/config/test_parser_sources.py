"""Where configurations come from: files of any encoding and size, and programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.config import QuantizationConfig, config_from_mapping, load_config, parse_config
from converter_lite.config.parser import MAX_BYTES
from converter_lite.errors import ConfigError
from tests.config.test_parser_warnings import QUIET
from tests.config.texts import FULL, WEIGHT


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
def test_undecodable_bytes_are_reported_with_their_line(tmp_path: Path, line: str) -> None:
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
def test_a_file_of_another_form_of_unicode_is_reported(tmp_path: Path, encoding: str) -> None:
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


def test_a_binary_file_is_one_problem(tmp_path: Path) -> None:
    """Each of its lines was one: a model in place of its configuration printed a hundred."""
    path = tmp_path / "model.onnx"
    path.write_bytes(bytes(range(256)) * 20)
    assert refusal(path) == f"{path}: this is a binary file, not a configuration\n  name an INI file"
