"""The page about MindIR says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from converter_lite.formats.mindir.importer.table import KINDS, REFUSED
from tests.formats.mindir.files import read, save
from tests.formats.mindir.test_operators import CASES
from tests.formats.mindir.test_structure import PROGRAMS


@pytest.mark.parametrize("name", CASES)
def test_an_operator_becomes_those_that_the_table_names(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    named = set(re.findall(r"\w+", KINDS[case.operator].becomes))
    found = {node.op_type for node in read(save(tmp_path, case.content())).model.graph}
    assert found - {"Identity"} <= named


def test_every_operator_of_the_table_is_tested() -> None:
    tested = {case.operator for case in CASES.values()}
    for program in PROGRAMS.values():
        tested |= set(re.findall(r"[A-Za-z]\w+", program().decode("utf-8", "replace")))
    assert set(KINDS) - tested == set()


def test_an_operator_is_read_or_refused_and_not_both() -> None:
    assert not set(KINDS) & set(REFUSED)
