"""Small networks, quantized, for the tests of the analysis."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite.quantization.channels import free_channels
from tests.support import build, clone, full, normal, samples_of, written

GRAPH = """
g (float[1,3,8,8] x) => (float[1,5] y) {
    c1 = Conv<pads = [1,1,1,1]>(x, w1, b1)
    r1 = Relu(c1)
    c2 = Conv<pads = [1,1,1,1]>(r1, w2, b2)
    r2 = Relu(c2)
    pooled = GlobalAveragePool(r2)
    flat = Flatten(pooled)
    y = Gemm<transB = 1>(flat, w3, b3)
}
"""

LAYERS = ["r1", "r2", "pooled", "flat", "y"]
"""Tensors that a quantized network has too: a Relu is part of the layer before it."""


def network() -> ir.Model:
    """Two convolutions and a classifier."""
    weights = {"w1": normal(8, 3, 3, 3, seed=1) / 4, "w2": normal(8, 8, 3, 3, seed=2) / 8, "w3": normal(5, 8, seed=3)}
    biases = {"b1": normal(8, seed=4) / 4, "b2": normal(8, seed=5) / 4, "b3": normal(5, seed=6)}
    return build(GRAPH, **weights, **biases)


def quantized_network(**settings: object) -> ir.Model:
    """The same with integers."""
    model = network()
    return written(full(model, samples=samples_of(model), **settings))


def reordered_network(**settings: object) -> tuple[ir.Model, ir.Model]:
    """The network, and the same with integers and its channels in another order."""
    model = network()
    other, rng = clone(model), np.random.default_rng(1)
    for channels in free_channels(other.graph):
        channels.reorder(np.roll(rng.permutation(channels.count), 1))
    return model, written(full(other, samples=samples_of(model), **settings))


def broken(model: ir.Model, weight: str, factor: float = -1.0) -> ir.Model:
    """A copy in which the scale of a quantized weight has another sign: everything behind it is wrong."""
    copy = clone(model)
    for node in copy.graph:
        if (
            node.op_type == "DequantizeLinear"
            and node.inputs[0] is not None
            and str(node.inputs[0].name).startswith(weight)
        ):
            scale = node.inputs[1]
            assert scale is not None and scale.const_value is not None
            scale.const_value = ir.Tensor((scale.const_value.numpy() * factor).astype(np.float32), name=scale.name)
    return copy
