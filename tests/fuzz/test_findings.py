"""Every reader reads its own seeds, and refuses with a reason whatever has broken it once."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from converter_lite.errors import ConverterError
from tests.cli.workshop import ROOT
from tests.fuzz.readers import READERS

pytestmark = pytest.mark.once

FINDINGS = sorted((Path(__file__).parent / "findings").iterdir())
"""Files that fuzzing found, ``READER-*.bin``; each raised something that is no ConverterError."""


@pytest.mark.parametrize("name", READERS)
def test_the_seeds_are_read(name: str) -> None:
    for data in READERS[name].seeds():
        READERS[name].read(data)


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_what_broke_a_reader_once_is_read_or_refused_with_a_reason(path: Path) -> None:
    try:
        READERS[path.name.partition("-")[0]].read(path.read_bytes())
    except ConverterError as error:
        assert error.message


@pytest.mark.skipif(importlib.util.find_spec("atheris") is not None, reason="Atheris takes longer to start")
def test_a_search_ends_in_time_and_counts_what_it_did(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tests.fuzz", "shapes", "--minutes=0.03", f"--folder={tmp_path}"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=dict(os.environ), check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert " 0 findings" in done.stdout
    assert " 0 files" not in done.stdout
