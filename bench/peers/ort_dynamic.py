"""onnxruntime's dynamic quantization: ``quantize_dynamic`` after ``quant_pre_process`` where that works."""

from __future__ import annotations

import tempfile
from pathlib import Path

from onnxruntime.quantization import QuantType, quant_pre_process, quantize_dynamic

from bench.peers.command_line import PeerArguments, peer_parser
from bench.peers.folding import fold_constants


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
            fold_constants(arguments.model, prepared)
        else:
            quant_pre_process(arguments.model, prepared)
        quantize_dynamic(prepared, arguments.output, per_channel=arguments.per_channel, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main()
