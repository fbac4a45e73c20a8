"""Each record in ``docs/decisions`` says first what was decided, why, and by which figure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).resolve().parents[2] / "docs/decisions").glob("0*.md"))
NAMES = ("Decision", "Why", "Figure")


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_begins_with_decision_why_and_figure(record: Path) -> None:
    title, blank, *lines = record.read_text(encoding="utf-8").splitlines()
    assert title.startswith(f"# {record.name[:4]} ")
    assert blank == ""
    for name, line in zip(NAMES, lines[: len(NAMES)], strict=True):
        assert re.fullmatch(rf"- \*\*{name}:\*\* \S.*[.]", line), line
    assert lines[len(NAMES) :][:1] in ([], [""])
