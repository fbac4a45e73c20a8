"""``--fmk=CAFFE`` on the command line: networks into all three formats, detectors, batches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import Outcome, command, full_quant_of_pictures
from tests.formats.caffe.cases import CASES
from tests.formats.caffe.detectors import ssd
from tests.formats.caffe.networks import layer, net, read, run, save
from tests.support import normal, since

ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"

NO_SCALARS = [name for name in CASES if name.endswith("from axis 0")]
"""Results without a dimension, which Paddle-Lite does not have."""


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(*arguments: str) -> Outcome:
    return command("--fmk=CAFFE", "--modelFile=net.prototxt", "--outputFile=out", *arguments)


def without_detection(text: str) -> str:
    """A detector that gives what its DetectionOutput layer would read."""
    return "\n".join(line for line in text.splitlines() if "DetectionOutput" not in line and "_prior" not in line)


COUNTED = (
    "AVE last window clipped",
    "AVE clipped, window smaller than the stride",
    "AVE rounded down, padded",
    "LRN within channels",
)
"""Averages that count their padding, which a .ms file has as an operator of its own."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=since("onnxruntime", 1, 21, reason="it fuses Pad into averages that count it, wrongly")
        )
        if name.endswith(COUNTED)
        else name
        for name in CASES
        if name not in NO_SCALARS
    ],
)
def test_every_layer_goes_into_every_format(name: str) -> None:
    save(Path(), CASES[name].text, CASES[name].weights)
    outcome = convert(ALL, "--json=r.json", "--minCosine=0.9999")
    assert outcome.status == 0, outcome
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["path"] for artefact in artefacts] == ["out.ms", "out.onnx", "out.nb"]


def test_a_detector_goes_into_onnx_and_gives_the_same_detections() -> None:
    path = save(Path(), *ssd())
    outcome = convert("--saveType=ONNX")
    assert outcome.status == 0, outcome
    feed = {"data": normal(1, 3, 64, 64)}
    expected = run(read(path).model, feed)["detection_out"]
    found = DEFAULT_ENGINE.session(Path("out.onnx"), threads=1).run(feed)["detection_out"]
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_devices_refuse_the_suppression_by_the_name_of_its_layer_and_take_the_network_before_it() -> None:
    text, weights = ssd()
    save(Path(), text, weights)
    for kind in ("MINDIR_LITE", "NAIVE_BUFFER"):
        outcome = convert(f"--saveType={kind}")
        assert outcome.status == 1
        assert "detection_out.NonMaxSuppression" in outcome.err
    save(Path(), without_detection(text), weights)
    outcome = convert(ALL, "--minCosine=0.9999")
    assert outcome.status == 0, outcome


def test_a_network_is_quantized_for_every_format() -> None:
    text, weights = ssd()
    save(Path(), without_detection(text), weights)
    config = full_quant_of_pictures("data", 64, "BGR")
    outcome = convert(ALL, f"--configFile={config}", "--json=r.json", "--minCosine=0.97")
    assert outcome.status == 0, outcome
    plans = json.loads(Path("r.json").read_text(encoding="utf-8"))["plans"]
    assert sorted(plans) == ["MINDIR_LITE", "NAIVE_BUFFER", "ONNX"]
    counts = {name: plan["quantized_nodes"] for name, plan in plans.items()}
    assert counts.pop("ONNX") == 2  # weights only: integers do not pay in so small a network
    assert min(counts.values()) > 3


def test_a_network_is_compared_layer_by_layer_with_what_was_made_of_it() -> None:
    text, weights = ssd()
    save(Path(), without_detection(text), weights)
    assert convert(ALL).status == 0
    for ending in ("onnx", "ms", "nb"):
        outcome = command("compare", "net.prototxt", f"out.{ending}", "--samples=2", "--minCosine=0.9999", "--shown=0")
        assert outcome.status == 0, outcome
        assert "conv3" in outcome.out


def test_a_missing_weight_file_is_an_error_with_the_flag() -> None:
    save(Path(), net(layer("PReLU"))).with_suffix(".caffemodel").unlink()
    outcome = convert("--saveType=ONNX")
    assert outcome.status == 2
    assert "net.caffemodel does not exist" in outcome.err
    assert "--weightFile" in outcome.err


def test_the_shape_of_an_input_can_be_given() -> None:
    save(Path(), net(layer("ReLU")))
    assert convert(ALL, "--inputShape=x:1,3,32,48").status == 0
    session = DEFAULT_ENGINE.session(Path("out.onnx"), threads=1)
    assert session.run({"x": normal(1, 3, 32, 48)})["y"].shape == (1, 3, 32, 48)
    assert "no input 'z'" in convert("--saveType=ONNX", "--inputShape=z:1,3,32,48").err


def test_a_batch_takes_a_folder_of_files_of_several_frameworks() -> None:
    save(Path("models"), *ssd())
    save(Path("more"), net(layer("ReLU")))
    assert (
        command(
            "--fmk=CAFFE", "--modelFile=more/net.prototxt", "--outputFile=models/small", "--saveType=ONNX,MINDIR_LITE"
        ).status
        == 0
    )
    (Path("models") / "small.onnx").rename(Path("models") / "other.onnx")
    outcome = command("batch", "models/*", "--outputDir=out", "--set", "saveType=ONNX")
    assert outcome.status == 0, outcome
    assert sorted(path.name for path in Path("out").iterdir()) == ["net.onnx", "other.onnx", "small.onnx"]


def test_a_batch_converts_again_what_has_other_weights_beside_it() -> None:
    text = net(layer("PReLU"))
    save(Path("models"), text, {"prelu": (np.zeros(3),)})
    line = ("batch", "models/net.prototxt", "--outputDir=out", "--set", "saveType=ONNX", "--resume")
    assert "1 converted, 0 as before" in command(*line).out
    assert "0 converted, 1 as before" in command(*line).out
    save(Path("models"), text, {"prelu": (np.ones(3),)})
    assert "1 converted, 0 as before" in command(*line).out
