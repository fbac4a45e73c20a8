"""``--fmk=TFLITE``: TensorFlow Lite files on the command line, float and quantized, into all three formats."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.tflite.importer.graph import to_quantized_model
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import Outcome, command
from tests.formats.tflite.case import normal
from tests.formats.tflite.models import convolutional, narrow, recurrent
from tests.formats.tflite.running import outputs
from tests.formats.tflite.test_refusals import one

ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"
FILES = {
    "float": convolutional,
    "int8": lambda: convolutional(integers=True),
    "lstm": recurrent,
    "int4": narrow,
}
FIXED = {"lstm": ("--inputShape=x:1,4,3",)}
"""Flags of files with open sizes, which ``.nb`` files of an LSTM have not."""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(data: bytes, *arguments: str) -> Outcome:
    Path("model.tflite").write_bytes(data)
    return command("--fmk=TFLITE", "--modelFile=model.tflite", "--outputFile=out", *arguments)


@pytest.mark.parametrize("name", FILES)
def test_a_file_becomes_one_of_every_format_with_its_proof(name: str) -> None:
    outcome = convert(FILES[name](), ALL, "--json=r.json", *FIXED.get(name, ()))
    assert outcome.status == 0, outcome
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["path"] for artefact in artefacts] == ["out.ms", "out.onnx", "out.nb"]
    assert min(artefact["accuracy"][0]["cosine"] for artefact in artefacts) > 0.95
    assert artefacts[1]["accuracy"][0]["cosine"] > 0.999999


def test_the_written_file_computes_what_the_reader_says() -> None:
    data = convolutional(integers=True)
    assert convert(data, "--saveType=ONNX").status == 0
    given = normal(1, 8, 8, 3)
    (found,) = DEFAULT_ENGINE.session(Path("out.onnx"), optimize=False).run({"image": given}).values()
    (expected,) = outputs(to_quantized_model(data), given)
    np.testing.assert_array_equal(found, expected)


def test_the_scales_of_the_written_file_are_those_of_the_file() -> None:
    data = convolutional(integers=True)
    assert convert(data, "--saveType=ONNX").status == 0
    plan = to_quantized_model(data).plan
    graph = onnx.load("out.onnx").graph
    stored = {value.name: onnx.numpy_helper.to_array(value) for value in graph.initializer}
    grids = {
        (float(stored[node.input[1]]), int(stored[node.input[2]]))
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    }
    assert grids == {
        (float(p.scale), int(p.zero_point) + 128) for p in plan.activations.values()
    }  # uint8 on the same grid
    assert grids == {(float(np.float32(0.04)), -3 + 128), (1 / 256, 0)}


def test_the_interface_can_be_that_of_the_file() -> None:
    outcome = convert(convolutional(integers=True), "--saveType=ONNX", "--inputDataType=INT8", "--outputDataType=INT8")
    assert outcome.status == 0, outcome
    graph = onnx.load("out.onnx").graph
    kinds = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    assert kinds == [onnx.TensorProto.INT8] * 2


def test_a_float_file_is_quantized_like_any_other() -> None:
    Path("w.cfg").write_text("[common_quant_param]\nquant_type=WEIGHT_QUANT\nmin_quant_weight_channel=0\n")
    outcome = convert(convolutional(), "--saveType=NAIVE_BUFFER", "--configFile=w.cfg")
    assert outcome.status == 0, outcome
    assert {array.dtype.name for array in parse(Path("out.nb").read_bytes()).parameters.values()} >= {"int8"}


def test_a_quantized_file_is_not_quantized_again() -> None:
    Path("w.cfg").write_text("[common_quant_param]\nquant_type=WEIGHT_QUANT\n")
    outcome = convert(convolutional(integers=True), "--saveType=ONNX", "--configFile=w.cfg")
    assert outcome.status == 1
    assert "the model is quantized already" in outcome.err


def test_what_cannot_be_translated_leaves_nothing_behind() -> None:
    outcome = convert(one("SVDF").bytes(), ALL)
    assert outcome.status == 1
    assert "SVDF (y)" in outcome.err
    assert not list(Path().glob("out.*"))


def test_a_file_that_is_none_is_refused() -> None:
    outcome = convert(b"PK\x03\x04" * 20)
    assert outcome.status == 1
    assert "this is not a TensorFlow Lite file" in outcome.err
    assert command("--fmk=TFLITE", "--modelFile=absent.tflite", "--outputFile=out").status in (1, 2)


def test_inspect_batch_and_compare_know_the_files() -> None:
    Path("model.tflite").write_bytes(convolutional())
    shown = command("inspect", "model.tflite")
    assert shown.status == 0
    assert "DEPTHWISE_CONV_2D" in shown.out
    assert command("batch", "*.tflite", "--outputDir=made", "--set=saveType=ONNX").status == 0
    assert Path("made/model.onnx").is_file()
    compared = command("compare", "model.tflite", "made/model.onnx", "--samples=2")
    assert compared.status == 0, compared
    assert "no layer breaks" in compared.out


def test_a_quantized_file_cannot_be_the_float_model_of_a_comparison() -> None:
    assert convert(convolutional(integers=True), "--saveType=ONNX").status == 0
    outcome = command("compare", "model.tflite", "out.onnx")
    assert outcome.status == 2
    assert "quantized already" in outcome.err
