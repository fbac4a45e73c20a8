"""onnxruntime's static quantization: ``quant_pre_process`` and ``quantize_static``, QDQ."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quant_pre_process,
    quantize_static,
)

from bench.peers.command_line import PeerArguments, peer_parser
from bench.samples import Feed

METHODS = {
    "MinMax": CalibrationMethod.MinMax,
    "Entropy": CalibrationMethod.Entropy,
    "Percentile": CalibrationMethod.Percentile,
}

PER_AXIS_OPSET = 13
"""First opset whose QuantizeLinear has an axis."""


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: Iterator[Feed]) -> None:
        self._feeds = feeds

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


def main() -> None:
    """Convert as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--method", choices=METHODS, default="MinMax")
    parser.add_argument("--per-tensor", action="store_true")
    parser.add_argument("--uint8-activations", action="store_true")
    arguments = parser.parse_args(namespace=PeerArguments())
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(_raised(arguments.model, Path(folder)), prepared)
        quantize_static(
            prepared,
            arguments.output,
            _Reader(arguments.feeds()),
            quant_format=QuantFormat.QDQ,
            per_channel=not arguments.per_tensor,
            activation_type=QuantType.QUInt8 if arguments.uint8_activations else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=METHODS[arguments.method],
        )


def _raised(path: Path, folder: Path) -> Path:
    """The model, with its opset raised where it is too low for one scale per channel."""
    model: Any = onnx.load(path)
    if next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")) >= PER_AXIS_OPSET:
        return path
    raised = folder / "raised.onnx"
    onnx.save(onnx.version_converter.convert_version(model, PER_AXIS_OPSET), raised)
    return raised


if __name__ == "__main__":
    main()
