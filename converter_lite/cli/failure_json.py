"""The content of ``--json`` after a failure, made without any import that an interruption may have left half done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from converter_lite.errors import ConverterError, QualityError


def failure_to_json(status: int, error: BaseException) -> dict[str, Any]:
    """Reason, place and remedy; after a missed quality gate also the accuracy of the outputs and all details of the results."""
    where = error.where if isinstance(error, ConverterError) else ""
    hint = error.hint if isinstance(error, ConverterError) else ""
    message = error.message if isinstance(error, ConverterError) else f"{type(error).__name__}: {error}"
    problems = list(getattr(error, "problems", ()))
    details = error.details if isinstance(error, QualityError) else {}
    return {**details, "status": status, "error": message, "where": where, "hint": hint, "problems": problems}


def may_replace(path: Path) -> bool:
    """Whether a failure may be written where something is: over an earlier result, or an empty file, but not over a device.

    The path may be the very input for which it was refused.
    """
    try:
        if not path.is_file():
            return path.is_dir() or not path.exists()  # writing names a folder
        if not path.stat().st_size:
            return True
        with path.open("rb") as stream:
            is_object = stream.read(1) == b"{"
        return is_object and "status" in json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
