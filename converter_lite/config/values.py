"""Text of a value -> typed value. Every function raises ``ValueError`` with half a sentence that starts with "must"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from converter_lite.config.keys import Key, Kind
from converter_lite.config.shapes import DYNAMIC_DIM, DimRange, InputShape
from converter_lite.errors import did_you_mean, shorten

MAX_INT32 = 2**31 - 1
MAX_FLOAT32 = 3.4028234e38
MIN_FLOAT32 = 1.1754944e-38
"""Smallest normal float32: preprocessing computes in float32, where smaller numbers act as zero."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_MAX_DIGITS = 20


def parse_value(key: Key, text: str) -> object:
    """Typed value of a non-empty text.

    Raises:
        ValueError: The text is not a legal value; the message says what would be.
    """
    return _PARSERS[key.kind](key, text)


def _integer(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    # Longer texts than any bound here: no need to convert them to know that they do not fit.
    digits = text.lstrip("+-").lstrip("0") or "0"
    sign = -1 if text.startswith("-") else 1
    return sign * (int(digits) if len(digits) <= _MAX_DIGITS else 10**_MAX_DIGITS)


def _parse_integer(key: Key, text: str) -> int:
    value = _integer(text)
    if value is None or not key.low <= value <= key.high:
        raise ValueError(
            f"must be a whole number from {key.low} to {key.high}, not {shorten(text)}{_comment_hint(text)}"
        )
    return value


def _finite_float(text: str) -> float | None:
    value = float(text) if _FLOAT.fullmatch(text) else math.inf
    return value if abs(value) <= MAX_FLOAT32 else None


def _parse_float(key: Key, text: str) -> float:
    value = _finite_float(text)
    if value is None or not key.low < value < key.high:
        bounds = f"between {key.low} and {key.high} (both excluded)"
        raise ValueError(f"must be a number {bounds}, not {shorten(text)}{_comment_hint(text)}")
    return value


def _parse_boolean(key: Key, text: str) -> bool:
    words = {"true": True, "false": False}
    if text.lower() not in words:
        raise ValueError(f"must be true or false, not {shorten(text)}{_comment_hint(text)}")
    return words[text.lower()]


def _parse_choice(key: Key, text: str) -> object:
    word = dict(key.aliases).get(text, text)
    if key.choices is None or word not in key.words:
        expected = " or ".join(filter(None, (", ".join(key.words[:-1]), key.words[-1])))
        raise ValueError(f"must be {expected}, not {shorten(text)}{did_you_mean(text, key.words)}{_comment_hint(text)}")
    return key.choices(word)


def _parse_text(key: Key, text: str) -> str:
    return text


def _parse_names(key: Key, text: str) -> tuple[str, ...]:
    # A name in single quotes may hold commas; an apostrophe inside a word is not a quote.
    names = [unquote(name.strip()) for name in re.findall(r"\s*'[^']*'\s*(?=,|$)|[^,]+|(?<=,)(?=,|$)|^(?=,)", text)]
    if len(names) > 1 and not names[-1]:
        names.pop()  # the original accepts a comma at the end
    if unclosed := next((name for name in names if name.startswith("'") and "'" not in name[1:]), ""):
        raise ValueError(f"a single quote is not closed: {shorten(unclosed)}")
    if not all(names):
        raise ValueError(f"must be names separated by commas, one is empty in {shorten(text)}")
    return tuple(names)


def _parse_numbers(key: Key, text: str) -> tuple[float, ...]:
    match = _BRACKETS.fullmatch(text)
    values = [_finite_float(item.strip()) for item in match[1].split(",")] if match else [None]
    numbers = tuple(value for value in values if value is not None)
    if len(numbers) < len(values):
        raise ValueError(f"must be numbers in brackets such as [127.5, 127.5, 127.5], not {shorten(text)}")
    return numbers


def _parse_directories(key: Key, text: str) -> tuple[tuple[str, str], ...]:
    pairs = [_parse_directory(part, text) for part in _split_outside_quotes(text, ",")]
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(f"must name each input once: {shorten(text)}")
    return tuple(pairs)


def _parse_directory(part: str, text: str) -> tuple[str, str]:
    *name_parts, directory = _split_outside_quotes(part, ":")
    name = unquote(":".join(name_parts).strip())
    directory = unquote(directory.strip())
    if not name or not directory or "'" in directory:
        raise ValueError(f"must be input:directory pairs separated by commas, not {shorten(text)}")
    return name, directory


def _split_outside_quotes(text: str, separator: str) -> list[str]:
    parts: list[str] = []
    start = 0
    quoted = False
    for i, character in enumerate(text):
        quoted ^= character == "'"
        if character == separator and not quoted:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]


def _parse_shapes(key: Key, text: str) -> tuple[InputShape, ...]:
    # Semicolons separate inputs in the original; commas between brackets are as clear.
    shapes = [_parse_shape(part, text) for part in re.split(r"(?<=\])\s*[;,]\s*", text)]
    if len({shape.name for shape in shapes}) < len(shapes):
        raise ValueError(f"must name each input once: {shorten(text)}")
    return tuple(shapes)


def _parse_shape(part: str, text: str) -> InputShape:
    name, _, brackets = part.rpartition(":")
    match = _BRACKETS.fullmatch(brackets.strip())
    dims = [_integer(item.strip()) for item in match[1].split(",")] if match else []
    legal = tuple(dim for dim in dims if dim is not None and (dim == DYNAMIC_DIM or 1 <= dim <= MAX_INT32))
    if not name.strip() or "]" in name or not dims or len(legal) < len(dims):
        raise ValueError(
            f"must be input:[dimensions] separated by semicolons, each dimension -1 or at least 1, not {shorten(text)}"
        )
    return InputShape(name.strip(), legal)


def _parse_dim_ranges(key: Key, text: str) -> tuple[tuple[DimRange, ...], ...]:
    parts = re.split(r"(?<=\])\s*[,;]\s*", text)
    groups = [_BRACKETS.fullmatch(part.strip()) for part in parts]
    ranges = [[_dim_range(item) for item in group[1].split(",")] if group else [None] for group in groups]
    legal = tuple(tuple(item for item in group if item is not None) for group in ranges)
    if any(len(found) < len(group) for found, group in zip(legal, ranges, strict=True)):
        raise ValueError(f"must be brackets with sizes or ranges such as [1~4],[8],[16], not {shorten(text)}")
    if len({len(group) for group in legal}) > 1:
        raise ValueError(f"must have as many sizes in one bracket as in the next: {shorten(text)}")
    return legal


def _dim_range(item: str) -> DimRange | None:
    bounds = [_integer(bound.strip()) for bound in item.split("~")]
    low, high = bounds[0], bounds[-1]
    if low is None or high is None or len(bounds) > 2 or not 1 <= low <= high <= MAX_INT32:
        return None
    return DimRange(low, high)


def unquote(text: str) -> str:
    """Text without a pair of single quotes around all of it; double quotes are gone when lines are read."""
    is_quoted = len(text) >= 2 and text[0] == text[-1] == "'" and text.count("'") == 2
    return text[1:-1].strip() if is_quoted else text


def _comment_hint(text: str) -> str:
    has_mark = any(mark in text for mark in "#;")
    return " (a comment behind a value needs a blank before it)" if has_mark else ""


_PARSERS: Mapping[Kind, Callable[[Key, str], object]] = MappingProxyType(
    {
        Kind.INTEGER: _parse_integer,
        Kind.FLOAT: _parse_float,
        Kind.BOOLEAN: _parse_boolean,
        Kind.CHOICE: _parse_choice,
        Kind.TEXT: _parse_text,
        Kind.NAMES: _parse_names,
        Kind.NUMBERS: _parse_numbers,
        Kind.DIRECTORIES: _parse_directories,
        Kind.SHAPES: _parse_shapes,
        Kind.DIM_RANGES: _parse_dim_ranges,
    }
)
