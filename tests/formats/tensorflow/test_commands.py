"""``--fmk=TF`` on the command line, where TensorFlow is missing or behaves badly."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from converter_lite.batch.jobs import jobs_of_models
from converter_lite.formats.registry import framework_of
from converter_lite.formats.tensorflow.source import TENSORFLOW
from tests.cli.workshop import Outcome, command

without_tensorflow = pytest.mark.skipif(find_spec("tensorflow") is not None, reason="TensorFlow is installed here")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(TENSORFLOW.variable, raising=False)
    Path("model.pb").write_bytes(b"\x0a\x00")
    Path("saved").mkdir()
    Path("saved/saved_model.pb").write_bytes(b"")


def convert(model: str, *arguments: str) -> Outcome:
    return command("--fmk=TF", f"--modelFile={model}", "--outputFile=out", *arguments)


@without_tensorflow
@pytest.mark.parametrize("model", ["model.pb", "saved", "saved/saved_model.pb"])
def test_a_missing_framework_is_one_sentence_and_the_command_that_installs_it(model: str) -> None:
    outcome = convert(model)
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        "ERROR --fmk=TF: reading TensorFlow models needs tensorflow and tf2onnx, which are not installed",
        "  pip install 'converter-lite[tensorflow]'",
    ]
    assert outcome.last_line == "CONVERT RESULT FAILED:2"
    assert sorted(path.name for path in Path().iterdir()) == ["model.pb", "saved"]


@without_tensorflow
def test_inspect_and_compare_say_so_too() -> None:
    hint = "pip install 'converter-lite[tensorflow]'"
    assert hint in command("inspect", "saved").err
    Path("model.onnx").write_bytes(b"")
    assert hint in command("compare", "model.pb", "model.onnx").err


def test_a_missing_model_is_named_before_the_framework_is() -> None:
    outcome = convert("absent.pb")
    assert outcome.status == 1
    assert "absent.pb: the model file does not exist" in outcome.err


def test_a_framework_that_crashes_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Path("python")
    program.write_text("#!/bin/sh\necho 'no kernel' >&2\nkill -SEGV $$\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv(TENSORFLOW.variable, str(program.resolve()))
    outcome = convert("model.pb")
    assert outcome.status == 1
    assert "TensorFlow cannot convert it: no kernel" in outcome.err
    assert "SIGSEGV" in outcome.err
    assert not Path("out.ms").exists() and not Path("out.onnx").exists()


@pytest.mark.parametrize("name", ["a.pb", "a.keras", "a.h5", "a.hdf5", "saved"])
def test_files_and_folders_are_known_by_their_names(name: str) -> None:
    assert framework_of(Path(name)) == "TF"


def test_batches_take_files_and_folders() -> None:
    Path("zoo").mkdir()
    Path("saved").rename("zoo/saved")
    Path("model.pb").rename("zoo/frozen.pb")
    Path("zoo/empty").mkdir()
    jobs = jobs_of_models(["zoo/*"], {}, "out")
    assert [(job.name, job.flag("fmk")) for job in jobs] == [("frozen", "TF"), ("saved", "TF")]


def test_the_package_imports_no_framework() -> None:
    """Not even where it is installed: a module of that name in the way would be found."""
    lines = """
import pkgutil, sys, importlib
class Found:
    def find_spec(self, name, path=None, target=None):
        assert name.split(".")[0] not in ("tensorflow", "tf2onnx", "keras", "h5py", "torch", "onnxscript"), name
sys.meta_path.insert(0, Found())
import converter_lite.formats
for module in pkgutil.walk_packages(converter_lite.formats.__path__, "converter_lite.formats."):
    if ".child." not in module.name or module.name.endswith((".main", ".trust", ".nodes")):
        importlib.import_module(module.name)
"""
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
