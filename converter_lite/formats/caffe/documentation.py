"""The table of layers in ``docs/formats/caffe.md``, made from the tables of the importer.

``python -m`` of this module writes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.caffe.importer.context import Kind
from converter_lite.formats.caffe.importer.table import KINDS, REFUSED

BEGIN = "<!-- layers:begin (made by python -m converter_lite.formats.caffe.documentation) -->"
END = "<!-- layers:end -->"
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "caffe.md"

WITHOUT_EFFECT = ("filler", "engine")
"""Ends of the names of fields that no result depends on."""


def layer_tables() -> str:
    """Layers that are read, and layers that are refused, as Markdown."""
    return "\n".join((*_read(), "", *_refused()))


def page_with_tables(page: str) -> str:
    """The page with the tables between its markers brought up to date."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{layer_tables()}\n{END}{rest.split(END)[1]}"


def _read() -> Iterator[str]:
    yield "| layer | parameters | ONNX |"
    yield "|---|---|---|"
    for names, kind in _groups():
        fields = ", ".join(f"`{name}`" for name in kind.fields.split() if not name.endswith(WITHOUT_EFFECT))
        yield f"| {', '.join(names)} | {fields} | {kind.becomes} |"


def _groups() -> list[tuple[list[str], Kind]]:
    """Layers of one description, in the order of the table."""
    groups: dict[tuple[str, str], tuple[list[str], Kind]] = {}
    for name, kind in KINDS.items():
        groups.setdefault((kind.becomes, kind.fields), ([], kind))[0].append(name)
    return list(groups.values())


def _refused() -> Iterator[str]:
    yield "| refused | because | instead |"
    yield "|---|---|---|"
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, reason in REFUSED.items():
        reasons.setdefault(reason, []).append(name)
    for (why, instead), names in reasons.items():
        yield f"| {', '.join(names)} | {why} | {instead} |"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
