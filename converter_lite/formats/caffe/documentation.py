"""The table of layers in ``docs/formats/caffe.md``, made from the tables of the importer.

``python -m`` of this module writes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from converter_lite.formats.caffe.importer.table import KINDS, REFUSED
from converter_lite.formats.documentation import Page, grouped, quoted, refused

WITHOUT_EFFECT = ("filler", "engine")
"""Ends of the names of fields that no result depends on."""


def _read() -> Iterator[str]:
    yield "| layer | parameters | ONNX |"
    yield "|---|---|---|"
    groups = grouped({name: (kind.becomes, kind.fields) for name, kind in KINDS.items()})
    for (becomes, fields), names in groups.items():
        used = (name for name in fields.split() if not name.endswith(WITHOUT_EFFECT))
        yield f"| {quoted(names)} | {quoted(used)} | {becomes} |"


PAGE = Page("caffe.md", (*_read(), "", *refused(REFUSED)))

if __name__ == "__main__":
    PAGE.write()
