"""The commands that the user guide shows are run as they stand there, and print what stands below them."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cli.workshop import environment
from tests.support import since

ROOT = Path(__file__).resolve().parents[1]
MODULES = {"opt": "converter_lite.cli.opt", "converter_lite": "converter_lite"}

EXACT = re.compile(r"layers (with weights|on|compared)")
"""Lines in which every number counts; others may end in other digits, or rank other layers, with another onnxruntime."""

NAME = re.compile(r"\w+(/\w+)+")


def examples() -> list[tuple[str, list[str]]]:
    """Commands and the lines that they print, without what ``...`` leaves out; clusters elsewhere are not here."""
    text = (ROOT / "docs/user_guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n\$ (.*?)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [
        (command, [line for line in output.splitlines() if line != "..."])
        for command, output in blocks
        if "--executor=dask:" not in command
    ]


def form(line: str) -> str:
    """A line without what depends on the runtime: times, figures, layers, blanks that align columns."""
    if EXACT.search(line):
        return line.partition("; time:")[0]
    named = ",".join(dict.fromkeys(NAME.sub("LAYER", line).split(",")))
    return " ".join(re.sub(r"\d[\d.,]*%?", "#", re.sub(r"[+*] ", "", named)).split())


@since("onnxruntime", 1, 21, reason="has fewer integer kernels, which the guide counts")
def test_every_example_prints_what_the_guide_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "samples", tmp_path / "samples", ignore=shutil.ignore_patterns("test", "__pycache__"))
    found = examples()
    assert len(found) == 5
    for command, lines in found:
        program, *arguments = shlex.split(command.partition(" | ")[0])
        line = [sys.executable, "-m", MODULES[program], *arguments]
        done = subprocess.run(line, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, (command, done.stderr)
        printed = {form(text) for text in (done.stdout + done.stderr).splitlines()}
        missing = [text for text in lines if form(text) not in printed]
        assert missing == [], (command, done.stdout)
