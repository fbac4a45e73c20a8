"""Folding a per-channel scale and shift into the weights of the layer before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.graph import add_initializer, constant, float_attribute, input_at, int_attribute, is_constant
from converter_lite.passes.rewrite import is_op, replace

BATCHNORM = "batchnorm"
"""Key of ``value.meta``: ``(beta, |gamma|)``, mean and standard deviation per channel of a folded normalization."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LinearLayer:
    """A Conv, ConvTranspose or Gemm with constant parameters.

    Attributes:
        node: The layer.
        weight: As stored. Conv: (O, I/groups, ...), ConvTranspose: (I, O/groups, ...), Gemm: (K, N) or (N, K).
        bias: (O,), zeros where the layer has none; Gemm's ``beta`` is multiplied in.
        has_bias: Whether the layer has a bias input.
    """

    node: ir.Node
    weight: NDArray[np.generic]
    bias: Vector
    has_bias: bool

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return int(self.bias.size)

    @property
    def output_rank(self) -> int:
        """Rank of the layer's output; channels are on axis 1."""
        return self.weight.ndim


def linear_layer(node: ir.Node | None) -> LinearLayer | None:
    """The layer when its weight and bias are float constants, else ``None``."""
    if node is None or not is_op(node, "Conv", "ConvTranspose", "Gemm") or not is_constant(input_at(node, 1)):
        return None
    weight = constant(node.inputs[1])
    if weight is None or weight.dtype not in (np.float32, np.float64) or weight.ndim < 2:
        return None
    channels = _channels(node, weight)
    bias_value = input_at(node, 2)
    if bias_value is None:
        return LinearLayer(node, weight, np.zeros(channels), has_bias=False)
    bias = constant(bias_value)
    if bias is None or bias.size not in (1, channels) or (bias.ndim > 1 and bias.shape[-1] != bias.size):
        return None
    beta = float_attribute(node, "beta", 1.0) if node.op_type == "Gemm" else 1.0
    values = np.broadcast_to(bias.reshape(-1).astype(np.float64) * beta, (channels,))
    return LinearLayer(node, weight, values, has_bias=True)


def _channels(node: ir.Node, weight: NDArray[np.generic]) -> int:
    if node.op_type == "ConvTranspose":
        return int(weight.shape[1]) * int_attribute(node, "group", 1)
    if node.op_type == "Gemm" and not int_attribute(node, "transB", 0):
        return int(weight.shape[1])
    return int(weight.shape[0])


def scale_and_shift(layer: LinearLayer, scale: Vector, shift: Vector) -> ir.Node | None:
    """The layer changed so that it returns ``scale * output + shift``; ``None`` when a number is not finite.

    Shapes: ``scale``, ``shift``: (O,). A layer that gets its first bias is a new node in the old one's place. New
    constants are made, as other nodes may read the old ones. Statistics of a normalization folded earlier follow the
    change.
    """
    if not (np.all(np.isfinite(scale)) and np.all(np.isfinite(shift))):
        return None
    node, graph = layer.node, layer.node.graph
    if not isinstance(graph, ir.Graph):
        return None
    if not np.all(scale == 1.0):
        with np.errstate(over="ignore", invalid="ignore"):  # weights that are not finite remain so
            weight = layer.weight * _along_outputs(layer, scale).astype(layer.weight.dtype)
        _exchange_constant(graph, node, 1, weight)
    bias = layer.bias * scale + shift
    if layer.has_bias or np.any(bias):
        node = _with_bias(layer, graph, bias.astype(layer.weight.dtype))
    statistics = node.outputs[0].meta.get(BATCHNORM)
    if statistics is not None:
        mean, deviation = statistics
        node.outputs[0].meta[BATCHNORM] = (
            (mean * scale + shift).astype(np.float32),
            (deviation * np.abs(scale)).astype(np.float32),
        )
    return node


def _along_outputs(layer: LinearLayer, scale: Vector) -> NDArray[np.float64]:
    """The scale shaped so that it multiplies the output channels of the stored weight."""
    node, weight = layer.node, layer.weight
    ones = (1,) * (weight.ndim - 2)
    if node.op_type == "ConvTranspose":
        groups = int_attribute(node, "group", 1)
        per_group = scale.reshape(groups, 1, -1)
        return np.repeat(per_group, weight.shape[0] // groups, axis=1).reshape(weight.shape[0], -1, *ones)
    if node.op_type == "Gemm" and not int_attribute(node, "transB", 0):
        return scale.reshape(1, -1)
    return scale.reshape(-1, 1, *ones)


def _with_bias(layer: LinearLayer, graph: ir.Graph, bias: NDArray[np.generic]) -> ir.Node:
    node = layer.node
    if layer.has_bias:
        _exchange_constant(graph, node, 2, bias)
    else:
        inputs = [*node.inputs[:2], add_initializer(graph, f"{node.name}_bias", bias)]
        biased = ir.Node(node.domain, node.op_type, inputs, tuple(node.attributes.values()), num_outputs=1)
        replace([node], biased)
        node = biased
    if node.op_type == "Gemm":
        node.attributes["beta"] = ir.AttrFloat32("beta", 1.0)
    return node


def _exchange_constant(graph: ir.Graph, node: ir.Node, index: int, array: NDArray[np.generic]) -> None:
    """Give the node a new constant, under the name of the old one when nothing else reads that."""
    old = node.inputs[index]
    node.replace_input_with(index, None)
    name = str(old.name) if old is not None else f"{node.name}_{index}"
    if old is not None and not old.uses() and not old.is_graph_output():
        graph.initializers.pop(name, None)
    node.replace_input_with(index, add_initializer(graph, name, array))
