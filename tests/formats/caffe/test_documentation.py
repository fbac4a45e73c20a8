"""The page about Caffe says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from converter_lite.formats.caffe.importer.table import KINDS, REFUSED
from converter_lite.formats.caffe.network import V1_TYPES, read_network
from tests.formats.caffe.cases import CASES
from tests.formats.caffe.networks import read, save


@pytest.mark.parametrize("name", CASES)
def test_a_layer_becomes_the_operators_that_the_table_names(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    kinds = {layer.type for layer in read_network(case.text.encode()).layers}
    named = set(re.findall(r"\w+", " ".join(KINDS[kind].becomes for kind in kinds)))
    found = {node.op_type for node in read(save(tmp_path, case.text, case.weights)).model.graph}
    assert found - {"Identity"} <= named


def test_every_layer_of_the_table_is_tested() -> None:
    tested = {layer.type for case in CASES.values() for layer in read_network(case.text.encode()).layers}
    assert set(KINDS) - tested == {"PriorBox", "DetectionOutput"}  # tests of their own, test_detectors.py


def test_a_layer_is_read_or_refused_and_not_both() -> None:
    assert not set(KINDS) & set(REFUSED)
    assert {name for _, name in V1_TYPES.values()} <= set(KINDS) | set(REFUSED)
