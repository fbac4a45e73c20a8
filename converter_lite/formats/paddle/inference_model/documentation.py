"""The list of operators in ``docs/formats/paddle_inference.md``, made from the table of the exporter.

``python -m`` of this module writes it.
"""

from __future__ import annotations

from pathlib import Path

from converter_lite.formats.paddle.exporter.requirements import EXPORTER_REQUIREMENTS
from converter_lite.formats.paddle.exporter.table import HANDLERS

BEGIN = "<!-- operators:begin (made by python -m converter_lite.formats.paddle.inference_model.documentation) -->"
END = "<!-- operators:end -->"
PAGE = Path(__file__).parents[4] / "docs" / "formats" / "paddle_inference.md"


def operators() -> str:
    """Operators that are written, and those that are written with others, as Markdown."""
    lists = (sorted(HANDLERS), sorted(EXPORTER_REQUIREMENTS.spelled_out - HANDLERS.keys()))
    written, others = (", ".join(f"`{name}`" for name in names) for names in lists)
    return f"{written}.\n\nBefore that, other operators are written in their words: {others}."


def page_with_operators(page: str) -> str:
    """The page with the list between its markers brought up to date."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{operators()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page_with_operators(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
