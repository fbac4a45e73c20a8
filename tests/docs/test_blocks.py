"""Commands, programs and settings of the README, the tutorials and the how-to pages run as they stand there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.workshop import environment

pytestmark = pytest.mark.once

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/tutorials/*.md")), *sorted(ROOT.glob("docs/how_to/*.md"))]

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
SHOWN = ("cpp", "text")
"""Languages of blocks that are not run: programs for devices, which the tests of the runtimes are like, and output."""

PROGRAMS = {"converter_lite": "-m converter_lite", "opt": "-m converter_lite.cli.opt", "python": ""}


def blocks(text: str) -> Iterator[tuple[str, str, str]]:
    """Language, file name (empty: none) and content."""
    for info, content in BLOCK.findall(text):
        language, _, rest = info.partition(" ")
        found = re.fullmatch(r'(?:title="([^"/]+)")?', rest)
        assert found is not None, info
        yield language, found[1] or "", content


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What ``make demo`` leaves of a clone: samples, commands on the path; ``make`` only looks up its target."""
    shutil.copytree(ROOT / "samples", tmp_path / "samples", ignore=shutil.ignore_patterns("test", "__pycache__"))
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "activate").write_text("", encoding="utf-8")
    lines = {name: f'exec "{sys.executable}" {module} "$@"' for name, module in PROGRAMS.items()}
    for name, line in {**lines, "make": f'grep -q "^$1:" "{ROOT}/Makefile"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    return tmp_path


WITH_PYTORCH = ("finetune",)
"""Pages that tests/runtimes/test_learning.py runs, where PyTorch is."""


def _page(path: Path) -> object:
    needs = path.stem in WITH_PYTORCH and find_spec("torch") is None
    reason = "there is no PyTorch here: tests/runtimes/test_learning.py runs this page where it is"
    return pytest.param(path, marks=pytest.mark.skipif(needs, reason=reason), id=path.stem)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize("page", [_page(path) for path in PAGES])
def test_every_block_of_the_page_runs(page: Path, checkout: Path) -> None:
    before = {path.name for path in checkout.iterdir()}
    path = f"{checkout}/.venv/bin:{environment()['PATH']}"
    for language, name, content in blocks(page.read_text(encoding="utf-8")):
        assert language in ("sh", "python", "ini", "toml", *SHOWN), f"```{language}"
        assert bool(name) is (language in ("ini", "toml")), f"```{language}: settings, and only they, have a title"
        if name:
            (checkout / name).write_text(content, encoding="utf-8")
        if language not in ("sh", "python"):
            continue
        line = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*line, content], cwd=checkout, env=environment(PATH=path), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (content, done.stdout[-2000:], done.stderr)
        assert "WARNING" not in done.stdout + done.stderr, (content, done.stdout)
    assert {path.name for path in checkout.iterdir()} > before, "the page makes something"
