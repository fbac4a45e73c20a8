"""Flags of ONNX files."""

from __future__ import annotations

from dataclasses import dataclass

from converter_lite.formats.flags import FormatFlags, flag


@dataclass(frozen=True, kw_only=True)
class OnnxFlags(FormatFlags):
    """The user's options for an ONNX file.

    Attributes:
        uint8_weights: Whether int8 weights with which integer kernels of x86 processors could saturate are stored as uint8:
            ``on``, ``off``, or ``auto``: where they came with the model. Those that are chosen here cannot saturate.
        keep_metadata: Notes of exporters about graphs, nodes and tensors stay in the file.
    """

    uint8_weights: str = flag(
        "auto",
        name="uint8Weights",
        help="on: ONNX files store int8 weights with which kernels of x86 processors without VNNI could saturate as uint8: "
        "exact everywhere, and slower. auto: those of integer models of other frameworks.",
        choices=("auto", "on", "off"),
    )
    keep_metadata: bool = flag(
        False,
        name="keepMetadata",
        help="on: ONNX files keep what exporters note about nodes and tensors (stack traces with paths, names of modules).",
    )
