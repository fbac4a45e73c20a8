"""Output formats by the name they have in ``--saveType``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from converter_lite.errors import UsageError, did_you_mean
from converter_lite.formats.base import FileOptions, OutputFormat


def _onnx(options: FileOptions) -> OutputFormat:
    from converter_lite.formats.onnx.format import OnnxFormat

    return OnnxFormat(options)


def _mindspore_lite(options: FileOptions) -> OutputFormat:
    from converter_lite.formats.mindspore_lite.format import MsFormat

    return MsFormat.of(options)


def _paddle_lite(options: FileOptions) -> OutputFormat:
    from converter_lite.formats.paddle.format import NbFormat

    return NbFormat.of(options)


FORMATS: Mapping[str, Callable[[FileOptions], OutputFormat]] = MappingProxyType(
    {"MINDIR_LITE": _mindspore_lite, "ONNX": _onnx, "NAIVE_BUFFER": _paddle_lite}
)
"""``--saveType`` -> the format with the options of a request; it refuses options that it cannot follow."""

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
        return FORMATS[name](options)
    if name in UNAVAILABLE:
        raise UsageError(UNAVAILABLE[name], where=f"--saveType={name}", hint=f"available: {', '.join(FORMATS)}")
    raise UsageError(f"unknown output format {name!r}{did_you_mean(name, FORMATS)}", where="--saveType")
