"""``--fmk=PYTORCH`` on the command line, where PyTorch is missing, and ``inspect``, which does without."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from converter_lite.formats.child import forbid_programs
from converter_lite.formats.pytorch.source import PYTORCH
from converter_lite.formats.registry import framework_of
from tests.cli.workshop import command
from tests.formats.pytorch.archives import Bomb, exported, saved, scripted
from tests.support import build_proto

without_torch = pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed here")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PYTORCH.variable, raising=False)


@without_torch
def test_a_missing_framework_is_one_sentence_and_the_command_that_installs_it() -> None:
    exported(Path("net.pt2"))
    outcome = command("--fmk=PYTORCH", "--modelFile=net.pt2", "--outputFile=out")
    assert outcome.status == 2
    assert outcome.err.splitlines() == [
        "ERROR --fmk=PYTORCH: reading PyTorch models needs torch and onnxscript, which are not installed",
        "  pip install 'converter-lite[pytorch]'",
    ]
    assert [path.name for path in Path().iterdir()] == ["net.pt2"]


@pytest.mark.parametrize("name", ["a.pt2", "a.pt", "a.jit", "a.pth"])
def test_files_are_known_by_their_names(name: str) -> None:
    assert framework_of(Path(name)) == "PYTORCH"


def test_inspect_shows_programs_and_scripts() -> None:
    exported(Path("net.pt2"))
    scripted(Path("net.jit"))
    shown = command("inspect", "net.pt2")
    assert shown.status == 0
    for text in ("program of torch.export 2.13.0, 1 nodes", "torch.ops.aten.linear.default", "parameter  weight"):
        assert text in shown.out
    shown = command("inspect", "net.jit")
    assert shown.status == 0
    assert "TorchScript, 1 modules with code, 1 stored tensors" in shown.out
    assert "x: Tensor, times: int" in shown.out


def test_inspect_unpickles_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    saved(Path("net.pt"), Bomb())
    outcome = command("inspect", "net.pt")
    assert outcome.status == 1
    assert "runs whatever code" in outcome.err
    assert "executed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        '{"graph_module": {"graph": 1}}',
        "[]",
        '{"graph_module": {"graph": {}, "signature": {"input_specs": [{}]}}}',
    ],
)
def test_inspect_refuses_damaged_programs(content: str) -> None:
    exported(Path("net.pt2"), content)
    outcome = command("inspect", "net.pt2")
    assert outcome.status == 1
    assert "damaged" in outcome.err


def test_numbers_that_were_built_in_are_no_inputs_later(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = "g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }"
    onnx.save(build_proto(graph), "made.onnx")
    lines = f"""
import pathlib, shutil, sys
folder = pathlib.Path(sys.argv[-1])
shutil.copy({str(Path("made.onnx").resolve())!r}, folder / "model.onnx")
(folder / "answer.json").write_text("{{}}")
"""
    Path("program.py").write_text(lines, encoding="utf-8")
    Path("python").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" "{Path("program.py").resolve()}" "$@"\n', encoding="utf-8"
    )
    Path("python").chmod(0o755)
    monkeypatch.setenv(PYTORCH.variable, str(Path("python").resolve()))
    scripted(Path("net.jit"))
    shapes = "--inputShape=x:1,4;times:3"
    outcome = command("--fmk=PYTORCH", "--modelFile=net.jit", "--outputFile=out", shapes, "--saveType=ONNX,MINDIR_LITE")
    assert outcome.status == 0, outcome.err
    assert command("compare", "net.jit", "out.ms", shapes).status == 0


GUARDED = """
import sys
sys.path.insert(0, {root!r})
from converter_lite.formats.child import forbid_programs
import collections, os, pickle, subprocess
forbid_programs()
assert pickle.loads(pickle.dumps(collections.OrderedDict(a=1), protocol=2)) == {{"a": 1}}
for act in ({acts}):
    try:
        act()
    except RuntimeError as error:
        assert "the file would" in str(error), error
    else:
        raise AssertionError("not stopped")
"""


def test_what_the_checks_do_not_know_is_stopped_while_it_runs() -> None:
    import subprocess

    acts = "lambda: os.system('true'), lambda: subprocess.run(['true']), lambda: pickle.loads(b'cos\\nsystem\\n.'),"
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", GUARDED.format(root=root, acts=acts)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert callable(forbid_programs)
