"""What ``inspect`` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from converter_lite.cli.inspect import inspect
from converter_lite.errors import FormatError, ModelError
from tests.formats.tflite.files import File
from tests.formats.tflite.models import convolutional, recurrent
from tests.formats.tflite.test_refusals import one
from tests.formats.tflite.test_structure import called


def shown(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return inspect(path)


def test_operators_tensors_and_scales_are_shown(tmp_path: Path) -> None:
    text = shown(tmp_path / "net.tflite", convolutional(integers=True))
    assert text.startswith("TensorFlow Lite model, schema version 3, 'made by a test', ")
    rows = {line.split()[1]: line for line in text.splitlines() if line[:1].isdigit()}
    assert "1x8x8x3" in rows["CONV_2D"]
    assert "activation=3" in rows["CONV_2D"]
    assert "scale 0.04, zero point -3" in rows["image"]
    assert "8 channels along axis 3" in rows["second"]
    assert rows["first"].split()[-1] == "216"


def test_states_open_sizes_and_sparse_constants_are_shown(tmp_path: Path) -> None:
    text = shown(tmp_path / "rnn.tflite", recurrent())
    assert "?x4x3" in text
    assert "sparse constant" in text
    assert " state " in text


def test_signatures_graphs_and_what_is_not_converted_are_shown(tmp_path: Path) -> None:
    file = one("SVDF")
    called(file, "inner", 2.0)
    file.signature("encode", 0)
    text = shown(tmp_path / "two.tflite", file.bytes())
    assert "signatures: encode (graph 0)" in text
    assert "operators that are not converted: SVDF" in text
    assert "graph 1 'inner'" in text


def test_a_custom_operator_is_shown_by_its_name(tmp_path: Path) -> None:
    file = File()
    main = file.main
    main.ends_with(*main.op("CUSTOM", [main.input((2,))], [main.tensor((2,))], custom_code="Own"))
    assert "Own (custom)" in shown(tmp_path / "custom.tflite", file.bytes())


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"bad\.tflite"):
        shown(tmp_path / "bad.tflite", convolutional()[:-300])


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be read"):
        inspect(tmp_path / "absent.tflite")
