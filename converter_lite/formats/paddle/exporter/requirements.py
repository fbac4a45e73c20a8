"""What the translation to Paddle's operators requires of a graph, for either kind of file."""

from __future__ import annotations

from dataclasses import replace

from converter_lite.formats.requirements import DEVICE_FUSED, DEVICE_INLINED, DEVICE_OPSET, GraphRequirements

EXPORTER_REQUIREMENTS = GraphRequirements(
    fused=DEVICE_FUSED,
    opset=DEVICE_OPSET,
    inlined=DEVICE_INLINED | {"MeanVarianceNormalization", "RMSNormalization", "ReduceLogSum"},
    spelled_out=frozenset(
        {
            "Abs of whole numbers",
            "AffineGrid",
            "Atan",
            "BitwiseAnd",
            "Celu",
            "Clip",
            "Col2Im",
            "Concat of truth values",
            "ConcatFromSequence",
            "Constant",
            "Conv",
            "Conv with computed filters",
            "DFT",
            "Einsum",
            "Equal",
            "Expand of truth values",
            "GRU",
            "Gather",
            "GatherElements",
            "GatherND",
            "Gemm",
            "GridSample of another size",
            "If",
            "IsInf",
            "IsNaN",
            "Loop",
            "LogSoftmax",
            "MatMul",
            "MaxPool",
            "MaxPool of volumes",
            "MaxPool with dilations",
            "MaxPool with places",
            "MaxUnpool",
            "OneHot",
            "Pad",
            "Pad of whole numbers",
            "ReduceLogSumExp",
            "Resize",
            "ReverseSequence",
            "Round",
            "STFT",
            "ScatterND",
            "ScatterND to computed places",
            "Selu",
            "Sign",
            "Tan",
            "Softmax of many axes",
            "Transpose of bytes",
            "Transpose of many axes",
        }
    ),
)
"""Operators that it fuses, and those that are written with others first."""

INFERENCE_REQUIREMENTS = replace(
    EXPORTER_REQUIREMENTS,
    spelled_out=EXPORTER_REQUIREMENTS.spelled_out
    | {"Div of repeated elements", "PRelu of one slope", "Resize by fractions"},
)
"""Those of Paddle inference models, which oneDNN may compute."""
