"""Nearest-name suggestions for messages about unknown names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MAX_LENGTH = 64
"""Longer words get no suggestion: matching is quadratic in the length, and nobody mistypes that much."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of ``names`` that ``name`` most likely means (case does not count), or an empty string."""
    if len(name) > MAX_LENGTH:
        return ""
    by_folded = {candidate.casefold(): candidate for candidate in names}
    matches = difflib.get_close_matches(name.strip().casefold(), list(by_folded), n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else ""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """``"; did you mean X?"`` to append to a message, or an empty string."""
    match = nearest(name, names)
    return f"; did you mean {match}?" if match else ""


def shorten(text: str, length: int = 60) -> str:
    """``text`` in quotes, cut to ``length`` characters."""
    return repr(text if len(text) <= length else text[: length - 3] + "...")
