"""``converter_lite inspect``: what a model file holds, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.registry import framework_of, readable
from converter_lite.system.files import is_folder, refuse_irregular

WIDEST = 48
"""Characters of a cell; longer names end with an ellipsis."""

RUNS = 5
"""Runs per profile; the fastest counts."""


def inspect(path: Path, *, confined: bool = True) -> str:
    """Operators, tensors and quantization of a model file.

    Args:
        path: The file.
        confined: Refuse external data outside its folder.

    Raises:
        UsageError: The file name has another ending.
        ConverterError: The file cannot be read.
    """
    name = framework_of(path)
    if name is None and is_folder(path):
        names = ", ".join(name for known in readable().values() for name in known.folder_files)
        message = f"only folders with one of {names} are inspected"
        raise UsageError(message, where=str(path), hint="of another folder name the model file in it")
    if name is None:
        endings = ", ".join(ending for known in readable().values() for ending in known.suffixes)
        raise UsageError(f"only files that end with {endings} are inspected", where=str(path))
    try:
        refuse_irregular(path)
        blocks = list(readable()[name].describe(path, confined=confined))
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", where=str(path)) from error
    return "\n\n".join(block if isinstance(block, str) else "\n".join(columns(block)) for block in blocks)


def inspect_kernels(
    path: Path,
    *,
    profile: Path | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    confined: bool = True,
) -> str:
    """The kernels that onnxruntime runs for an ONNX file, or the layers of a TensorRT engine, and what they compute with.

    Args:
        path: The model, or a ``.json`` file of ``trtexec``.
        profile: Times of the layers of an engine, if ``path`` lists the layers.
        input_shapes: Sizes of open dimensions.
        confined: As in :func:`inspect`.

    Raises:
        UsageError: It is another kind of file.
        ConverterError: The file cannot be read or run.
    """
    if path.suffix == ".json":
        from converter_lite.analysis import tensorrt

        if input_shapes:
            raise UsageError("an engine has its sizes", where="--inputShape")
        layers = tensorrt.read_engine(path, profile)
        return "\n".join([*columns(list(tensorrt.table(layers))), tensorrt.summary(layers)])
    if profile is not None:
        raise UsageError("it belongs to the layers of a TensorRT engine", where=f"--profile={profile}")
    if path.suffix != ".onnx":
        raise UsageError(
            "kernels are shown for .onnx files, which onnxruntime runs, and for what trtexec exports (.json)",
            where=str(path),
            hint="inspect without --kernels shows what a .ms or .nb file plans for its runtime",
        )
    from converter_lite.analysis.kernels import kernels, summary, table
    from converter_lite.analysis.sample_source import random_feeds
    from converter_lite.formats.onnx.reader import read_onnx
    from converter_lite.graph import static_shape

    model = read_onnx(path, confined=confined)
    try:
        uses = kernels(model, random_feeds(model, RUNS, quantized=model, input_shapes=input_shapes))
    except ModelError as error:
        is_open = any(static_shape(value) is None for value in model.graph.inputs)
        hint = error.hint or ("give the sizes that it runs on with --inputShape" if is_open else "")
        raise ModelError(error.message, where=error.where, hint=hint) from error
    return "\n".join([*columns(list(table(uses))), summary(uses)])


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows as lines with aligned cells."""
    short = [[cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 1]}…" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*short, strict=True)]
    for row in short:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
