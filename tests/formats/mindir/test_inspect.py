"""What ``converter_lite inspect`` shows of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.cli.inspect import inspect
from converter_lite.errors import ModelError
from tests.formats.mindir.files import save
from tests.formats.mindir.test_operators import CASES
from tests.formats.mindir.test_refusals import node
from tests.formats.mindir.test_structure import PROGRAMS, apart


def test_a_file_shows_its_inputs_nodes_and_weights(tmp_path: Path) -> None:
    shown = inspect(save(tmp_path, PROGRAMS["weights"]())).splitlines()
    assert shown[0].startswith("MindIR of MindSpore 2.7.1, format 3, 5 nodes, ")
    assert shown[3].split() == ["x", "float32", "2x3"]
    rows = [line.split() for line in shown]
    assert ["Default/Load-op2", "Load", "fc.weight,", "-"] in rows
    assert ["Default/fc-Dense/MatMul-op0", "MatMul", "x,", "Default/Load-op2,", "False,", "False"] in rows
    assert ["fc.weight", "float32", "3x4", "48"] in rows


def test_attributes_and_results_are_shown(tmp_path: Path) -> None:
    shown = inspect(save(tmp_path, CASES["Conv2D, pads"].content()))
    assert "float32 2x4x7x6" in shown
    assert "kernel_size=[3, 3] mode=1" in shown


def test_functions_are_shown(tmp_path: Path) -> None:
    shown = inspect(save(tmp_path, PROGRAMS["a function"]()))
    assert "call of double" in shown
    assert "function double" in shown


def test_an_operator_that_is_not_read_is_marked(tmp_path: Path) -> None:
    assert "Magic (refused)" in inspect(save(tmp_path, node("Magic")))


def test_the_file_of_a_weight_is_shown_and_not_opened(tmp_path: Path) -> None:
    assert "net_variables/data_0" in inspect(apart(tmp_path))


@pytest.mark.parametrize("content", [b"\x3a\x07", b"\xd8\x5e\x3a\x7f1234"])
def test_a_damaged_or_encrypted_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = save(tmp_path, content)
    with pytest.raises(ModelError) as caught:
        inspect(path)
    assert str(path) in caught.value.where
