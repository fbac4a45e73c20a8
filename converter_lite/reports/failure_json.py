"""What ``--json`` holds after a failure, made without any import that an interruption may have left half done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from converter_lite.errors import ConverterError, QualityError

if TYPE_CHECKING:
    from converter_lite.request import OutputAccuracy


def failure_to_json(status: int, error: BaseException) -> dict[str, Any]:
    """Reason, place and remedy; after a missed quality gate also the accuracy of the outputs and all about the results."""
    where = error.where if isinstance(error, ConverterError) else ""
    hint = error.hint if isinstance(error, ConverterError) else ""
    message = error.message if isinstance(error, ConverterError) else f"{type(error).__name__}: {error}"
    problems = list(getattr(error, "problems", ()))
    accuracy = accuracy_to_json(error.accuracy) if isinstance(error, QualityError) else []
    plain: dict[str, Any] = {"status": status, "error": message, "where": where, "hint": hint, "problems": problems}
    if accuracy:
        plain["accuracy"] = accuracy
    result = error.rejected if isinstance(error, QualityError) else None
    if result is None:
        return plain
    told = result.to_json()
    told["rejected"] = told.pop("artefacts")
    return {**told, **plain}


def accuracy_to_json(accuracy: Sequence[OutputAccuracy]) -> list[dict[str, Any]]:
    """Figures of each output; numbers that JSON lacks (infinite SQNR) are ``None``."""
    return [
        {key: (None if isinstance(v, float) and not math.isfinite(v) else v) for key, v in asdict(output).items()}
        for output in accuracy
    ]
