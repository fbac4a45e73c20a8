"""The table of operators in ``docs/formats/paddle.md``, made from the tables of the importer and of PIR.

``python -m`` of this module writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from converter_lite.formats.documentation import Page, quoted, refused
from converter_lite.formats.paddle.importer.context import REFUSED
from converter_lite.formats.paddle.importer.fake_quantization import FOLDED
from converter_lite.formats.paddle.importer.table import HANDLERS
from converter_lite.formats.paddle.pir.rules import RULES
from converter_lite.formats.paddle.pir.translation import SPECIAL


def _read() -> Iterator[str]:
    yield "| family | operations of PIR (older name where it differs) | further operators of older programs and of `.nb` files |"
    yield "|---|---|---|"
    special = quoted(name.removeprefix("pd_op.") for name in SPECIAL)
    yield f"| Inputs, outputs, parameters, lists, constants | {special} | `feed`, `fetch` |"
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
    there = quoted(operator for operator, found in names.items() if not found)
    return f"| {title} | {', '.join(here)} | {there} |"


def _families() -> dict[str, list[str]]:
    """Module that translates operators -> their names, in alphabetical order."""
    families: dict[str, list[str]] = {}
    for operator, handler in sorted(HANDLERS.items(), key=lambda item: item[0]):
        families.setdefault(handler.__module__, []).append(operator)
    return families


PAGE = Page("paddle.md", (*_read(), "", *refused(REFUSED)))

if __name__ == "__main__":
    PAGE.write()
