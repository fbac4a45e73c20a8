"""Frameworks in processes of their own, with stand-ins that behave badly."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx
import pytest

from converter_lite.errors import ConverterError, ModelError, UsageError
from converter_lite.formats import framework
from converter_lite.formats.child import ANSWER, MODEL, REQUEST, Answer, WrongUsage, check_shapes, last_line
from converter_lite.formats.framework import Framework, describe_with, read_with
from converter_lite.formats.source import ModelFiles
from tests.support import build_proto, run

pytestmark = pytest.mark.once

FAKE = Framework("Fake", "FAKE", extra="fake", program="none", environment=MappingProxyType({"FAKE_SAYS": "hello"}))

WRITE = f"""
import json, os, pathlib, shutil, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[-1])
request = json.loads((folder / {REQUEST!r}).read_text())
def answer(**words):
    (folder / {ANSWER!r}).write_text(json.dumps(words))
"""


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files in a folder that must be empty in the end."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "model.pb").write_bytes(b"model")


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    """An interpreter that runs these lines, whatever it is asked to run."""
    program, shell = tmp_path / "stand_in.py", tmp_path / "python"
    program.write_text(WRITE + lines, encoding="utf-8")
    shell.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{program}" "$@"\n', encoding="utf-8")
    shell.chmod(shell.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv(FAKE.variable, str(shell))


def failure(tmp_path: Path, shapes: dict[str, tuple[int, ...]] | None = None) -> ConverterError:
    """How reading ends; nothing is left behind."""
    with pytest.raises(ConverterError) as refused:
        read_with(FAKE, ModelFiles(tmp_path / "model.pb", None, shapes or {}, True))
    assert list((tmp_path / "tmp").iterdir()) == []
    return refused.value


BAD = {
    "a traceback": (
        "raise RuntimeError('no kernel for Foo')",
        "RuntimeError: no kernel for Foo",
        "ended with status 1",
    ),
    "a crash": ("os.kill(os.getpid(), signal.SIGSEGV)", "it said nothing", "SIGSEGV"),
    "out of memory": ("print('big', flush=True); os.kill(os.getpid(), signal.SIGKILL)", "big", "out of memory"),
    "silence": ("", "it said nothing", "ended with status 0"),
    "much": ("for _ in range(3000): print('x' * 5000)\nsys.exit('the end')", "the end", "ended with status 1"),
    "one long line": ("print('x' * 3000000); sys.exit(1)", "x...", "ended with status 1"),
    "bytes": ("sys.stdout.buffer.write(bytes(range(128, 256))); sys.exit(3)", "\ufffd", "ended with status 3"),
    "no JSON": (f"(folder / {ANSWER!r}).write_text('{{')", "it said nothing", "ended with status 0"),
    "deep JSON": (f"(folder / {ANSWER!r}).write_text('[' * 100000)", "it said nothing", "ended with status 0"),
    "another answer": ("answer(other=1)", "it said nothing", "ended with status 0"),
    "an answer and a crash": ("answer(); print('then'); sys.exit(9)", "then", "ended with status 9"),
    "no model": ("answer()", "Fake ended without a result", ""),
    "a damaged model": (f"(folder / {MODEL!r}).write_bytes(b'\\xff' * 100); answer()", "", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_framework_that_fails_is_one_error(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, message, hint = BAD[name]
    stand_in(tmp_path, monkeypatch, lines)
    error = failure(tmp_path)
    assert isinstance(error, ModelError)
    assert message in error.message
    assert hint in error.hint
    assert error.where == str(tmp_path / "model.pb")
    assert "\n" not in error.message and len(error.message) < 800


def test_a_framework_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framework, "TIME_LIMIT", 4.0)
    mark = tmp_path / "mark"
    loop = f"while true; do date > {mark}; sleep 0.1; done"
    stand_in(
        tmp_path, monkeypatch, f"subprocess.Popen(['sh', '-c', {loop!r}])\nprint('waiting', flush=True)\ntime.sleep(60)"
    )
    start = time.perf_counter()
    error = failure(tmp_path)
    assert time.perf_counter() - start < 40
    assert "more than" in error.message
    assert error.hint == "waiting"
    mark.unlink(missing_ok=True)
    time.sleep(0.4)
    assert not mark.exists()


def test_an_interruption_ends_the_framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "ended late"
    stand_in(tmp_path, monkeypatch, f"time.sleep(3); pathlib.Path({str(mark)!r}).touch()")

    monkeypatch.setattr(subprocess.Popen, "wait", _interrupted_once(subprocess.Popen.wait))
    with pytest.raises(KeyboardInterrupt):
        read_with(FAKE, ModelFiles(tmp_path / "model.pb", None, {}, True))
    assert list((tmp_path / "tmp").iterdir()) == []
    time.sleep(3.5)
    assert not mark.exists()


def _interrupted_once(wait: object) -> object:
    calls: list[int] = []

    def interrupted(self: object, timeout: float | None = None) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return wait(self, timeout)  # type: ignore[operator]

    return interrupted


def test_the_model_that_a_framework_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made.onnx"
    onnx.save(build_proto("g (float[N,2] x) => (float[N,2] y) { y = Mul(x, w) }", w=np.array([2, 3], np.float32)), made)
    stand_in(tmp_path, monkeypatch, f"shutil.copy({str(made)!r}, folder / {MODEL!r}); answer(notes=['said once'])")
    source = read_with(FAKE, ModelFiles(tmp_path / "model.pb", None, {"x": (1, 2)}, True))
    assert source.bytes == len(b"model")
    assert source.where == str(tmp_path / "model.pb")
    np.testing.assert_array_equal(run(source.model, {"x": np.ones((1, 2), np.float32)})["y"], [[2, 3]])
    assert list((tmp_path / "tmp").iterdir()) == []


def test_weights_beside_the_model_are_read_before_they_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made.onnx"
    proto = build_proto("g (float[1,999] x) => (float[1,999] y) { y = Add(x, w) }", w=np.arange(999, dtype=np.float32))
    onnx.save(proto, made, save_as_external_data=True, location="weights", size_threshold=0)
    copies = f"shutil.copy({str(made)!r}, folder / {MODEL!r}); shutil.copy({str(tmp_path / 'weights')!r}, folder)"
    stand_in(tmp_path, monkeypatch, f"{copies}; answer()")
    source = read_with(FAKE, ModelFiles(tmp_path / "model.pb", None, {}, True))
    assert list((tmp_path / "tmp").iterdir()) == []
    np.testing.assert_array_equal(run(source.model, {"x": np.zeros((1, 999), np.float32)})["y"][0], np.arange(999))


def test_the_program_is_asked_with_all_that_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = tmp_path / "seen.json"
    lines = f"""
words = dict(request=request, arguments=sys.argv[1:], cwd=os.getcwd(), says=os.environ["FAKE_SAYS"],
             seed=os.environ["PYTHONHASHSEED"], path=os.environ.get("PYTHONPATH"), input=sys.stdin.read())
pathlib.Path({str(seen)!r}).write_text(json.dumps(words)); answer(blocks=["line", [["a", "b"]]])
"""
    stand_in(tmp_path, monkeypatch, lines)
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.chdir(tmp_path)
    assert describe_with(FAKE, Path("model.pb")) == ["line", [["a", "b"]]]
    words = json.loads(seen.read_text())
    model = str(tmp_path / "model.pb")
    assert words["request"] == {"task": "describe", "model": model, "shapes": {}, "unsafe": False}
    assert words["arguments"][1:] == ["none", words["cwd"]]
    assert (words["says"], words["seed"], words["path"], words["input"]) == ("hello", "0", None, "")


def test_refusals_of_the_program_name_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "answer(refused='it holds weights only', hint='save all')")
    error = failure(tmp_path)
    assert isinstance(error, ModelError)
    assert (error.message, error.where, error.hint) == ("it holds weights only", str(tmp_path / "model.pb"), "save all")


def test_refusals_without_a_remedy_are_the_frameworks_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "answer(refused='bad magic')")
    assert failure(tmp_path).message == "Fake cannot convert it: bad magic"


def test_shapes_that_do_not_fit_are_wrong_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, "answer(refused='no input q', hint='known are x', is_usage=True)")
    error = failure(tmp_path, {"q": (1,)})
    assert isinstance(error, UsageError)
    assert error.where == "--inputShape"


def test_another_interpreter_without_the_framework_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "answer(missing=['foo', 'bar'])")
    error = failure(tmp_path)
    assert isinstance(error, UsageError)
    assert error.message == f"reading Fake models needs foo and bar, which are not installed for {tmp_path / 'python'}"
    assert error.hint == f"{tmp_path / 'python'} -m pip install foo bar"


@pytest.mark.parametrize("kind", ["missing", "no program", "a folder"])
def test_an_interpreter_that_cannot_be_started_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = {"missing": tmp_path / "absent", "no program": tmp_path / "model.pb", "a folder": tmp_path}[kind]
    monkeypatch.setenv(FAKE.variable, str(path))
    error = failure(tmp_path)
    assert isinstance(error, UsageError)
    assert error.where == f"{FAKE.variable}={path}"


@pytest.mark.parametrize("kind", ["absent", "a pipe", "no permission"])
def test_files_that_cannot_be_read_start_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAKE.variable, str(tmp_path / "absent interpreter"))
    path = tmp_path / "model.pb"
    if kind == "absent":
        path.unlink()
    elif kind == "a pipe":
        path.unlink()
        os.mkfifo(path)
    else:
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("this user may read everything")
    error = failure(tmp_path)
    assert isinstance(error, ModelError)
    assert error.where == str(path)


def test_the_last_line_that_says_something_is_shown() -> None:
    assert last_line("one\n two \n\n  \n") == "two"
    assert last_line("") == ""
    assert len(last_line("x" * 10_000)) == 600


def test_shapes_fit_open_sizes_alone() -> None:
    inputs = {"x": [None, 3], "any": None, "one": []}
    check_shapes(inputs, {"x": [5, 3], "any": [1, 2, 3], "one": []})
    for given, message in (
        ({"y": [1]}, "no input 'y'"),
        ({"x": [5]}, r"'x' is \?x3, not 5"),
        ({"x": [5, 4]}, r"'x' is \?x3, not 5x4"),
        ({"one": [2]}, "a single number"),
    ):
        with pytest.raises(WrongUsage, match=message):
            check_shapes(inputs, given)


def test_an_empty_answer_refuses_nothing() -> None:
    assert Answer() == Answer(refused="", hint="", is_usage=False, missing=[], notes=[], blocks=[])


def test_sizes_that_the_framework_leaves_open_are_those_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(build_proto("g (float[N,3] x) => (float[N,3] y) { y = Relu(x) }"), tmp_path / "made.onnx")
    stand_in(tmp_path, monkeypatch, f"shutil.copy({str(tmp_path / 'made.onnx')!r}, folder / {MODEL!r}); answer()")
    given = {"x": (2, -1), "rate": (16000,)}  # the second is no input of the graph: the framework built it in
    model = read_with(FAKE, ModelFiles(tmp_path / "model.pb", None, given, True)).model
    for value in (*model.graph.inputs, *model.graph.outputs):
        assert value.shape is not None
        assert value.shape.numpy() == (2, 3)
