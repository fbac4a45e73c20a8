"""Cutting a graph between its layers, so that each reads what another graph computes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.kernels.params import QuantParams
from converter_lite.quantization.qdq.materialize import storage_type
from converter_lite.reports.observation import observable

STAND_IN = "{}@float"
"""Name of the input that represents a tensor of the float graph."""


def cut(graph: ir.Graph, value: ir.Value, name: str, readers: Iterable[tuple[ir.Node, int]]) -> ir.Value:
    """Let ``readers``, as ``(node, position)``, read a new input of the graph instead of ``value``.

    Args:
        graph: Changed in place.
        value: What they read now.
        name: Of the input.
        readers: Uses of ``value``; the others stay.

    Returns:
        The input.
    """
    stand_in = ir.Value(name=name, shape=value.shape, type=value.type or ir.TensorType(ir.DataType.FLOAT))
    graph.inputs.append(stand_in)
    for node, position in tuple(readers):
        node.replace_input_with(position, stand_in)
    return stand_in


def parts(model: ir.Model, outputs: Iterable[str]) -> ir.Model:
    """A copy of a cut graph that computes these tensors, with the inputs that they need."""
    copy = observable(model, outputs)
    for value in list(copy.graph.inputs):
        if not value.uses() and not value.is_graph_output():
            copy.graph.inputs.remove(value)
    return copy


def integer_type(params: QuantParams) -> np.dtype[Any]:
    """Type that integers of a grid are stored in."""
    return storage_type(params.spec).numpy()


def integers(values: NDArray[Any], params: QuantParams) -> NDArray[Any]:
    """What a quantized graph holds for real numbers; integers have no NaN, zero takes its place."""
    numbers = np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return params.quantize(numbers).astype(integer_type(params))
