"""Messages say what helps without a page that an installed package does not have."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import converter_lite
from converter_lite.config.schema import SECTIONS
from converter_lite.pipeline.remedies import remedies
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.settings import (
    DynamicSettings,
    FullSettings,
    Goal,
    MixedBits,
    Settings,
    WeightSettings,
)
from converter_lite.targets.devices import target_spec

PACKAGE = Path(converter_lite.__file__).parent


def hint(settings: Settings, *, is_real: bool = True, goal: Goal | None = None) -> str:
    return remedies(Choice(settings, target_spec("CPU"), goal), is_real=is_real)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (FullSettings(), "activation_quant_method=KL"),
        (FullSettings(per_channel=False), "per_channel=true"),
        (DynamicSettings(weight_per_channel=False), "quant_strategy=ALWC"),
        (WeightSettings(bits=4), "larger bit_num"),
    ],
)
def test_a_kind_of_quantization_has_a_remedy_of_its_own(settings: Settings, words: str) -> None:
    assert words in hint(settings)


@pytest.mark.parametrize(
    "settings",
    [FullSettings(method="KL"), DynamicSettings(), WeightSettings(bits=16), WeightSettings(mixed=MixedBits())],
)
def test_what_is_done_already_is_not_advised(settings: Settings) -> None:
    text = hint(settings, goal=Goal(0.99))
    assert "; try" not in text
    assert "target_cosine" not in text
    assert text.endswith("--minCosine=X changes the gate")


def test_data_are_asked_for_where_there_are_none() -> None:
    assert hint(WeightSettings(), is_real=False).startswith("give calibration data")
    assert "--preview=DIR" in hint(WeightSettings(), is_real=True)


def test_a_file_that_is_not_quantized_has_only_the_gate() -> None:
    assert remedies(None, is_real=True) == "--minCosine=X changes the gate"


def test_keys_that_are_advised_exist() -> None:
    known = {(section.name, key.name) for section in SECTIONS for key in section.keys}
    assert known >= {
        ("common_quant_param", "target_cosine"),
        ("common_quant_param", "bit_num"),
        ("data_preprocess_param", "calibrate_path"),
        ("full_quant_param", "activation_quant_method"),
        ("full_quant_param", "per_channel"),
        ("dynamic_quant_param", "quant_strategy"),
    }


def texts(source: str) -> Iterator[tuple[int, str]]:
    """String literals with their lines, without those that stand alone: docstrings."""
    tree = ast.parse(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def test_no_message_points_to_the_documentation_of_a_checkout() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "documentation.py"  # writes a page of a checkout
        for line, text in texts(path.read_text(encoding="utf-8"))
        if "docs/" in text or (".md" in text and "README.md" not in text)
    ]
    assert found == []
