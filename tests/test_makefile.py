"""``make check`` with stand-ins for its tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = "== 3 passed =="


def stand_in(path: Path, lines: str) -> None:
    path.write_text(f"#!/bin/sh\n{lines}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
@pytest.mark.parametrize("lint", [0, 1])
@pytest.mark.parametrize("tests", [0, 1])
def test_check_runs_lint_and_then_tests_and_fails_if_either_does(lint: int, tests: int, tmp_path: Path) -> None:
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    for name in ("ruff", "mypy", "lint-imports"):
        stand_in(programs / name, f"echo {name}; exit {lint}")
    stand_in(programs / "python", f"echo '{SUMMARY}'; exit {tests}")
    (tmp_path / ".venv/.installed").touch()
    alone = {name: text for name, text in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(
        ["make", "check"], cwd=tmp_path, env=alone, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode != 0) is bool(lint or tests)
    assert "ruff" in done.stdout
    assert done.stdout.splitlines()[-1] == SUMMARY
