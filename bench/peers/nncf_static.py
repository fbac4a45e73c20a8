"""NNCF's post-training quantization of ONNX models.

NNCF corrects the biases of convolutions that have one. In a model as exported, BatchNormalization holds the bias and next
to nothing is corrected; therefore it is folded first, as ``quant_pre_process`` does for onnxruntime.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import nncf  # type: ignore[import-not-found]  # lives in an environment of its own
import onnx

from bench.peers.command_line import PeerArguments, peer_parser
from bench.peers.folding import fold_constants


def main() -> None:
    """Convert as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--full-bias-correction", action="store_true")
    parser.add_argument("--plain", action="store_true", help="quantize the file as it is")
    arguments = parser.parse_args(namespace=PeerArguments())
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        if arguments.plain:
            prepared = arguments.model
        else:
            fold_constants(arguments.model, prepared)
        model = onnx.load(prepared)
    quantized = nncf.quantize(
        model,
        nncf.Dataset(list(arguments.feeds())),
        subset_size=arguments.samples,
        fast_bias_correction=not arguments.full_bias_correction,
    )
    onnx.save(quantized, arguments.output)


if __name__ == "__main__":
    main()
