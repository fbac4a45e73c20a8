"""Running a graph of many nodes: in parts, because what a runtime does to load a graph grows with the square of its nodes.

onnxruntime 1.32 loads 7,500 nodes with Q/DQ pairs in 0.5 seconds of processor time and 25,000 in 3.3; in parts it takes 0.04
seconds a thousand, cutting included, and gives the same numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import onnx
from numpy.typing import NDArray

from converter_lite.runtime.engine import Feed, Session
from converter_lite.runtime.parts import Part, parts

LONG = 8_000
"""Nodes from which a graph is run in parts."""

PART = 250
"""Nodes of a part; more where it is better not cut."""

LONGEST = 4 * PART
"""Nodes at which it is cut anywhere: integers may then be computed in float, which is as exact."""

Open = Callable[[bytes, Mapping[str, NDArray[Any]]], Session]


def is_long(graph: onnx.GraphProto) -> bool:
    """Whether a graph should run in parts. Sequences and optional values cannot be handed from one to another."""
    nodes = graph.node
    return len(nodes) >= LONG and not any("Sequence" in node.op_type or "Optional" in node.op_type for node in nodes)


class LongSession:
    """A :class:`converter_lite.runtime.engine.Session` of the parts of a graph, each opened when it first runs.

    Parts are made of the messages of their nodes and constants, since building those anew takes longer than loading them.

    Args:
        model: The model, its nodes sorted.
        tensors: Constants that it declares external, by name.
        opens: Makes a session of a serialized part and the external constants that it reads.
    """

    def __init__(self, model: onnx.ModelProto, tensors: Mapping[str, NDArray[Any]], opens: Open) -> None:
        graph = model.graph
        self.output_names = [value.name for value in graph.output]
        self._model, self._tensors, self._opens = model, tensors, opens
        self._types = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        given = {value.name for value in graph.input}
        self._constants = {tensor.name: tensor for tensor in graph.initializer if tensor.name not in given}
        handed_on = given.union(self.output_names)  # no node reads a constant output, and an input may have a default
        self._held = {
            tensor.name: tensors[tensor.name] if tensor.name in tensors else onnx.numpy_helper.to_array(tensor)
            for tensor in graph.initializer
            if tensor.name in handed_on
        }
        computed = {name for node in graph.node for name in node.output}
        known = (given | computed | self._constants.keys()) - {""}
        reads = [[name for name in _names_read(node) if name in known] for node in graph.node]
        self._groups = list(_groups(graph.node, reads))
        values = (
            ({n for i in group for n in reads[i]} - self._constants.keys(), self._made(group)) for group in self._groups
        )
        self._parts = parts(values, self.output_names)
        self._read = [list(dict.fromkeys(name for i in group for name in reads[i])) for group in self._groups]
        self._sessions: list[Session | None] = [None] * len(self._parts)
        self._lock = Lock()

    def run(self, feed: Feed) -> dict[str, NDArray[Any]]:
        """Outputs by name for one sample.

        Raises:
            ModelError: The runtime refuses a part or the sample.
        """
        values = {**self._held, **feed}
        for index, part in enumerate(self._parts):
            given = {name: values[name] for name in part.inputs}
            values.update(self._session(index, given).run(given))
            for name in part.dropped:
                del values[name]
        return {name: values[name] for name in self.output_names}

    def _session(self, index: int, given: Feed) -> Session:
        with self._lock:
            session = self._sessions[index]
            if session is None:
                tensors = {name: self._tensors[name] for name in self._read[index] if name in self._tensors}
                content = self._extracted(index, self._parts[index], given).SerializeToString()
                session = self._sessions[index] = self._opens(content, tensors)
            return session

    def _made(self, group: Sequence[int]) -> list[str]:
        return [name for i in group for name in self._model.graph.node[i].output if name]

    def _extracted(self, index: int, part: Part, given: Feed) -> onnx.ModelProto:
        """A part as a model; what it is given says the types that the graph leaves out."""
        source, group = self._model, self._groups[index]
        made = onnx.ModelProto(
            ir_version=source.ir_version, opset_import=source.opset_import, functions=source.functions
        )
        graph = made.graph
        graph.name = source.graph.name
        graph.node.extend(source.graph.node[i] for i in group)
        constants, types = self._constants, self._types
        graph.initializer.extend(constants[name] for name in self._read[index] if name in constants)
        graph.input.extend(_described(types.get(name), name, given[name]) for name in part.inputs)
        graph.output.extend(types.get(name) or onnx.ValueInfoProto(name=name) for name in part.outputs)
        outputs = set(part.outputs)
        inner = (name for name in self._made(group) if name in types and name not in outputs)
        graph.value_info.extend(types[name] for name in inner)
        return made


def _described(known: onnx.ValueInfoProto | None, name: str, array: NDArray[Any]) -> onnx.ValueInfoProto:
    """What the graph says of a value, and of an array that it holds where the graph does not."""
    value = onnx.ValueInfoProto(name=name)
    if known is not None:
        value.CopyFrom(known)
    tensor = value.type.tensor_type
    tensor.elem_type = tensor.elem_type or onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    if not tensor.HasField("shape"):
        tensor.shape.dim.extend(onnx.TensorShapeProto.Dimension() for _ in range(array.ndim))
        tensor.shape.SetInParent()
    return value


def _names_read(node: onnx.NodeProto) -> list[str]:
    """Inputs of a node and of the nodes in its subgraphs, and what those return."""
    names = list(node.input)
    for attribute in node.attribute:
        for graph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
            names += [name for inner in graph.node for name in _names_read(inner)]
            names += [value.name for value in graph.output]
    return names


def _groups(nodes: Sequence[onnx.NodeProto], reads: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """Numbers of nodes in order, cut behind QuantizeLinear where there are such: what runs in integers stays together."""
    has_pairs = any(node.op_type == "QuantizeLinear" for node in nodes)
    left = Counter(name for names in reads for name in names)
    waiting: set[str] = set()
    group: list[int] = []
    for index, node in enumerate(nodes):
        group.append(index)
        for name in reads[index]:
            left[name] -= 1
            if not left[name]:
                waiting.discard(name)
        if node.op_type == "DequantizeLinear":
            waiting.update(name for name in node.output if left[name])
        is_between = not waiting and (node.op_type == "QuantizeLinear" or not has_pairs)
        if len(group) >= PART and (is_between or len(group) >= LONGEST):
            yield group
            group = []
    if group:
        yield group
