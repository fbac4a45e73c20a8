"""What the page needs besides the packages of every conversion; seen to before any work."""

from __future__ import annotations

from importlib.util import find_spec

from converter_lite.errors import UsageError

PACKAGES = ("bokeh", "jinja2")
"""Packages that the page needs besides those of every conversion."""

INSTALL = "pip install 'converter-lite[report]'"
"""What makes them available."""


def missing_packages() -> list[str]:
    """Names of packages without which there is no page."""
    return [name for name in PACKAGES if find_spec(name) is None]


def require_packages(where: str) -> None:
    """Refuse before any work what could not be finished.

    Raises:
        UsageError: A package is missing.
    """
    missing = missing_packages()
    if missing:
        raise UsageError(f"the page needs {missing_text(missing)}", where=where, hint=INSTALL)


def missing_text(names: list[str]) -> str:
    """``bokeh, which is not installed``."""
    return f"{' and '.join(names)}, which {'is' if len(names) == 1 else 'are'} not installed"
