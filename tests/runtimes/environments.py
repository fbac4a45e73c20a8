"""Judges from a package index: an environment each, whose interpreter runs a program of this folder."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.ms_runtime import RUNTIMES

PROGRAMS = Path(__file__).parent

Child = subprocess.CompletedProcess[str]


def interpreter(name: str, made_by: str = "make runtimes") -> Path:
    """Python of an environment; the calling test is skipped where it was not made."""
    python = RUNTIMES / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{python} is missing: {made_by}")
    return python


def start(python: Path, program: str, *arguments: str, **variables: str) -> Child:
    """Run a program of this folder; what is meant for this interpreter is kept from the other one."""
    command = [str(python), str(PROGRAMS / program), *arguments]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    return subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, check=False, timeout=900)


def finish(python: Path, program: str, *arguments: str, **variables: str) -> None:
    """The same for a program that has to end well.

    Raises:
        RuntimeError: It does not, with the end of what it says.
    """
    child = start(python, program, *arguments, **variables)
    if child.returncode:
        raise RuntimeError(f"{program} ended with status {child.returncode}: {child.stderr[-2000:]}")


def carry_out(name: str, program: str, manifest: Sequence[Mapping[str, Any]], folder: Path, **variables: str) -> None:
    """Give a program the list of what it shall run, as a file.

    Raises:
        RuntimeError: It does not end well.
    """
    finish(interpreter(name), program, str(stored(manifest, folder)), **variables)


def survive(
    python: Path, program: str, manifest: Sequence[Mapping[str, Any]], folder: Path, **variables: str
) -> tuple[dict[int, Child], list[str]]:
    """Run what a list names with a program that may end on the way: it is started again behind the case that ended it.

    Returns:
        The processes that ended, by the number of the case; all lines that the program printed.

    Raises:
        RuntimeError: The program does not start.
    """
    path = stored(manifest, folder)
    ended: dict[int, Child] = {}
    lines: list[str] = []
    first = 0
    while first < len(manifest):
        child = start(python, program, str(path), str(first), **variables)
        printed = child.stdout.splitlines()
        lines += printed
        if child.returncode == 0:
            break
        begun = [line for line in printed if line.startswith("case ")]
        if not begun:
            raise RuntimeError(f"{program} does not start: {child.stderr[-500:]}")
        last = int(begun[-1].split()[1])
        ended[last] = child
        first = last + 1
    return ended, lines


def stored(manifest: Sequence[Mapping[str, Any]], folder: Path) -> Path:
    """The list of what a program shall run, as a file."""
    path = folder / "manifest.json"
    path.write_text(json.dumps(manifest))
    return path
