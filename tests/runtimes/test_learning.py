"""The tests of ``converter_lite.learning`` where there is PyTorch: in an environment of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.runtimes.environments import interpreter

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/learning", "tests/docs/test_blocks.py::test_every_block_of_the_page_runs[finetune]")
pytestmark = pytest.mark.runtime


def test_what_needs_pytorch_passes_where_it_is() -> None:
    command = [str(interpreter("learn")), "-m", "pytest", "-p", "no:cacheprovider", *TESTS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    environment["PYTHONPATH"] = str(ROOT)
    child = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False, timeout=600)
    assert child.returncode == 0, child.stdout[-4000:] + child.stderr[-2000:]
    assert "skipped" not in child.stdout
