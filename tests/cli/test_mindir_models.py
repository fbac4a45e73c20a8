"""``--fmk=MINDIR`` on the command line: networks into all three formats, batches, comparisons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import Outcome, command, full_quant_of_pictures
from tests.formats.mindir.files import read, run, save
from tests.formats.mindir.networks import convolutional, recurrent, transformer
from tests.formats.mindir.test_structure import FRONT, W, X, apart
from tests.support import normal

ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"
NETWORKS = {"convolutional": convolutional, "recurrent": recurrent, "transformer": transformer}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(*arguments: str, model: str = "net.mindir") -> Outcome:
    return command("--fmk=MINDIR", f"--modelFile={model}", "--outputFile=out", *arguments)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_goes_into_every_format(name: str) -> None:
    save(Path(), NETWORKS[name]())
    outcome = convert(ALL, "--json=r.json", "--minCosine=0.9999")
    assert outcome.status == 0, outcome
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["path"] for artefact in artefacts] == ["out.ms", "out.onnx", "out.nb"]


def test_a_network_is_quantized_for_every_format() -> None:
    save(Path(), convolutional())
    config = full_quant_of_pictures("x", 16, "RGB")
    outcome = convert(ALL, f"--configFile={config}", "--json=r.json", "--minCosine=0.97")
    assert outcome.status == 0, outcome
    plans = json.loads(Path("r.json").read_text(encoding="utf-8"))["plans"]
    assert min(plan["quantized_nodes"] for plan in plans.values()) > 3


def test_a_network_is_compared_with_what_was_made_of_it() -> None:
    save(Path(), convolutional())
    assert convert(ALL).status == 0
    for ending in ("onnx", "ms", "nb"):
        outcome = command("compare", "net.mindir", f"out.{ending}", "--samples=2", "--minCosine=0.9999", "--shown=0")
        assert outcome.status == 0, outcome
        assert "Default/fc-Dense/BiasAdd-op0" in outcome.out


def test_the_shape_of_an_input_can_be_given() -> None:
    save(Path(), convolutional())
    outcome = convert("--saveType=ONNX", "--inputShape=x:1,3,32,32")
    assert outcome.status == 0, outcome
    expected = run(read(Path("net.mindir"), x=(1, 3, 32, 32)).model, {"x": normal(1, 3, 32, 32)})[0]
    session = DEFAULT_ENGINE.session(Path("out.onnx"), threads=1)
    (found,) = session.run({"x": normal(1, 3, 32, 32)}).values()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_a_batch_takes_files_of_several_frameworks_by_their_endings() -> None:
    save(Path("models"), transformer(), "words.mindir")
    save(Path("models"), recurrent(), "steps.mindir")
    assert convert("--saveType=ONNX", model="models/words.mindir").status == 0
    Path("out.onnx").rename("models/other.onnx")
    outcome = command("batch", "models/*", "--outputDir=out", "--set", "saveType=ONNX")
    assert outcome.status == 0, outcome
    assert sorted(path.name for path in Path("out").iterdir()) == ["other.onnx", "steps.onnx", "words.onnx"]


def test_a_model_with_its_weights_in_a_folder_is_converted() -> None:
    apart(Path())
    Path("net_variables").mkdir()
    Path("net_variables/data_0").write_bytes(FRONT + W.tobytes())
    outcome = convert("--saveType=ONNX", model="net_graph.mindir")
    assert outcome.status == 0, outcome
    (found,) = DEFAULT_ENGINE.session(Path("out.onnx"), threads=1).run({"x": X}).values()
    np.testing.assert_allclose(found, X @ W, atol=1e-5)


def test_an_encrypted_file_is_an_error_with_a_remedy() -> None:
    save(Path(), b"\xd8\x5e\x3a\x7f" + bytes(64))
    outcome = convert("--saveType=ONNX")
    assert outcome.status == 1
    assert "net.mindir: the file is encrypted" in outcome.err
    assert "--decryptKey" in outcome.err
