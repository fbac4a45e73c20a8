"""Text of the debug reports: header lines, columns, numbers and names in the original's format.

Every row ends with a comma, as there. Names are fields of their own kind: the original writes them as they are, so that a
comma in a name shifts the columns; here such a name is quoted (RFC 4180), and a name that a spreadsheet would run as a formula
gets an apostrophe in front.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from converter_lite.reports.distribution import Distribution

QUANT_PARAM_HEADER = (
    "NodeName,NodeType,TensorName,ElementsNum,Dims,Scale,ZeroPoint,Bits,CorrectionVar,CorrectionMean,\n"
)
ROUND_HEADER = (
    ",NodeName,NodeType,TensorName,InOutFlag,DataTypeFlag,TensorTypeFlag,Min,Q1,Median,Q3,Max,Mean,Var,Sparsity,Clip,"
    "CosineSimilarity,\n"
)
SUMMARY_HEADER = "Round,TensorName,CosineSimilarity,\n"

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet program read a cell as a formula (OWASP, CSV Injection)."""

_NEEDS_QUOTES = frozenset(',"\r\n')


def name_field(name: str) -> str:
    """A node or tensor name as one field; unchanged unless it could break the row or run as a formula."""
    text = f"'{name}" if name.startswith(FORMULA_STARTS) else name
    if _NEEDS_QUOTES.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


def number_field(value: float) -> str:
    """Six significant digits, no trailing zeros, exponent where shorter: what a C++ stream prints by default."""
    return f"{value:g}"


def row(fields: Iterable[str]) -> str:
    """One line of a report."""
    return "".join(f"{text}," for text in fields) + "\n"


def dims_field(shape: Sequence[int]) -> str:
    """``32 1 1 16 `` for ``(32, 1, 1, 16)``; empty for a scalar."""
    return "".join(f"{size} " for size in shape)


def statistics_fields(values: Distribution, *, clip: float, cosine: float) -> list[str]:
    """Columns ``Min`` to ``CosineSimilarity`` of a round file. ``Var`` carries the standard deviation, as in the original."""
    numbers = (
        values.minimum,
        values.q1,
        values.median,
        values.q3,
        values.maximum,
        values.mean,
        values.deviation,
        values.sparsity,
        clip,
        cosine,
    )
    return [number_field(number) for number in numbers]
