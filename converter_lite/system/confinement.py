"""Whether a file named by untrusted input lies where it may be read."""

from __future__ import annotations

import os
from pathlib import Path


def is_inside(path: Path, *folders: Path) -> bool:
    """Whether a path, all links followed, lies in one of the folders; impossible file names lie in none."""
    try:
        real = Path(os.path.realpath(path))  # unlike Path.resolve it ends on links that lead to themselves
    except ValueError:
        return False
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)
