"""The table of TensorFlow Lite operators names operators of the format."""

from __future__ import annotations

from converter_lite.formats.tflite.importer.table import HANDLERS, REASONS
from converter_lite.formats.tflite.schema import OPERATORS


def test_every_name_is_one_of_the_format() -> None:
    assert set(HANDLERS) | set(REASONS) <= set(OPERATORS)
    assert not set(HANDLERS) & set(REASONS)
