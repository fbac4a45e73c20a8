"""Starts a program for a framework: ``python start_child.py MODULE FOLDER``.

The module is one of this package, which the interpreter need not have installed: only its folder is made known, so that nothing
that lies beside it (other packages, in other versions) is found.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType


def start(module: str) -> None:
    """Run a module of the package as the main program."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if entry not in ("", str(here))]
    package = ModuleType("converter_lite")
    package.__path__ = [str(here.parent)]
    sys.modules["converter_lite"] = package
    runpy.run_module(module, run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    start(sys.argv[1])
