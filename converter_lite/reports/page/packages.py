"""What the page needs besides the packages of every conversion; checked before any work."""

from __future__ import annotations

from converter_lite.system.extras import install, missing, missing_text, require

__all__ = ["INSTALL", "missing_packages", "missing_text", "require_packages"]

PACKAGES = ("bokeh", "jinja2")
"""Packages that the page needs besides those of every conversion."""

INSTALL = install("report")
"""How to install them."""


def missing_packages() -> list[str]:
    """Names of packages without which there is no page."""
    return missing(PACKAGES)


def require_packages(where: str) -> None:
    """Refuse before any work what could not be finished.

    Raises:
        UsageError: A package is missing.
    """
    require(PACKAGES, what="the page", extra="report", where=where)
