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


def test_convert_asks_for_the_documented_conversion(samples: Path, converter: dict[str, str], tmp_path: Path) -> None:
    command = [str(samples / "convert.sh"), "out/model"]
    subprocess.run(command, env=converter, cwd=tmp_path, check=True, capture_output=True)
    asked = (tmp_path / "out" / "model.args").read_text(encoding="utf-8")
    for option in ('"fmk": "ONNX"', '"modelFile": "samples/shapes.onnx"', '"configFile": "samples/full_quant.cfg"'):
        assert option in asked


def test_the_committed_jobs_convert_and_a_missed_gate_fails_the_step(samples: Path, tmp_path: Path) -> None:
    command = tmp_path / "converter"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m converter_lite "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = {**os.environ, "CONVERTER_LITE": str(command), "PYTHONPATH": str(samples.parent)}
    text = (samples / "jobs.toml").read_text(encoding="utf-8")
    text = text.replace('folder = ".."', f'folder = "{samples.parent}"').replace("demo_output", str(tmp_path / "out"))
    strict = text.replace("minCosine = 0.98 ", "minCosine = 1.0 ")
    assert strict != text
    jobs = tmp_path / "jobs.toml"
    jobs.write_text(strict, encoding="utf-8")
    script = [str(samples / "batch_ci.sh"), str(jobs), str(tmp_path / "reports")]
    result = subprocess.run(script, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (1, "")
    *ended, total = result.stdout.splitlines()
    assert sorted(line.split()[1] for line in ended) == ["FAILED", "ok", "ok", "ok"]
    assert total.startswith("3 converted, 0 as before, 1 failed")
    assert (tmp_path / "reports" / "junit.xml").is_file()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "shapes_dynamic.onnx",
        "shapes_int8.onnx",
        "shapes_weight8.onnx",
    ]


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
