"""Prints the floors of ``pyproject.toml`` as constraints for pip: ``python -m tests.floors > constraints.txt``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"

EXTRAS = ("dev",)
"""Extras whose floors hold, too: what tests need."""


def floors(text: str) -> Iterator[str]:
    """``name==version`` for each requirement.

    Raises:
        ValueError: A requirement has no floor.
    """
    project = tomllib.loads(text)["project"]
    extras = (project["optional-dependencies"][extra] for extra in EXTRAS)
    for requirement in (*project["dependencies"], *(entry for extra in extras for entry in extra)):
        found = re.match(r"([\w.-]+)(?:\[[^]]*\])?\s*>=\s*([\w.]+)", requirement)
        if found is None:
            raise ValueError(f"{requirement}: has no floor")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    print("\n".join(floors(PROJECT.read_text(encoding="utf-8"))))
