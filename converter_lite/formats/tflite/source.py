"""A ``.tflite`` file as the source of a conversion."""

from __future__ import annotations

from converter_lite.formats.source import ModelFiles, Source
from converter_lite.formats.tflite.importer.graph import to_quantized_model


def read_source(files: ModelFiles) -> Source:
    """Read a model.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    data, where = files.content(), str(files.path)
    quantized = to_quantized_model(data, where=where, input_shapes=files.input_shapes)
    return Source.of(quantized, len(data), where)
