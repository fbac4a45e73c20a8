"""The tables of operators in ``docs/formats/mindir.md``, made from the tables of the importer.

``python -m`` of this module writes them.
"""

from __future__ import annotations

from collections.abc import Iterator

from converter_lite.formats.documentation import Page, grouped, quoted, refused
from converter_lite.formats.mindir.importer.table import KINDS, REFUSED


def _read() -> Iterator[str]:
    yield "| operator | arguments | attributes | ONNX |"
    yield "|---|---|---|---|"
    groups = grouped({name: (kind.arguments, kind.attributes, kind.becomes) for name, kind in KINDS.items()})
    for (arguments, attributes, becomes), names in groups.items():
        yield f"| {quoted(names)} | {quoted(arguments.split())} | {quoted(attributes.split())} | {becomes} |"


PAGE = Page("mindir.md", (*_read(), "", *refused(REFUSED)))

if __name__ == "__main__":
    PAGE.write()
