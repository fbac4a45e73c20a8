"""AMD Quark's static quantization of ONNX models to eight bits, and AdaRound, its learned rounding, by an option.

Types and ranges are its defaults (``A8W8``): symmetric int8, a percentile of the observed values. So is AdaRound:
1,000 steps of one sample for each layer.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import onnx
import quark.onnx as q  # type: ignore[import-not-found]  # lives in an environment of its own
from onnx import version_converter

from bench.peers.command_line import PeerArguments, peer_parser
from bench.peers.folding import fold_constants
from bench.samples import Feed

PER_CHANNEL_OPSET = 13


class Reader:
    """Samples as Quark asks for them, as often as it does."""

    def __init__(self, feeds: list[Feed]) -> None:
        """Keep the samples."""
        self._feeds = feeds
        self.reset_iter()

    def __len__(self) -> int:
        return len(self._feeds)

    def __getitem__(self, index: int) -> Feed:
        return self._feeds[index]

    def get_next(self) -> Feed | None:
        """The next sample; ``None`` behind the last."""
        return next(self._left, None)

    def reset_iter(self) -> None:
        """Begin again."""
        self._left = iter(self._feeds)


def main() -> None:
    """Convert as the command line says."""
    parser = peer_parser(__doc__)
    parser.add_argument("--adaround", action="store_true")
    parser.add_argument("--per-channel", action="store_true")
    arguments = parser.parse_args(namespace=PeerArguments())
    size = q.QuantGranularity.Channel if arguments.per_channel else q.QuantGranularity.Tensor
    config = q.QConfig(
        global_config=q.QLayerConfig(activation=q.Int8Spec(), weight=q.Int8Spec(quant_granularity=size)),
        algo_config=[q.AdaRoundConfig(learning_rate=0.1, num_iterations=1000)] if arguments.adaround else [],
    )
    feeds, output = Reader(list(arguments.feeds())), arguments.output.resolve()
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        fold_constants(arguments.model, prepared)
        _raise_opset(prepared)
        os.chdir(folder)  # it writes a table of what it quantized
        q.ModelQuantizer(config).quantize_model(str(prepared), str(output), feeds)


def _raise_opset(model: Path) -> None:
    """Scales per channel need operator set 13."""
    proto = onnx.load(model)
    if next(one.version for one in proto.opset_import if not one.domain) < PER_CHANNEL_OPSET:
        onnx.save(version_converter.convert_version(proto, PER_CHANNEL_OPSET), model)


if __name__ == "__main__":
    main()
