"""The page about Paddle's models says what the code does."""

from __future__ import annotations

import re

import pytest

from converter_lite.formats.paddle.documentation import PAGE
from converter_lite.formats.paddle.importer.context import REFUSED
from converter_lite.formats.paddle.importer.fake_quantization import FOLDED
from converter_lite.formats.paddle.importer.table import HANDLERS
from converter_lite.formats.paddle.inference_model.files import PARAMETER_NAMES, PROGRAM_NAMES
from converter_lite.formats.paddle.pir.document import NEWEST
from converter_lite.formats.paddle.pir.rules import RULES
from converter_lite.formats.paddle.pir.translation import SPECIAL


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.text()


def test_every_operator_of_both_kinds_of_programs_is_in_the_table() -> None:
    table, refused = "\n".join(PAGE.lines).split("| refused |")
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]
    newer = [name for row in rows for name in re.findall(r"`([^`]+)`", row[1])]
    older = {name for row in rows for name in re.findall(r"\w+", " ".join(row[1:]))}
    assert sorted(newer) == sorted({*RULES, *(name.removeprefix("pd_op.") for name in SPECIAL)})
    assert older >= {*HANDLERS, *FOLDED}
    assert set(re.findall(r"`([\w.]+)`", refused)) >= set(REFUSED)


def test_an_operator_is_read_or_refused_and_not_both() -> None:
    assert not set(REFUSED) & {*HANDLERS, *FOLDED}


def test_the_page_names_the_files_and_versions_that_are_found(page: str) -> None:
    for names in (PROGRAM_NAMES, PARAMETER_NAMES):
        assert ", ".join(f"`{name}`" for name in names) in page
    assert f"(Paddle 3.0) to {NEWEST} (3.3)" in page
