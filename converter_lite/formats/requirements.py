"""How a kind of file wants the graph."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphForm:
    """How a format wants the graph.

    Attributes:
        static: Every input has a fixed shape.
        fused: Operators that it has as one and exporters write as many, see ``passes.pipeline.FUSIONS``.
        opset: Operator set in which those exist; ``None`` keeps the model's.
        pairs: QuantizeLinear and DequantizeLinear of a quantized model may stay in the graph.
    """

    static: bool = False
    fused: frozenset[str] = frozenset()
    opset: int | None = None
    pairs: bool = False


DEVICE_FUSED = frozenset({"LayerNormalization", "Gelu", "HardSwish", "HardSigmoid"})
"""Operators that the runtimes of devices compute with one kernel and that exporters write as many."""

DEVICE_OPSET = 20
"""Operator set in which all of them exist."""
