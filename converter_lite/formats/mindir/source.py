"""A MindIR file as the source of a conversion."""

from __future__ import annotations

from converter_lite.formats.mindir.importer.graph import to_model
from converter_lite.formats.mindir.reader import Reader
from converter_lite.formats.mindir.weights import Weights
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.passes.nearest import gather_by_ratio


def read_source(files: ModelFiles) -> Source:
    """Read a program, with its weights from the files that it names.

    Raises:
        ConverterError: One of them cannot be read, an operator has no counterpart, or the shapes do not fit.
    """
    where, content = str(files.path), files.content()
    reader = Reader(content, where)
    weights = Weights(files.path.parent, confined=files.confined, where=where)
    model = to_model(reader.program(), reader, weights, files.input_shapes)
    gather_by_ratio(model)
    return Source(model, len(content) + weights.bytes, where)
