"""Shells complete flags, words, lists and files, in both spellings of a flag with a value."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.workshop import environment

CASES = [
    (["--fmk=ON"], ["--fmk=ONNX"]),
    (["--fmk", "ON"], ["ONNX"]),
    (["--saveType=ONNX,NA"], ["--saveType=ONNX,NAIVE_BUFFER"]),
    (["--saveT"], ["--saveType"]),
    (["sensi"], ["sensitivity"]),
    (["template", "dyn"], ["dynamic_quant"]),
    (["opt", "--quant_type=QUANT_INT1"], ["--quant_type=QUANT_INT16"]),
]


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A search path on which ``converter_lite`` is."""
    program = tmp_path / "converter_lite"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m converter_lite "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return f"{tmp_path}:{environment()['PATH']}"


def output(line: list[str], path: str) -> list[str]:
    done = subprocess.run(line, capture_output=True, text=True, env=environment(PATH=path), timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell: str, path: str) -> None:
    line = ["env", f"_CONVERTER_LITE_COMPLETE={shell}_source", "converter_lite"]
    text = "\n".join(output(line, path))
    assert f"_CONVERTER_LITE_COMPLETE={shell}_complete" in text
    if shell == "zsh":  # its matching is left to zsh, which is told where a value begins
        assert "compset -P '--*='" in text
        assert "compadd -U" not in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes(path: str) -> None:
    cases = []
    for arguments, _ in CASES:
        parts = [part for word in arguments for part in word.replace("=", " = ").split()]
        cases.append(f"COMP_WORDS=(converter_lite {' '.join(parts)}); COMP_CWORD={len(parts)}; COMPREPLY=()")
        cases.append('_converter_lite_completion converter_lite; echo "${COMPREPLY[@]}"')
    script = "\n".join(['eval "$(_CONVERTER_LITE_COMPLETE=bash_source converter_lite)"', *cases])
    found = output(["bash", "--norc", "-c", script], path)
    assert found == [word.rpartition("=")[2] for _, wanted in CASES for word in wanted]


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes(path: str) -> None:
    lines = [f"complete -C 'converter_lite {' '.join(arguments)}'" for arguments, _ in CASES]
    script = "\n".join(["_CONVERTER_LITE_COMPLETE=fish_source converter_lite | source", *lines])
    found = [line.partition("\t")[0] for line in output(["fish", "--no-config", "-c", script], path)]
    assert found == [word for _, wanted in CASES for word in wanted]


def test_a_path_is_completed_by_the_shell(path: str) -> None:
    variables = ["_CONVERTER_LITE_COMPLETE=bash_complete", "COMP_WORDS=converter_lite --modelFile samp", "COMP_CWORD=2"]
    assert output(["env", *variables, "converter_lite"], path) == ["file,samp"]
