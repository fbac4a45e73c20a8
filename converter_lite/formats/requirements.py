"""What an output format requires of a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class GraphRequirements:
    """What a format requires of a graph.

    Attributes:
        static: Every input has a fixed shape.
        fused: Operators that the format has as one and exporters write as several, see ``passes.pipeline.FUSIONS``.
        opset: Operator set that defines those; ``None`` keeps the model's.
        spelled_out: Operators that the format lacks and others can compute, see ``passes.spelled_out``.
        slow: Operators that the format has and others compute faster, spelled out where something is quantized.
        inlined: Operators that the format lacks and ONNX defines by others, see ``passes.definitions``.
        float32: float16 and bfloat16 are computed in float32, which is what is quantized.
        keeps_qdq: The QuantizeLinear and DequantizeLinear of a quantized model may stay in the graph.
        compact: The graph takes no more space than the model that was read; only where nothing is quantized.
    """

    static: bool = False
    fused: frozenset[str] = frozenset()
    opset: int | None = None
    spelled_out: frozenset[str] = frozenset()
    slow: frozenset[str] = frozenset()
    inlined: frozenset[str] = frozenset()
    float32: bool = False
    keeps_qdq: bool = False
    compact: bool = False

    def of_quantized(self) -> GraphRequirements:
        """Those of a graph that is to be quantized: computed in float32, of any size."""
        return replace(self, float32=True, compact=False)


DEVICE_FUSED = frozenset({"LayerNormalization", "Gelu", "HardSwish", "HardSigmoid"})
"""Operators that device runtimes compute with one kernel and exporters write as several."""

DEVICE_INLINED = frozenset(
    {
        "Attention",
        "BlackmanWindow",
        "CastLike",
        "CenterCropPad",
        "HammingWindow",
        "HannWindow",
        "LayerNormalization",
        "NegativeLogLikelihoodLoss",
        "RotaryEmbedding",
        "Shrink",
        "SoftmaxCrossEntropyLoss",
    }
)
"""Operators that no device runtime has; LayerNormalization with more than one output."""

DEVICE_OPSET = 20
"""The first operator set that defines all of them."""
