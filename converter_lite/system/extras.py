"""Optional packages: what the extras of this package install, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from converter_lite.errors import UsageError


def install(extra: str) -> str:
    """The command that installs the packages of an extra."""
    return f"pip install 'converter-lite[{extra}]'"


def missing(packages: Sequence[str]) -> list[str]:
    """Those that are not installed."""
    return [name for name in packages if find_spec(name) is None]


def missing_text(names: Sequence[str]) -> str:
    """``bokeh, which is not installed``."""
    return f"{' and '.join(names)}, which {'is' if len(names) == 1 else 'are'} not installed"


def require(packages: Sequence[str], *, what: str, extra: str, where: str) -> None:
    """Refuse before any work what could not be finished.

    Args:
        packages: Modules that are needed.
        what: What needs them, the subject of the sentence.
        extra: The extra that installs them.
        where: The flag that asks for it.

    Raises:
        UsageError: A package is missing.
    """
    absent = missing(packages)
    if absent:
        raise UsageError(f"{what} needs {missing_text(absent)}", where=where, hint=install(extra))
