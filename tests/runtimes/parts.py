"""A quantized ONNX file in parts, from one quantized tensor to the next, each with what the exact run of the file gives it.

A rounding that falls to the other side early in a network changes everything behind it, so that a whole network says little
about the runtime that computes it. Parts begin with the same integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from converter_lite.runtime.engine import DEFAULT_ENGINE

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Part:
    """What computes one tensor from the quantized tensors before it, and that tensor as the exact run has it."""

    tensor: str
    model: onnx.ModelProto
    feed: Arrays
    expected: NDArray[Any]


def run_exactly(model: onnx.ModelProto, feed: Mapping[str, NDArray[Any]]) -> Arrays:
    """Outputs without the runtime's own optimizations: integers are made floats again before they are multiplied."""
    return DEFAULT_ENGINE.session(model.SerializeToString(), optimize=False).run(feed)


def parts(model: onnx.ModelProto, feed: Mapping[str, NDArray[Any]]) -> Iterator[Part]:
    """The parts of a file, in order; its outputs end the last ones."""
    borders = _borders(model)
    values = {**feed, **run_exactly(_cut(model, set(), borders, {}), feed)}
    for tensor in borders:
        part = _cut(model, {*borders, *feed} - {tensor}, [tensor], values)
        yield Part(tensor, part, {value.name: values[value.name] for value in part.graph.input}, values[tensor])


def _borders(model: onnx.ModelProto) -> list[str]:
    """What is quantized for good, what is quantized at run time, and the outputs."""
    fixed = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    dynamic = [node.input[0] for node in model.graph.node if node.op_type == "DynamicQuantizeLinear"]
    given = {value.name for value in model.graph.input}
    return [
        name for name in dict.fromkeys([*fixed, *dynamic, *(v.name for v in model.graph.output)]) if name not in given
    ]


def _cut(model: onnx.ModelProto, given: set[str], outputs: list[str], values: Arrays) -> onnx.ModelProto:
    """What is needed for the outputs, with inputs for the tensors that are given."""
    needed, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if needed & set(node.output) - given:
            nodes.append(node)
            needed.update(node.input)
    constants = [constant for constant in model.graph.initializer if constant.name in needed]
    inputs = [_described(name, values[name]) for name in sorted(needed & given)] if given else model.graph.input
    known = {value.name: value for value in model.graph.output}
    ends = [
        _described(name, values[name]) if name in values else known.get(name, helper.make_empty_tensor_value_info(name))
        for name in outputs
    ]
    graph = helper.make_graph(nodes[::-1], "part", inputs, ends, constants)
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def _described(name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def cosine(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Cosine similarity; 1 for two tensors of zeros."""
    x, y = a.reshape(-1).astype(np.float64), b.reshape(-1).astype(np.float64)
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / norms if norms else float(not (x.any() or y.any()))
