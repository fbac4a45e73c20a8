"""A PyTorch model as the source of a conversion."""

from __future__ import annotations

from types import MappingProxyType

from converter_lite.errors import ModelError
from converter_lite.formats.child import Refusal
from converter_lite.formats.framework import Framework, read_with
from converter_lite.formats.pytorch.child.archive import archive_of
from converter_lite.formats.source import ModelFiles, Source
from converter_lite.passes.nearest import gather_by_ratio

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
    if files.path.is_file() and not files.allow_unsafe:
        try:
            archive_of(files.path).refuse_code()
        except Refusal as refusal:
            raise ModelError(refusal.message, where=str(files.path), hint=refusal.hint) from refusal
        except OSError as error:
            raise ModelError(f"the model file cannot be read: {error.strerror}", where=str(files.path)) from error
    source = read_with(PYTORCH, files)
    gather_by_ratio(source.model)
    return source
