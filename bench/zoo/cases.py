"""What is done with each network: conversions of ours, and those of onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CALIBRATION = 8
"""Samples that calibrate; those behind them prove."""

FORMATS = {"onnx": "ONNX", "ms": "MINDIR_LITE", "nb": "NAIVE_BUFFER"}
"""Suffix of a file -> word of ``--saveType``."""

SETTINGS = {
    "float": None,
    "full": "FULL_QUANT\nbit_num=8\n",
    "weight8": "WEIGHT_QUANT\nbit_num=8\n",
    "weight4": "WEIGHT_QUANT\nbit_num=4\n",
    "dynamic": "DYNAMIC_QUANT\n",
}
"""Mode -> the beginning of its configuration."""

PEERS = {"ort_static": (), "ort_dynamic": (), "nearest_8": ("--bits=8",), "nearest_4": ("--bits=4",)}
"""Mode -> options of its program: onnxruntime's quantizers, and plain rounding."""

SIZELESS = frozenset({"nearest_8", "nearest_4"})
"""Those whose files say nothing about size and speed."""


@dataclass(frozen=True, slots=True)
class Case:
    """One conversion of a network.

    Attributes:
        mode: A key of :data:`SETTINGS` or of :data:`PEERS`.
        suffix: Of the file that is written.
    """

    mode: str
    suffix: str = "onnx"

    @property
    def name(self) -> str:
        """As on the command line and in the results."""
        return self.mode if self.is_peer else f"{self.mode}.{self.suffix}"

    @property
    def is_peer(self) -> bool:
        """Whether it is done by what ours is compared with."""
        return self.mode in PEERS


CASES = (*(Case(mode, suffix) for mode in SETTINGS for suffix in FORMATS), *map(Case, PEERS))


def configuration(mode: str, inputs: list[str], samples: Path) -> str:
    """The INI file of a mode."""
    text = f"[common_quant_param]\nquant_type={SETTINGS[mode]}"
    if mode == "full":
        paths = ",".join(f"{name}:{samples / str(index)}" for index, name in enumerate(inputs))
        text += f"[data_preprocess_param]\ncalibrate_path={paths}\ncalibrate_size={CALIBRATION}\ninput_type=BIN\n"
    return text
