"""The list of operators in ``docs/formats/paddle_inference.md``, made from the table of the exporter.

``python -m`` of this module writes it.
"""

from __future__ import annotations

from converter_lite.formats.documentation import Page, quoted
from converter_lite.formats.paddle.exporter.requirements import INFERENCE_REQUIREMENTS
from converter_lite.formats.paddle.exporter.table import HANDLERS

PAGE = Page(
    "paddle_inference.md",
    (
        f"{quoted(sorted(HANDLERS))}.",
        "",
        "Before that, other operators are written in their words: "
        f"{quoted(sorted(INFERENCE_REQUIREMENTS.spelled_out - HANDLERS.keys()))}.",
    ),
)

if __name__ == "__main__":
    PAGE.write()
