"""What a ``.nb`` file holds, as text for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.base import Block
from converter_lite.formats.paddle.nb.inspect import description
from converter_lite.formats.paddle.nb.parse import parse


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Header, operators, parameters, totals.

    Raises:
        FormatError: The file is damaged.
    """
    del confined
    yield description(parse(path.read_bytes(), where=str(path)))
