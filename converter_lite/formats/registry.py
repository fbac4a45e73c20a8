"""Every kind of file by its names: ``--fmk`` for what is read, ``--saveType`` for what is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from converter_lite.errors import UsageError, did_you_mean
from converter_lite.formats import mindspore_lite, onnx, paddle
from converter_lite.formats.flags import FormatFlags

if TYPE_CHECKING:
    from converter_lite.formats.base import Block, FileOptions, OutputFormat
    from converter_lite.formats.source import ModelFiles, Source


class Reader(Protocol):
    """The folder of a format that is read."""

    def read_source(self, files: ModelFiles) -> Source:
        """Read a model.

        Raises:
            ConverterError: It cannot be read, or the shapes do not fit.
        """


class Writer(Protocol):
    """The folder of a format that is written, and read back.

    Attributes:
        SUFFIX: End of file names.
    """

    SUFFIX: str

    @property
    def Flags(self) -> type[FormatFlags]:  # noqa: N802 - a class
        """What a person can choose about a file."""

    def output_format(self, options: FileOptions) -> OutputFormat:
        """What writes files as the options say.

        Raises:
            TargetError: It cannot follow an option.
        """

    def describe(self, path: Path, *, confined: bool) -> Iterator[Block]:
        """What a file holds: lines and tables.

        Raises:
            ConverterError: The file cannot be read.
        """


FRAMEWORKS: Mapping[str, Reader | str] = MappingProxyType(
    {
        "TF": "TensorFlow models are not read; export them with tf2onnx and use --fmk=ONNX",
        "TFLITE": "TensorFlow Lite models are not read; convert them with tf2onnx and use --fmk=ONNX",
        "CAFFE": "Caffe models are not read; convert them to ONNX and use --fmk=ONNX",
        "MINDIR": "MindIR models are not read; export ONNX from MindSpore and use --fmk=ONNX",
        "PYTORCH": "PyTorch files are not read; use torch.onnx.export and --fmk=ONNX",
        "MSLITE": mindspore_lite,
        "PADDLE": paddle,
        "OM": "Ascend offline models are not read; use the ONNX file they were made from",
        "ONNX": onnx,
    }
)
"""Values of ``--fmk`` -> the format, or why it is refused."""

FORMATS: Mapping[str, Writer] = MappingProxyType({"MINDIR_LITE": mindspore_lite, "ONNX": onnx, "NAIVE_BUFFER": paddle})
"""Values of ``--saveType`` -> the format."""

UNAVAILABLE = {
    "MINDIR": "writing MindIR files is not supported: their readers are part of the MindSpore framework",
}
"""Known names of ``--saveType`` that are refused, with the reason."""


def output_format(name: str, options: FileOptions) -> OutputFormat:
    """The format of a ``--saveType`` name.

    Raises:
        UsageError: Unknown or not available; the reason is given.
        TargetError: The format cannot follow an option.
    """
    if name in FORMATS:
        return FORMATS[name].output_format(options)
    if name in UNAVAILABLE:
        raise UsageError(UNAVAILABLE[name], where=f"--saveType={name}", hint=f"available: {', '.join(FORMATS)}")
    raise UsageError(f"unknown output format {name!r}{did_you_mean(name, FORMATS)}", where="--saveType")


def by_suffix(path: Path) -> str | None:
    """Name of the format whose files end as this one does."""
    return next((name for name, folder in FORMATS.items() if path.suffix == folder.SUFFIX), None)
