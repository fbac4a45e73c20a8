"""The table of TensorFlow Lite operators on its page is the one that the code makes."""

from __future__ import annotations

from pathlib import Path

from converter_lite.formats.tflite.importer.table import HANDLERS, REASONS
from converter_lite.formats.tflite.operators import table
from converter_lite.formats.tflite.schema import OPERATORS

PAGE = Path(__file__).resolve().parents[2] / "docs/formats/tflite.md"


def test_the_page_has_the_table_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    _, rest = text.split("<!-- operators:begin (made by python -m converter_lite.formats.tflite.operators) -->\n")
    made, _ = rest.split("<!-- operators:end -->")
    assert made.rstrip("\n") == "\n".join(table())


def test_every_name_is_one_of_the_format() -> None:
    assert set(HANDLERS) | set(REASONS) <= set(OPERATORS)
    assert not set(HANDLERS) & set(REASONS)
