"""onnxruntime's dynamic quantization: ``quantize_dynamic`` after ``quant_pre_process`` where that works."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnxruntime as ort
from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

from bench.peers.command_line import PeerArguments, peer_parser


def main() -> None:
    """Convert as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--per-channel", action="store_true")
    parser.add_argument("--plain", action="store_true", help="quantize the file as it is")
    parser.add_argument("--folded", action="store_true", help="let the runtime fold constants first")
    arguments = parser.parse_args(namespace=PeerArguments())
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        if arguments.plain:
            prepared = arguments.model
        elif arguments.folded:
            _fold(arguments.model, prepared)
        else:
            quant_pre_process(arguments.model, prepared)
        quantize_dynamic(prepared, arguments.output, per_channel=arguments.per_channel, weight_type=QuantType.QInt8)


def _fold(model: Path, to: Path) -> None:
    """Write the model as the runtime sees it after its basic optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(to)
    ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    main()
