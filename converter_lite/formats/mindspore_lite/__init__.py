"""MindSpore Lite ``.ms`` files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from converter_lite.formats.mindspore_lite.flags import MsFlags as Flags

if TYPE_CHECKING:
    from converter_lite.formats.base import Block, FileOptions, OutputFormat
    from converter_lite.formats.source import ModelFiles, Source

__all__ = ["SUFFIX", "Flags", "describe", "output_format", "read_source"]

SUFFIX = ".ms"


def output_format(options: FileOptions) -> OutputFormat:
    """What writes the files."""
    from converter_lite.formats.mindspore_lite.format import MsFormat

    return MsFormat.of(options)


def read_source(files: ModelFiles) -> Source:
    """What reads them."""
    from converter_lite.formats.mindspore_lite import source

    return source.read_source(files)


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """What tells what one of them holds."""
    from converter_lite.formats.mindspore_lite import inspect

    return inspect.describe(path, confined=confined)
