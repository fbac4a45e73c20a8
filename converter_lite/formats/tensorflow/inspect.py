"""The content of a TensorFlow or Keras file, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.base import Block
from converter_lite.formats.framework import describe_with
from converter_lite.formats.tensorflow.source import TENSORFLOW


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Inputs and outputs, and nodes of a graph or layers of a Keras model.

    Raises:
        ConverterError: It cannot be read, or TensorFlow is not installed.
    """
    del confined
    yield from describe_with(TENSORFLOW, path)
