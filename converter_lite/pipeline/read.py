"""Reading the model of a request, whatever its framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from converter_lite.formats.registry import FRAMEWORKS
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.pipeline.request import ConvertRequest
from converter_lite.system.encryption import reading_key


def read_source(request: ConvertRequest, *, static_shapes: Mapping[str, Sequence[int]]) -> Source:
    """Read the model of a request.

    Args:
        request: Framework and files.
        static_shapes: Shapes to build into the graph.

    Raises:
        ConverterError: It cannot be read, or the shapes do not fit.
    """
    reader = FRAMEWORKS[request.fmk]
    assert not isinstance(reader, str)  # a refusal, which the request raised
    confined = not request.allow_external_paths
    unsafe = request.allow_unsafe_models
    key = reading_key(request.decrypt_key, request.decrypt_mode)
    return reader.read_source(ModelFiles(request.model_file, request.weight_file, static_shapes, confined, unsafe, key))
