"""Output formats by the name they have in ``--saveType``."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import onnx_ir as ir

from converter_lite.errors import UsageError
from converter_lite.passes.io_types import IoTypes
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.suggest import did_you_mean


class OutputFormat(Protocol):
    """A kind of file that a quantized model can be written as."""

    name: str
    suffix: str

    def check(self, model: ir.Model) -> None:
        """Refuse a model that the format cannot express, before any other work.

        Raises:
            TargetError: It cannot; nodes and reasons are named.
        """

    def write(self, quantized: QuantizedModel, path: Path, *, io_types: IoTypes, fp16: bool) -> list[Path]:
        """Write the model.

        Returns:
            Written files, the model first.
        """

    def runnable(self, path: Path) -> bytes | Path:
        """What the written file says, read back as an ONNX model that the engine can load.

        Raises:
            FormatError: The file is not valid.
        """


class OnnxFormat:
    """ONNX with quantize/dequantize pairs."""

    name = "ONNX"
    suffix = ".onnx"

    def check(self, model: ir.Model) -> None:
        """Every ONNX model can be written as ONNX."""

    def write(self, quantized: QuantizedModel, path: Path, *, io_types: IoTypes, fp16: bool) -> list[Path]:
        """See :class:`OutputFormat`."""
        from converter_lite.formats.onnx_qdq import writer
        from converter_lite.passes.half import store_constants_as_float16
        from converter_lite.passes.io_types import change_io_types

        model = writer.build(quantized)
        change_io_types(model, io_types)
        if fp16:
            store_constants_as_float16(model)
        return writer.save(model, path)

    def runnable(self, path: Path) -> bytes | Path:
        """See :class:`OutputFormat`."""
        from converter_lite.formats.onnx_qdq import writer

        writer.check(path)
        return path


FORMATS: dict[str, OutputFormat] = {fmt.name: fmt for fmt in (OnnxFormat(),)}

UNAVAILABLE = {
    "MINDIR_LITE": "writing MindSpore Lite .ms files is not available yet",
    "NAIVE_BUFFER": "writing Paddle-Lite .nb files is not available yet",
    "MINDIR": "writing MindIR files is not supported: their readers are part of the MindSpore framework",
}
"""Known names of ``--saveType`` that are refused, with the reason."""


def output_format(name: str) -> OutputFormat:
    """The format of a ``--saveType`` name.

    Raises:
        UsageError: Unknown or not available; the reason is given.
    """
    if name in FORMATS:
        return FORMATS[name]
    if name in UNAVAILABLE:
        raise UsageError(UNAVAILABLE[name], where=f"--saveType={name}", hint=f"available: {', '.join(FORMATS)}")
    raise UsageError(f"unknown output format {name!r}{did_you_mean(name, FORMATS)}", where="--saveType")
