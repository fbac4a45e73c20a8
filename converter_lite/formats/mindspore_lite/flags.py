"""Flags of ``.ms`` files."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.formats.flags import FormatFlags, flag


@dataclass(frozen=True, kw_only=True)
class MsFlags(FormatFlags):
    """The user's options for a ``.ms`` file.

    Attributes:
        ms_compat: Runtimes that it is for: ``device``, or ``wheel`` for the released desktop packages too.
    """

    ms_compat: str = flag(
        "device",
        name="msCompat",
        help="Runtimes of a .ms file; wheel: also the released desktop packages.",
        choices=("device", "wheel"),
    )
