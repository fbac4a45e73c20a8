"""``converter_lite inspect``: what a model file holds, as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from converter_lite.errors import FormatError, ModelError, UsageError

WIDEST = 48
"""Characters of a cell; longer names end with an ellipsis."""

RUNS = 5
"""Runs of a profile; the fastest counts."""


def inspect(path: Path, *, confined: bool = True) -> str:
    """Operators, tensors and quantization of a ``.ms``, ``.nb`` or ``.onnx`` file.

    Args:
        path: The file.
        confined: Refuse external data outside its folder.

    Raises:
        UsageError: The file name has another ending.
        ConverterError: The file cannot be read.
    """
    describe = _READERS.get(path.suffix)
    if describe is None:
        endings = ", ".join(_READERS)
        raise UsageError(f"only files that end with {endings} are inspected", where=str(path))
    return "\n".join(describe(path, confined))


def inspect_kernels(path: Path, *, confined: bool = True) -> str:
    """The kernels that onnxruntime runs for an ONNX file, and what they compute with; ``confined`` as in :func:`inspect`.

    Raises:
        UsageError: It is another kind of file.
        ConverterError: The file cannot be read or run.
    """
    if path.suffix != ".onnx":
        raise UsageError(
            "kernels are shown for .onnx files: it is onnxruntime that is asked",
            where=str(path),
            hint="inspect without --kernels shows what a .ms or .nb file plans for its runtime",
        )
    from converter_lite.analysis.kernels import kernels, summary, table
    from converter_lite.analysis.sample_source import random_feeds
    from converter_lite.formats.onnx.reader import read_onnx

    model = read_onnx(path, confined=confined)
    uses = kernels(model, random_feeds(model, RUNS, quantized=model))
    return "\n".join([*columns(list(table(uses))), summary(uses)])


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", where=str(path)) from error


def _describe_ms(path: Path, _confined: bool) -> Iterator[str]:
    from converter_lite.formats.mindspore_lite.importer.reader import read
    from converter_lite.formats.mindspore_lite.inspect import as_table, operator_rows, tensor_rows

    data = _bytes(path)
    try:
        model = read(data)
    except FormatError as error:
        raise FormatError(error.message, where=f"{path} {error.where}".strip(), hint=error.hint) from error
    yield f"MindSpore Lite model {model.name!r}, {model.version}, {len(data):,} bytes"
    yield ""
    yield from columns(as_table(operator_rows(model)))
    yield ""
    yield from columns(as_table(tensor_rows(model)))


def _describe_nb(path: Path, _confined: bool) -> Iterator[str]:
    from converter_lite.formats.paddle.nb.inspect import describe
    from converter_lite.formats.paddle.nb.parse import parse

    yield describe(parse(_bytes(path), where=str(path)))


def _describe_onnx(path: Path, confined: bool) -> Iterator[str]:
    from converter_lite.formats.onnx.inspect import describe

    head, operators, tensors, saturating = describe(path, confined=confined)
    yield head
    yield ""
    yield from columns(operators)
    yield ""
    yield from columns(tensors)
    if saturating:
        yield ""
        yield from (
            columns(saturating) if len(saturating) > 1 else ("no integer kernel of an x86 processor can saturate",)
        )


_READERS: dict[str, Callable[[Path, bool], Iterator[str]]] = {
    ".ms": _describe_ms,
    ".nb": _describe_nb,
    ".onnx": _describe_onnx,
}


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with aligned cells."""
    short = [[cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 1]}…" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    for row in short:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
