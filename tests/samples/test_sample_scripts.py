"""The scripts around the converter, run with a stand-in for its command: what they ask of it, how they report it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = """#!{python}
import json, pathlib, shutil, sys
options = dict(argument[2:].split("=", 1) for argument in sys.argv[1:])
for key in ("modelFile", "configFile"):
    assert pathlib.Path(options[key]).is_file(), options[key]
if "bad" in pathlib.Path(options["outputFile"]).name:
    sys.exit("logits: mean cosine 0.9 is below the gate " + options["minCosine"])
shutil.copyfile(options["modelFile"], options["outputFile"] + ".onnx")
pathlib.Path(options["outputFile"] + ".args").write_text(json.dumps(options))
print("CONVERT RESULT SUCCESS:0")
"""


@pytest.fixture
def converter(tmp_path: Path) -> dict[str, str]:
    """The environment in which the scripts find a command that copies the model."""
    command = tmp_path / "stand_in"
    command.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    command.chmod(0o755)
    return {**os.environ, "CONVERTER_LITE": str(command)}


def batch(samples: Path, environment: dict[str, str], jobs: Path, output: Path) -> subprocess.CompletedProcess[str]:
    command = [str(samples / "batch_ci.sh"), str(jobs), str(output)]
    return subprocess.run(command, env=environment, cwd=output.parent, capture_output=True, text=True, check=False)


def test_convert_asks_for_the_documented_conversion(samples: Path, converter: dict[str, str], tmp_path: Path) -> None:
    command = [str(samples / "convert.sh"), "out/model"]
    subprocess.run(command, env=converter, cwd=tmp_path, check=True, capture_output=True)
    asked = (tmp_path / "out" / "model.args").read_text(encoding="utf-8")
    for option in ('"fmk": "ONNX"', '"modelFile": "samples/shapes.onnx"', '"configFile": "samples/full_quant.cfg"'):
        assert option in asked


def test_the_committed_jobs_run_with_one_line_each(samples: Path, converter: dict[str, str], tmp_path: Path) -> None:
    result = batch(samples, converter, samples / "jobs.txt", tmp_path / "out")
    assert (result.returncode, result.stderr) == (0, "")
    *jobs, total = result.stdout.splitlines()
    assert [line.split()[0] for line in jobs] == ["ok"] * 4
    assert total == "4 converted, 0 failed"


def test_a_missed_gate_fails_the_batch_after_the_other_jobs(
    samples: Path, converter: dict[str, str], tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.txt"
    model_and_config = "samples/shapes.onnx samples/full_quant.cfg"
    jobs.write_text(f"bad {model_and_config} 0.95\n\n# comment\ngood {model_and_config} 0.9", encoding="utf-8")
    result = batch(samples, converter, jobs, tmp_path / "out")
    assert result.returncode == 1
    assert result.stdout.splitlines()[0].startswith("FAILED  bad  exit status 1")
    assert "mean cosine 0.9 is below the gate 0.95" in result.stdout
    assert "ok      good" in result.stdout
    assert "mean cosine" in (tmp_path / "out" / "bad.log").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one model.onnx a.cfg\n", "jobs.txt:1: need four columns"),
        ("# c\none model.onnx a.cfg 0.9 more\n", "jobs.txt:2: need four columns"),
        ("# nothing\n", "no jobs"),
        (None, "cannot be read"),
    ],
)
def test_an_unusable_job_list_is_told_apart_from_a_missed_gate(
    samples: Path, converter: dict[str, str], tmp_path: Path, text: str | None, reason: str
) -> None:
    jobs = tmp_path / "jobs.txt"
    if text is not None:
        jobs.write_text(text, encoding="utf-8")
    result = batch(samples, converter, jobs, tmp_path / "out")
    assert result.returncode == 2
    assert reason in result.stderr


def test_every_job_file_path_exists(samples: Path) -> None:
    lines = (samples / "jobs.txt").read_text(encoding="utf-8").splitlines()
    for _, model, configuration, gate in (line.split() for line in lines if line and not line.startswith("#")):
        assert (samples.parent / model).is_file()
        assert (samples.parent / configuration).is_file()
        assert 0.9 <= float(gate) < 1


def test_the_demo_shows_the_accuracy_before_and_after(
    samples: Path,
    converter: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    demo = importlib.import_module("demo")
    monkeypatch.setattr(demo, "OUTPUT", tmp_path)
    monkeypatch.setattr(demo, "find_converter", lambda: converter["CONVERTER_LITE"])
    monkeypatch.setattr(sys, "argv", ["demo.py", "--all"])
    assert demo.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-4:]] == [
        "shapes.onnx",
        "shapes_int8.onnx",
        "shapes_weight8.onnx",
        "shapes_dynamic.onnx",
    ]


def test_the_demo_passes_on_the_converters_failure(
    samples: Path, converter: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = importlib.import_module("demo")
    monkeypatch.setattr(demo, "OUTPUT", tmp_path)
    monkeypatch.setattr(demo, "FLOAT_MODEL", tmp_path / "missing.onnx")
    monkeypatch.setattr(demo, "find_converter", lambda: converter["CONVERTER_LITE"])
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    assert demo.main() == 1
