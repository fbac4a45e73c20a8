"""The table of operators in ``docs/formats/paddle.md``, made from the tables of the importer and of PIR.

``python -m`` of this module writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.paddle.importer.context import REFUSED
from converter_lite.formats.paddle.importer.fake_quantization import FOLDED
from converter_lite.formats.paddle.importer.table import HANDLERS
from converter_lite.formats.paddle.pir.rules import RULES
from converter_lite.formats.paddle.pir.translation import SPECIAL

BEGIN = "<!-- operators:begin (made by python -m converter_lite.formats.paddle.documentation) -->"
END = "<!-- operators:end -->"
PAGE = Path(__file__).parents[3] / "docs" / "formats" / "paddle.md"


def operator_tables() -> str:
    """Operators that are read, and operators that are refused with a remedy, as Markdown."""
    return "\n".join((*_read(), "", *_refused()))


def page_with_tables(page: str) -> str:
    """The page with the tables between its markers brought up to date."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n{operator_tables()}\n{END}{rest.split(END)[1]}"


def _read() -> Iterator[str]:
    yield "| family | operations of PIR (older name where it differs) | further operators of older programs and of `.nb` files |"
    yield "|---|---|---|"
    special = [f"`{name.removeprefix('pd_op.')}`" for name in SPECIAL]
    yield f"| Inputs, outputs, parameters, lists, constants | {', '.join(special)} | `feed`, `fetch` |"
    for module, operators in sorted(_families().items()):
        title = str(sys.modules[module].__doc__).splitlines()[0].rstrip(".").replace("``", "`")
        yield _row(title, operators)
    yield _row("Quantization: scales of the plan, no nodes", list(FOLDED))


def _row(title: str, operators: list[str]) -> str:
    names: dict[str, list[str]] = {operator: [] for operator in operators}
    for name, rule in RULES.items():
        if rule.kind in names:
            names[rule.kind].append(name)
    pairs = sorted((name, operator) for operator, found in names.items() for name in found)
    here = [f"`{name}`" if name == operator else f"`{name}` ({operator})" for name, operator in pairs]
    there = [f"`{operator}`" for operator, found in names.items() if not found]
    return f"| {title} | {', '.join(here)} | {', '.join(there)} |"


def _families() -> dict[str, list[str]]:
    """Module that translates operators -> their names, in alphabetical order."""
    families: dict[str, list[str]] = {}
    for operator, handler in sorted(HANDLERS.items(), key=lambda item: item[0]):
        families.setdefault(handler.__module__, []).append(operator)
    return families


def _refused() -> Iterator[str]:
    yield "| refused | because | instead |"
    yield "|---|---|---|"
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, reason in REFUSED.items():
        reasons.setdefault(reason, []).append(name)
    for (why, instead), names in reasons.items():
        yield f"| {', '.join(f'`{name}`' for name in names)} | {why} | {instead} |"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8", newline="\n")
