"""Samples for the proof, in every kind of conversion."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.workshop import FULL, WEIGHT, Config, Workshop, command
from tests.support import build_proto, normal

ROWS = "g (float[5,4] x, int64[3] rows) => (float[3,4] y) { a = MatMul(x, w) y = Gather(a, rows) }"


def two_inputs() -> None:
    onnx.save(build_proto(ROWS, w=normal(4, 4)), "two.onnx")


@pytest.mark.parametrize("config", [None, WEIGHT, FULL], ids=["float", "weight", "full"])
def test_an_archive_gives_the_samples_of_the_proof(workshop: Workshop, config: Config | None) -> None:
    np.savez("proof.npz", x=normal(3, 1, 3, 8, 8))
    outcome = workshop.succeed("--proofData=proof.npz", "--json=r.json", config=config)
    artefact = json.loads(Path("r.json").read_text())["artefacts"][0]
    assert (artefact["samples"], artefact["real_samples"], artefact["sample_kind"]) == (3, True, "proof")
    assert artefact["gate"] == 0.95
    assert "compared with the float model on 3 proof samples" in outcome.out


def test_one_sample_may_be_given_beside_several_of_another_input(workshop: Workshop) -> None:
    two_inputs()
    np.savez("proof.npz", x=normal(2, 5, 4), rows=np.array([4, 0, -5]))
    outcome = workshop.succeed("--proofData=proof.npz", model="two.onnx")
    assert "on 2 proof samples" in outcome.out


def test_a_folder_holds_a_folder_for_each_input(workshop: Workshop) -> None:
    two_inputs()
    for name, array in {"x": normal(5, 4), "rows": np.array([4, 4, 3])}.items():
        (Path("proof") / name).mkdir(parents=True)
        array.tofile(Path("proof") / name / "0.bin")
    assert "on 1 proof sample," in workshop.succeed("--proofData=proof", model="two.onnx").out
    assert "on 4 proof samples" in workshop.succeed("--proofData=bins").out


def test_a_model_that_runs_on_few_samples_only_asks_for_them(workshop: Workshop) -> None:
    found = "g (float[4] x) => (float[1,3] y) { b = Greater(x, c) i = NonZero(b) f = Cast<to=1>(i) y = Reshape(f, s) }"
    onnx.save(build_proto(found, c=np.float32(100), s=np.array([1, 3])), "few.onnx")
    told = workshop.fail(1, model="few.onnx")
    assert "onnxruntime could not run the model" in told
    assert "give samples that it runs on with --proofData" in told
    np.savez("proof.npz", x=np.array([[0, 200, 300, 400]], np.float32))
    workshop.succeed("--proofData=proof.npz", model="few.onnx")


BAD = {
    "absent": "there is no such file or folder",
    "model.onnx": "this is not an .npz file of numbers",
    "one.npy": "this is not an .npz file of numbers",
    "objects.npz": "this is not an .npz file of numbers",
    "other.npz": "the model has no input 'y'",
    "missing.npz": "there is no array for input 'rows'",
    "rank.npz": "has neither the 2 dimensions of the input [5,4] nor one more in front",
    "counts.npz": "different numbers of samples",
    "shape.npz": "sample 1",
    "empty": "cannot be read",
    "none.npz": "holds no sample",
    "damaged.npz": "not an .npz file",
}


@pytest.mark.parametrize("path", BAD)
def test_samples_that_do_not_fit_are_refused_before_anything_is_written(workshop: Workshop, path: str) -> None:
    two_inputs()
    x, rows = normal(5, 4), np.array([1, 2, 3])
    np.save("one.npy", x)
    np.savez("objects.npz", x=np.array([{}], object), rows=rows)
    np.savez("other.npz", y=x, rows=rows)
    np.savez("missing.npz", x=x)
    np.savez("rank.npz", x=x[0], rows=rows)
    np.savez("counts.npz", x=normal(2, 5, 4), rows=np.array([rows] * 3))
    np.savez("shape.npz", x=normal(6, 4), rows=rows)
    np.savez("none.npz", x=normal(0), rows=rows)
    np.savez_compressed("damaged.npz", x=np.zeros(1000, np.float32), rows=rows)
    content = bytearray(Path("damaged.npz").read_bytes())
    content[60:70] = bytes(10)
    Path("damaged.npz").write_bytes(content)
    Path("empty").mkdir()
    before = workshop.content()
    outcome = command(
        "--fmk=ONNX", "--modelFile=two.onnx", "--outputFile=out", f"--proofData={path}", "--saveType=ONNX"
    )
    assert outcome.status == 1, outcome.err
    assert BAD[path] in outcome.err
    assert f"--proofData={path}" in outcome.err or path == "shape.npz"
    assert workshop.content() == before


def test_a_dry_run_says_that_it_proves_nothing(workshop: Workshop) -> None:
    outcome = workshop.succeed("--proofData=bins", "--dryRun", config=WEIGHT)
    assert "--proofData=bins has no effect: a dry run proves nothing" in outcome.out + outcome.err


@pytest.mark.parametrize("flag", ["json", "savePlan", "report"])
@pytest.mark.parametrize("path", ["proof.npz", "bins/000.bin"])
def test_samples_are_not_overwritten(workshop: Workshop, flag: str, path: str) -> None:
    np.savez("proof.npz", x=normal(2, 3, 8, 8))
    before = Path(path).read_bytes()
    proof = path if path.endswith("npz") else "bins"
    outcome = workshop.convert(f"--proofData={proof}", f"--{flag}={path}", config=WEIGHT)
    assert outcome.status == 2
    assert Path(path).read_bytes() == before
