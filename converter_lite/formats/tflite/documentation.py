"""The table of operators in ``docs/formats/tflite.md``, made from the tables of the importer.

``python -m`` of this module writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from converter_lite.formats.documentation import Page, grouped, quoted
from converter_lite.formats.tflite.importer.table import CUSTOM, FAMILIES, HANDLERS, REASONS
from converter_lite.formats.tflite.schema import OPERATORS


def _read() -> Iterator[str]:
    yield f"| family | operators ({len(HANDLERS)}) |"
    yield "|---|---|"
    for family in FAMILIES:
        title = (family.__doc__ or "").splitlines()[0].rstrip(".")
        yield f"| {title} | {quoted(family.HANDLERS)} |"
    yield f"| Custom operators, by their code | {quoted(CUSTOM)} |"


def _refused() -> Iterator[str]:
    yield "| refused | because |"
    yield "|---|---|"
    for reason, names in grouped(REASONS).items():
        yield f"| {quoted(names)} | {reason} |"
    known = {"CUSTOM", *HANDLERS, *REASONS}
    rest = quoted(kind for kind in OPERATORS if kind not in known and not kind.startswith("STABLEHLO"))
    yield f"| {rest}, other `CUSTOM`, `STABLEHLO_*` but `STABLEHLO_COMPOSITE` | there is no translation |"


PAGE = Page("tflite.md", (*_read(), "", *_refused()))

if __name__ == "__main__":
    PAGE.write()
