"""INI text -> lines with their number and section, and syntax errors.

Grammar: ``[section]``, ``key = value`` (the first ``=`` separates), comments. ``#`` and ``;`` start a comment at the
beginning of a line, behind a section, behind ``=``, and after a blank; inside quotes they are data, and so they are
inside a word (``a:[1];b:[2]``). A comment may hold bytes of any encoding. Double quotes are deleted wherever they stand,
as the original does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from converter_lite.errors import shorten

_LINE_END = re.compile(r"\r\n|\n|\r")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_COMMENT_MARKS = "#;"
_BEFORE_QUOTE = ' \t=:,["'


@dataclass(frozen=True, slots=True)
class Line:
    """A section heading (``key`` is ``None``) or a key; ``section`` is ``None`` before the first heading."""

    number: int
    section: str | None
    key: str | None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A remark about a line; ``line`` is 0 if there is none."""

    line: int
    section: str
    key: str
    message: str


def read_lines(text: str) -> tuple[list[Line], list[Finding]]:
    """Headings and keys in file order, and every line that is neither."""
    lines: list[Line] = []
    findings: list[Finding] = []
    section: str | None = None
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        try:
            line = _read_line(raw, number, section)
        except ValueError as error:
            line = _damaged_heading(raw, number)
            findings.append(Finding(number, "" if line else section or "", "", str(error)))
        if line is not None:
            section = line.section
            lines.append(line)
    return lines, findings


def _read_line(raw: str, number: int, section: str | None) -> Line | None:
    if _CONTROL.search(raw):
        raise ValueError(f"the line holds a control character: {shorten(raw.strip())}")
    content = _without_comment(raw).replace('"', "").strip()
    if any("\ud800" <= letter <= "\udfff" for letter in content):
        raise ValueError("the line is not UTF-8 text: save the file as UTF-8")
    if not content:
        return None
    if content.startswith("["):
        return Line(number, _heading(content), None)
    key, equals, value = content.partition("=")
    if not equals:
        raise ValueError(f"{shorten(content)} is neither [section] nor key=value nor a comment")
    if not key.strip():
        raise ValueError(f"there is no key before the = in {shorten(content)}")
    return Line(number, section, key.strip(), value.strip())


def _heading(content: str) -> str:
    name, bracket, rest = content[1:].partition("]")
    if not bracket:
        raise ValueError(f"the section has no closing bracket: {shorten(content)}")
    if rest.strip() and rest.strip()[0] not in _COMMENT_MARKS:
        raise ValueError(f"there is more behind the section: {shorten(content)}")
    if not name.strip():
        raise ValueError("the section has no name")
    return name.strip()


def _damaged_heading(raw: str, number: int) -> Line | None:
    """The heading that a refused line was probably meant to be, so that the keys below it are still checked."""
    name = re.match(r'\s*["\s]*\[([^\]#;=]*)', raw)
    return Line(number, name[1].replace('"', "").strip(), None) if name and name[1].strip() else None


def _without_comment(raw: str) -> str:
    quote = ""
    value_start = raw.find("=") + 1
    for i, character in enumerate(raw):
        if quote:
            quote = "" if character == quote else quote
        elif character == '"' or (character == "'" and _opens_quote(raw, i)):
            quote = character
        elif character in _COMMENT_MARKS and (i in (0, value_start) or raw[i - 1].isspace()):
            return raw[:i]
    if quote == '"':
        raise ValueError(f"a double quote is not closed: {shorten(raw.strip())}")
    return raw


def _opens_quote(raw: str, i: int) -> bool:
    """An apostrophe inside a word is not a quote, nor is one that is never closed."""
    return (i == 0 or raw[i - 1] in _BEFORE_QUOTE) and raw.find("'", i + 1) > 0
