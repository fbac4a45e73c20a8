"""The tables of operators in ``docs/formats/mindir.md``, made from the tables of the importer.

``python -m`` of this module writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.mindir.importer.context import Kind
from converter_lite.formats.mindir.importer.table import KINDS, REFUSED

BEGIN = "<!-- operators:begin (made by python -m converter_lite.formats.mindir.documentation) -->"
END = "<!-- operators:end -->"
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "mindir.md"


def operator_tables() -> str:
    """Operators that are read, and operators that are refused, as Markdown."""
    return "\n".join((*_read(), "", *_refused()))


def page_with_tables(page: str) -> str:
    """The page with the tables between its markers brought up to date."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{operator_tables()}\n{END}{rest.split(END)[1]}"


def _read() -> Iterator[str]:
    yield "| operator | arguments | attributes | ONNX |"
    yield "|---|---|---|---|"
    for names, kind in _groups():
        arguments, attributes = (_quoted(text) for text in (kind.arguments, kind.attributes))
        yield f"| {', '.join(names)} | {arguments} | {attributes} | {kind.becomes} |"


def _quoted(names: str) -> str:
    return ", ".join("..." if name == "..." else f"`{name}`" for name in names.split())


def _groups() -> list[tuple[list[str], Kind]]:
    """Operators of one description, in the order of the table."""
    groups: dict[tuple[str, str, str], tuple[list[str], Kind]] = {}
    for name, kind in KINDS.items():
        key = kind.becomes, kind.arguments, kind.attributes
        groups.setdefault(key, ([], kind))[0].append(name)
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
