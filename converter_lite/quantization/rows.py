"""Activations that are quantized row by row while a model runs: around which zero point."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.passes.gelu import spelled_out_gelus

MIDDLE = 128
"""Zero point of symmetric values. With int8 they would be 17 times as slow: onnxruntime (1.31, x86) is fast for uint8 times
int8."""

LOW = 32
"""Zero point of values that never fall far below zero."""

LOWER_BOUNDS = {"Gelu": -0.17005, "Relu": 0.0, "Sigmoid": 0.0, "Softmax": 0.0}
"""Operator -> a lower bound of its results (the tanh approximation of Gelu has its minimum at -0.17004)."""


class LowerBounds:
    """Lower bounds of a graph's tensors that hold for every input, where operators imply one."""

    def __init__(self, graph: ir.Graph) -> None:
        self._gelus = spelled_out_gelus(graph)

    def of(self, value: ir.Value) -> float | None:
        """The bound, or ``None``."""
        producer = value.producer()
        if value in self._gelus:
            return LOWER_BOUNDS["Gelu"]
        return LOWER_BOUNDS.get(producer.op_type) if producer is not None and not producer.domain else None

    def zero_point(self, value: ir.Value | None) -> int:
        """The zero point around which every row of a tensor is quantized."""
        return MIDDLE if value is None or self.of(value) is None else LOW
