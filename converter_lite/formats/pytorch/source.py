"""A PyTorch model as the source of a conversion."""

from __future__ import annotations

from types import MappingProxyType

from converter_lite.formats.framework import Framework, read_with
from converter_lite.formats.source import ModelFiles, Source

PYTORCH = Framework(
    "PyTorch",
    "PYTORCH",
    extra="pytorch",
    program="converter_lite.formats.pytorch.child.main",
    environment=MappingProxyType({"CUDA_VISIBLE_DEVICES": ""}),
)


def read_source(files: ModelFiles) -> Source:
    """Read a program of ``torch.export``, a TorchScript, or, if the user trusts it, a pickled network.

    Raises:
        ConverterError: It cannot be read, PyTorch is not installed, or the shapes do not fit.
    """
    return read_with(PYTORCH, files)
