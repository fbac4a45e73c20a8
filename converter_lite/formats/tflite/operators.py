"""The table of operators for the documentation: ``python -m converter_lite.formats.tflite.operators``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from converter_lite.formats.tflite.importer.table import CUSTOM, FAMILIES, HANDLERS, REASONS
from converter_lite.formats.tflite.schema import OPERATORS


def table() -> Iterator[str]:
    """Lines of Markdown: what is translated, family by family, and what is refused for a reason."""
    yield f"| family | operators ({len(HANDLERS)}) |"
    yield "| --- | --- |"
    for family in FAMILIES:
        title = (family.__doc__ or "").splitlines()[0].rstrip(".")
        yield f"| {title} | {_names(family.HANDLERS)} |"
    yield f"| Custom operators, by their code | {_names(CUSTOM)} |"
    yield ""
    yield "| refused because | operators |"
    yield "| --- | --- |"
    for reason in dict.fromkeys(REASONS.values()):
        yield f"| {reason} | {_names(kind for kind, why in REASONS.items() if why == reason)} |"
    known = {"CUSTOM", *HANDLERS, *REASONS}
    rest = [kind for kind in OPERATORS if kind not in known and not kind.startswith("STABLEHLO")]
    yield f"| there is no translation | {_names(rest)}, other `CUSTOM`, `STABLEHLO_*` but `STABLEHLO_COMPOSITE` |"


def _names(kinds: Iterable[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in kinds)


if __name__ == "__main__":
    print("\n".join(table()))  # noqa: T201
