"""Errors that a user can cause, with the nearest name for an unknown one; any other exception that escapes is a defect."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_DEFECT = 3
EXIT_INTERRUPTED = 130


class ConverterError(Exception):
    """A failure with a place and a remedy.

    Args:
        message: What is wrong, one sentence.
        where: Place: ``full_quant.cfg:12 [full_quant_param] bias_correction``, a node and operator, a file.
        hint: What to do about it.
    """

    exit_status = EXIT_FAILED

    def __init__(self, message: str, *, where: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\n  {self.hint}" if self.hint else text


class UsageError(ConverterError):
    """The command line or the arguments of an API call are wrong."""

    exit_status = EXIT_USAGE


class ConfigError(ConverterError):
    """The configuration file is wrong; ``problems`` holds every finding, not only the first."""

    exit_status = EXIT_USAGE

    def __init__(self, message: str, *, where: str = "", hint: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(message, where=where, hint=hint)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems) if self.problems else super().__str__()


class ModelError(ConverterError):
    """The model cannot be read, or holds something that cannot be converted."""


class DataError(ConverterError):
    """Calibration data are missing, unreadable, or do not fit the model."""


class CalibrationError(ConverterError):
    """Statistics of an activation cannot be used (not finite, never observed)."""


class TargetError(ConverterError):
    """The chosen device or output format cannot express what is asked."""


def refused_by_system(error: OSError) -> ConverterError:
    """What the operating system refused, as an error for users: no permission, no space, a device that has gone."""
    if isinstance(error, FileNotFoundError) and not error.filename and _has_no_working_directory():
        return ConverterError("the working directory does not exist any more", hint="change to another directory")
    return ConverterError(
        error.strerror or str(error), where=str(error.filename or ""), hint="check space and permissions"
    )


def _has_no_working_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  # Path loads slowly
    except FileNotFoundError:
        return True
    return False


def missing_package(error: ModuleNotFoundError) -> ConverterError | None:
    """A package of others that cannot be imported, as an error for users; ``None`` if it is a module of this one."""
    package = (error.name or "").partition(".")[0]
    if package in ("", "converter_lite"):
        return None
    return ConverterError(
        f"the package {package} cannot be imported", hint="pip install converter-lite brings what it needs"
    )


class ClusterError(ConverterError):
    """A cluster cannot be reached or used, or loses its workers."""


class FormatError(ConverterError):
    """A file of a binary model format is damaged or uses something unknown."""


class QualityError(ConverterError):
    """The written model missed the quality gate, or nothing was quantized.

    Attributes:
        details: What is known about the results, as plain data for ``--json``; their files were not kept.
    """

    def __init__(
        self, message: str, *, where: str = "", hint: str = "", details: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.details = details


MAX_SUGGESTED = 64
"""Longer words get no suggestion: matching is quadratic in the length, and nobody mistypes that much."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The one of ``names`` that ``name`` most likely means (case does not count), or an empty string."""
    if len(name) > MAX_SUGGESTED:
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


def one_of(value: str, allowed: Sequence[str], flag: str) -> str:
    """The value if it is allowed.

    Raises:
        UsageError: It is not; the nearest and all allowed values are named.
    """
    if value not in allowed:
        near = did_you_mean(str(value), allowed)
        raise UsageError(f"{value!r} is not one of {', '.join(allowed)}{near}", where=flag)
    return value


MISFITS = (IndexError, KeyError, ValueError, TypeError, ZeroDivisionError, OverflowError, AttributeError)
"""What inputs and attributes that do not fit their operator make of code that relies on its definition."""
