"""ONNX files, float or with QuantizeLinear / DequantizeLinear pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from converter_lite.formats.onnx.flags import OnnxFlags as Flags

if TYPE_CHECKING:
    from converter_lite.formats.base import Block, FileOptions, OutputFormat
    from converter_lite.formats.source import ModelFiles, Source

__all__ = ["SUFFIX", "Flags", "describe", "output_format", "read_source"]

SUFFIX = ".onnx"


def output_format(options: FileOptions) -> OutputFormat:
    """What writes the files."""
    from converter_lite.formats.onnx.format import OnnxFormat

    return OnnxFormat(options)


def read_source(files: ModelFiles) -> Source:
    """What reads them."""
    from converter_lite.formats.onnx import source

    return source.read_source(files)


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """What tells what one of them holds."""
    from converter_lite.formats.onnx import inspect

    return inspect.describe(path, confined=confined)
