"""``--fmk=PADDLE``: models of Paddle on the command line, float and quantized, into all three formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from converter_lite.formats.paddle.inference_model.reader import read_paddle
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.program import Operator, Program
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.cli.workshop import Outcome, command
from tests.formats.paddle.inference_models import (
    fake_quantized_model,
    float_model,
    linear_quantized_model,
    program_of,
    save,
    trained_model,
)

Maker = Callable[[], tuple[Program, dict[str, np.ndarray]]]
QUANTIZED = (fake_quantized_model, linear_quantized_model, trained_model)
ALL = "--saveType=MINDIR_LITE,ONNX,NAIVE_BUFFER"


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(*arguments: str) -> Outcome:
    return command("--fmk=PADDLE", "--outputFile=out", *arguments)


@pytest.mark.parametrize("maker", [float_model, *QUANTIZED])
def test_a_paddle_model_becomes_a_file_of_every_format_with_its_proof(maker: Maker) -> None:
    save(Path("model"), *maker())
    outcome = convert("--modelFile=model", ALL, "--inputShape=image:1,3,8,8", "--json=r.json")
    assert outcome.status == 0, outcome
    artefacts = json.loads(Path("r.json").read_text(encoding="utf-8"))["artefacts"]
    assert [artefact["path"] for artefact in artefacts] == ["out.ms", "out.onnx", "out.nb"]
    assert min(artefact["accuracy"][0]["cosine"] for artefact in artefacts) > 0.99
    operators = parse(Path("out.nb").read_bytes()).program.main.operators
    assert any(op.get("enable_int8") for op in operators) == (maker is not float_model)


def test_the_folder_of_a_model_may_be_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(save(Path("model"), *float_model()))
    outcome = convert("--modelFile=.", "--saveType=ONNX")
    assert outcome.status == 0, outcome
    assert command("doctor", ".").status == 0


@pytest.mark.parametrize("maker", QUANTIZED)
def test_the_scales_of_a_quantized_model_are_those_of_its_files(maker: Maker) -> None:
    folder = save(Path("model"), *maker())
    assert convert("--modelFile=model", "--saveType=NAIVE_BUFFER").status == 0
    theirs, ours = read_paddle(folder).plan, read(Path("out.nb").read_bytes()).plan
    assert theirs.weights and theirs.activations
    assert [p.scale.tolist() for p in ours.weights.values()] == [p.scale.tolist() for p in theirs.weights.values()]
    scales = {float(params.scale) for params in theirs.activations.values()}
    assert {float(params.scale) for params in ours.activations.values()} <= scales


def test_program_and_parameters_can_be_named_one_by_one() -> None:
    folder = save(Path("model"), *float_model())
    (folder / "inference.pdiparams").rename("weights.bin")
    files = (f"--modelFile={folder}/inference.pdmodel", "--weightFile=weights.bin")
    assert convert(*files, "--saveType=NAIVE_BUFFER").status == 0


def test_a_float_model_of_paddle_is_quantized_like_any_other() -> None:
    save(Path("model"), *float_model())
    Path("w.cfg").write_text("[common_quant_param]\nquant_type=WEIGHT_QUANT\nmin_quant_weight_channel=0\n")
    outcome = convert("--modelFile=model", "--saveType=NAIVE_BUFFER", "--configFile=w.cfg")
    assert outcome.status == 0, outcome
    assert {array.dtype.name for array in parse(Path("out.nb").read_bytes()).parameters.values()} >= {"int8"}


@pytest.mark.parametrize("maker", [float_model, fake_quantized_model])
def test_a_nb_file_becomes_an_onnx_file(maker: Maker) -> None:
    save(Path("model"), *maker())
    assert convert("--modelFile=model", "--saveType=NAIVE_BUFFER,ONNX").status == 0
    outcome = command("--fmk=PADDLE", "--modelFile=out.nb", "--outputFile=again", "--saveType=ONNX")
    assert outcome.status == 0, outcome
    feed = {"image": np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)}
    first, second = (next(iter(DEFAULT_ENGINE.session(Path(n)).run(feed).values())) for n in ("out.onnx", "again.onnx"))
    assert np.abs(first - second).max() < 1e-6


def test_a_nb_file_that_is_none_is_refused() -> None:
    Path("no.nb").write_bytes(b"PK\x03\x04" * 20)
    assert command("--fmk=PADDLE", "--modelFile=no.nb", "--outputFile=out").status == 1
    assert command("--fmk=PADDLE", "--modelFile=absent.nb", "--outputFile=out").status in (1, 2)


def test_a_truncated_program_leaves_nothing_behind() -> None:
    folder = save(Path("model"), *float_model())
    program = folder / "inference.pdmodel"
    program.write_bytes(program.read_bytes()[:150])
    outcome = convert("--modelFile=model", ALL)
    assert outcome.status == 1
    assert "damaged" in outcome.err
    assert not list(Path().glob("out.*"))


def test_a_folder_is_shown_as_its_program_is() -> None:
    save(Path("model"), *linear_quantized_model())
    shown = command("inspect", "model")
    assert shown.status == 0, shown
    lines = shown.out.splitlines()
    assert lines[0].startswith("Paddle program")
    assert any("quantize_linear" in line for line in lines)
    for name in ("inference.pdmodel", "inference.pdiparams"):
        assert command("inspect", f"model/{name}").out == shown.out
    Path("model/inference.pdmodel").rename("model/__model__")
    Path("model/inference.pdiparams").rename("model/__params__")
    assert command("inspect", "model").out == shown.out


def test_an_operator_is_shown_with_its_result_and_not_with_its_means() -> None:
    parameters = {name: np.ones(3, np.float32) for name in ("b", "m", "s", "v")}
    inputs = {"X": ["x"], "Bias": ["b"], "Mean": ["m"], "Scale": ["s"], "Variance": ["v"]}
    outputs = {"MeanOut": ["m"], "SavedMean": ["sm"], "VarianceOut": ["v"], "Y": ["y"]}
    program = program_of([Operator("batch_norm", inputs, outputs)], parameters, {"x": (1, 3, 4, 4)}, "y")
    save(Path("model"), program, parameters)
    (line,) = (line for line in command("inspect", "model").out.splitlines() if "batch_norm" in line)
    assert line.split()[-1].startswith("y")


@pytest.mark.parametrize("names", [(), ("net.pdmodel", "net.pdiparams")])
def test_a_folder_of_other_files_is_refused_with_what_to_name(names: tuple[str, ...]) -> None:
    Path("model").mkdir()
    for name in names:
        Path("model", name).write_bytes(b"x")
    shown = command("inspect", "model")
    assert shown.status == 2
    assert "inference.pdmodel" in shown.err
    assert "name the model file in it" in shown.err
