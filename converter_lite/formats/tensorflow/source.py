"""A TensorFlow or Keras model as the source of a conversion."""

from __future__ import annotations

from types import MappingProxyType

from converter_lite.formats.framework import Framework, read_with
from converter_lite.formats.source import ModelFiles, Source

TENSORFLOW = Framework(
    "TensorFlow",
    "TF",
    extra="tensorflow",
    program="converter_lite.formats.tensorflow.child.main",
    environment=MappingProxyType(
        {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    ),
)


def read_source(files: ModelFiles) -> Source:
    """Read a frozen graph, a SavedModel (its folder, or the file ``saved_model.pb`` in it) or a Keras file.

    Raises:
        ConverterError: It cannot be read, TensorFlow is not installed, or the shapes do not fit.
    """
    return read_with(TENSORFLOW, files)
