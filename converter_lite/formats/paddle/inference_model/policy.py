"""Which nodes Paddle itself can store with integer weights, and which it can compute with integers.

Source: docs/formats/paddle_inference.md. Everything that makes a plan for a Paddle inference model uses this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.kernels.params import QuantParams, QuantSpec
from converter_lite.targets.operands import is_recurrent, stored_weight
from converter_lite.targets.policy import Capability, StemLimits

NAME = "paddle"
"""The target of plans."""

WIDTHS = (8,)
"""Widths of integer weights."""


PRODUCTS = ("Gemm", "MatMul")
"""ONNX operators whose weights are matrices."""

UNPREPARED = ("ConvTranspose", "Gather")
"""ONNX operators whose integer weights Paddle's passes for oneDNN read as floats: they prepare convolutions and products."""

UNSIGNED = QuantSpec(bits=8, signed=False)
"""Grid of oneDNN's results that are never negative."""

MATRIX = 2
"""Axes of a matrix."""

RELU6 = (0.0, 6.0)
"""Bounds of the only Clip that oneDNN computes with a convolution."""

FLOAT_STEM = StemLimits(narrow=48)
"""Layers behind a picture that stay float: a third of MobileNet's divergence for a thousandth of its weights."""


@dataclass(frozen=True, slots=True)
class InferencePolicy(PaddlePolicy):
    """What Paddle can do; a :class:`~converter_lite.targets.policy.Policy`.

    Attributes:
        weights_only: No node computes with integers: such a model needs no passes, and tables may be stored as integers.
    """

    name: str = NAME
    float_stem: StemLimits = FLOAT_STEM
    weights_only: bool = False

    def capability(self, node: ir.Node) -> Capability:
        """What Paddle can do with a node: what Paddle-Lite's kernels for ARM can, where the passes prepare the weight."""
        found = PaddlePolicy("arm").capability(node)
        integer, stored = (reason.replace("Paddle-Lite", "Paddle") for reason in (found.integer, found.stored))
        if node.op_type in PRODUCTS and _depth(node) == 1:
            alone = "oneDNN reads integer weights of a single row wrong"
            integer, stored = integer or alone, stored or alone
        if is_recurrent(node):
            stored = "weights of recurrent layers stay float"
        if node.op_type in UNPREPARED and stored_weight(node) is not None:
            unprepared = "Paddle's passes for integers do not prepare the weight of such an operator"
            integer = integer or unprepared
            if not self.weights_only:
                stored = stored or unprepared
        return replace(found, integer=integer, stored=stored)

    def computed(self, producer: ir.Node, grid: QuantParams) -> QuantParams:
        """Twice as many steps behind a ReLU, and behind a ReLU6 that becomes a part of a convolution."""
        if not _is_known_positive(producer) or not grid.spec.signed:
            return grid
        scale = (grid.scale.astype(np.float64) * grid.spec.qmax / UNSIGNED.qmax).astype(np.float32)
        return QuantParams(scale, np.zeros_like(grid.zero_point), UNSIGNED)


def _depth(node: ir.Node) -> int:
    """How many products each result of a matrix product sums; 0 if that is not known."""
    size = g.static_shape(node.inputs[1])
    if size is None or len(size) != MATRIX:
        return 0
    return size[1 if g.int_attribute(node, "transB", 0) else 0]


def _is_known_positive(producer: ir.Node) -> bool:
    """Whether Paddle's passes take a result for one that is never negative."""
    data = producer.inputs[0] if producer.inputs else None
    if producer.op_type == "Relu" or data is None:
        return producer.op_type == "Relu"
    source = data.producer()
    is_fused = source is not None and source.op_type == "Conv" and len(data.uses()) == 1
    return is_fused and producer.op_type == "Clip" and g.clamp_bounds(producer) == RELU6
