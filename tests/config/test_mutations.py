"""A damaged file is refused, or means what it says: never a traceback, never a silent acceptance."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from converter_lite.config import QuantizationConfig, parse_config
from converter_lite.config.schema import SECTIONS
from converter_lite.config.template import TEMPLATES, template
from converter_lite.errors import ConfigError

CASES = settings(
    max_examples=300, derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)

BASE = """[common_quant_param]
quant_type=FULL_QUANT
bit_num=8
skip_quant_node=conv_1,add_8
[full_quant_param]
activation_quant_method=REMOVAL_OUTLIER
bias_correction=true
per_channel=false
target_device=ASCEND
[data_preprocess_param]
calibrate_path=input:images
calibrate_size=100
input_type=IMAGE
image_to_format=RGB
normalize_mean=[127.5,127.5,127.5]
normalize_std=[127.5,127.5,127.5]
resize_width=64
resize_height=64
resize_method=LINEAR
[ascend_context]
provider=ge
input_shape=input:[-1,3,64,64]
dynamic_dims=[1~4],[8]
"""
EXPECTED = parse_config(BASE)
OPTIONAL = {
    *("bit_num", "skip_quant_node", "activation_quant_method", "bias_correction", "per_channel", "target_device"),
    *("image_to_format", "provider", "dynamic_dims"),
}
# Names and words of the file: sections, keys, and values that are words of the table.
WORDS = [match.span() for match in re.finditer(r"(?<=\[)[a-z_]+(?=\])|^[a-z_]+(?==)|(?<==)[A-Za-z_]+$", BASE, re.M)]
ALPHABET = string.ascii_letters + string.digits + "_-. \t\"'#;=[]:,\u00e9\x00"


def outcome(text: str) -> QuantizationConfig | ConfigError:
    """A configuration or the error; anything else that is raised fails the test."""
    try:
        return parse_config(text, path="a.cfg")
    except ConfigError as error:
        assert error.problems
        assert all(problem.startswith("a.cfg:") for problem in error.problems)
        return error


@st.composite
def damaged_files(draw: st.DrawFn) -> str:
    """File in which one letter of one word is dropped, doubled, replaced, inserted, swapped, or changed in case."""
    start, end = draw(st.sampled_from(WORDS))
    word = BASE[start:end]
    i = draw(st.integers(0, len(word) - 1))
    letter = draw(st.sampled_from(ALPHABET))
    damaged = draw(
        st.sampled_from(
            [
                word[:i] + word[i + 1 :],
                word[:i] + word[i] + word[i:],
                word[:i] + letter + word[i + 1 :],
                word[:i] + letter + word[i:],
                word + letter,
                word[:i] + word[i : i + 2][::-1] + word[i + 2 :],
                word[:i] + word[i].swapcase() + word[i + 1 :],
                word[:i],
                word.upper(),
            ]
        )
    )
    return BASE[:start] + damaged + BASE[end:]


@CASES
@given(damaged_files())
def test_a_damaged_name_is_reported_or_means_the_same(text: str) -> None:
    result = outcome(text)
    is_switched_off = any(line.lstrip().startswith(("#", ";")) for line in text.splitlines())
    if isinstance(result, QuantizationConfig) and not is_switched_off:
        assert result == EXPECTED


@CASES
@given(st.sampled_from([line for line in BASE.splitlines() if "=" in line]), st.sampled_from(BASE.splitlines()))
def test_a_repeated_key_is_reported_wherever_it_is_repeated(line: str, behind: str) -> None:
    text = BASE.replace(f"{behind}\n", f"{behind}\n{line}\n", 1)
    assert isinstance(outcome(text), ConfigError)


@CASES
@given(st.sampled_from(range(len(BASE.splitlines()))))
def test_a_lost_line_is_reported_or_gives_the_default(number: int) -> None:
    lines = BASE.splitlines()
    lost = lines.pop(number)
    result = outcome("\n".join(lines))
    if isinstance(result, QuantizationConfig):
        key = lost.partition("=")[0]
        assert key in OPTIONAL
        assert not any(result.given(section.name, key) for section in SECTIONS)


@CASES
@given(st.sampled_from(["bit_num", "calibrate_size", "resize_width"]), st.text(ALPHABET + "0123456789" * 3, max_size=6))
def test_an_accepted_number_is_the_number_that_is_written(key: str, text: str) -> None:
    result = outcome(re.sub(rf"^{key}=.*$", lambda _: f"{key}={text}", BASE, flags=re.M))
    if isinstance(result, QuantizationConfig):
        plain = re.split(r"\s[#;]", text)[0].replace('"', "").strip().strip("'").strip()
        section = result.common_quant_param if key == "bit_num" else result.data_preprocess_param
        assert re.fullmatch(r"[+-]?[0-9]+", plain)
        assert getattr(section, key) == int(plain)


@CASES
@given(
    st.sampled_from([template(use) for use in TEMPLATES]),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 20), st.text(max_size=8)), min_size=1, max_size=4),
)
def test_random_damage_never_escapes_as_another_error(text: str, edits: list[tuple[int, int, str]]) -> None:
    for start, length, insert in edits:
        text = text[:start] + insert + text[start + length :]
    outcome(text)


@CASES
@given(st.text(st.sampled_from("[]=#;'\"\\ \t\r\n,:~-1aé\ufeff\x00\u2028"), max_size=200))
def test_random_text_never_escapes_as_another_error(text: str) -> None:
    outcome(text)


@pytest.mark.parametrize("section", [section.name for section in SECTIONS])
@CASES
@given(st.text(st.sampled_from("[]='\",:~-+.0123456789eabcTRUE "), max_size=40), st.integers(0, 20))
def test_random_values_never_escape_as_another_error(section: str, text: str, number: int) -> None:
    keys = next(found.keys for found in SECTIONS if found.name == section)
    outcome(f"[common_quant_param]\n[{section}]\n{keys[number % len(keys)].name}={text}\n")


def test_the_undamaged_file_is_legal() -> None:
    assert isinstance(outcome(BASE), QuantizationConfig)
    assert EXPECTED.warnings == ()
    assert len(WORDS) > 30


@pytest.mark.parametrize(
    "text", ["enable_encode=true", "[ascend_context]\nmin_quant_weight_channel=0", "[transform_quant_param]\nbit_num=4"]
)
def test_a_key_outside_of_its_section_is_an_error_that_names_the_section(text: str) -> None:
    found = outcome(text)
    assert isinstance(found, ConfigError)
    assert "quant_param]" in str(found)
