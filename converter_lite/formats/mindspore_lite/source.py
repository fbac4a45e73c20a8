"""A ``.ms`` file as the source of a conversion."""

from __future__ import annotations

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.passes.input_shapes import fix_input_shapes


def read_source(files: ModelFiles) -> Source:
    """Read a model.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    path, data = files.path, files.content()
    try:
        quantized = to_quantized_model(data)
    except FormatError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise FormatError(error.message, where=where, hint=error.hint) from error
    if files.input_shapes:
        fix_input_shapes(quantized.model, files.input_shapes)
    return Source.of(quantized, len(data), str(path))
