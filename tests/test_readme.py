"""The README is short, and the commands that it names are installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.workshop import environment

ROOT = Path(__file__).resolve().parents[1]


def test_the_readme_is_short_and_shows_one_small_picture() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    (picture,) = re.findall(r"!\[.+\]\((.+)\)", text)
    assert (ROOT / picture).stat().st_size < 150_000


def test_the_figures_of_the_readme_are_those_of_the_results() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = (ROOT / "bench/RESULTS.md").read_text(encoding="utf-8")
    table = text.split("## How it compares")[1].split("## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "ms |" in line]
    assert len(rows) == 7
    for row in rows:
        shares_and_times = re.findall(r"[\d.]+ (?:%|ms|MiB)", row)
        assert any(all(figure in line for figure in shares_and_times) for line in results.splitlines()), row


@pytest.mark.parametrize("name", ["opt", "converter_lite_opt", "converter_lite"])
def test_the_commands_are_installed(name: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (target,) = re.findall(rf'^{name} = "(.*)"$', text, flags=re.MULTILINE)
    module, function = target.split(":")
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[1:] = ['--help']; from {module} import {function}; {function}()"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--" in done.stdout
