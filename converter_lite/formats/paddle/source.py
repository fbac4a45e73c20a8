"""A ``.nb`` file, or a model in Paddle's own files, as the source of a conversion."""

from __future__ import annotations

from pathlib import Path

from converter_lite.formats.paddle.inference_model.reader import locate, read_paddle
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.source import ModelFiles, Source


def read_source(files: ModelFiles) -> Source:
    """Read a model.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    path, shapes = files.path, files.input_shapes
    if path.suffix == ".nb":
        data = files.content()
        return Source.of(read(data, where=str(path), input_shapes=shapes), len(data), str(path))
    quantized = read_paddle(path, files.weights, input_shapes=shapes or None, confined=files.confined)
    return Source.of(quantized, _bytes(*locate(path, files.weights)), str(path))


def _bytes(program: Path, parameters: Path | None) -> int:
    if parameters is not None:
        return program.stat().st_size + parameters.stat().st_size
    return sum(file.stat().st_size for file in program.parent.iterdir() if file.is_file())
