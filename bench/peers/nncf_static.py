"""NNCF's post-training quantization of ONNX models."""

from __future__ import annotations

import nncf  # type: ignore[import-not-found]  # lives in an environment of its own
import onnx

from bench.peers.command_line import PeerArguments, peer_parser


def main() -> None:
    """Convert as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--full-bias-correction", action="store_true")
    arguments = parser.parse_args(namespace=PeerArguments())
    model = nncf.quantize(
        onnx.load(arguments.model),
        nncf.Dataset(list(arguments.feeds())),
        subset_size=arguments.samples,
        fast_bias_correction=not arguments.full_bias_correction,
    )
    onnx.save(model, arguments.output)


if __name__ == "__main__":
    main()
