"""Serializing a graph for an engine, whatever its size.

A protobuf message ends at 2 GiB, and building one takes several copies of every constant. The constants of large graphs
therefore stay where they are (in memory, or mapped from the model's file) and are handed over beside the message.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnx_ir.passes.common as library
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.runtime import long
from converter_lite.runtime.engine import Engine, Session
from converter_lite.runtime.float_products import with_float_products
from converter_lite.runtime.saturation import without_saturation

BESIDE_FROM = 1 << 20
"""Bytes of constants from which they are handed over beside the message: four copies fewer while a session is created."""

DETACHED_FROM = 64 << 10
"""Bytes from which a constant is handed over; shapes, axes and biases stay in the message, where the runtime can see them."""

QUANTIZING = ("QuantizeLinear", "DynamicQuantizeLinear")
"""Operators that make integers while a graph runs."""

_SHARED_TYPES = frozenset("?bBhHiIlLqQefd")
"""NumPy type characters of element types that runtimes take as arrays; others (4 bits, bfloat16) stay in the message."""


@dataclass(frozen=True, slots=True)
class Message:
    """A serialized graph.

    Attributes:
        content: A ModelProto.
        tensors: Arrays of the constants that it declares external, by name.
        nodes: Nodes of the main graph.
    """

    content: bytes
    tensors: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    nodes: int = 0

    def digest(self) -> str:
        """SHA-256 of graph and constants, hexadecimal."""
        found = hashlib.sha256(self.content)
        for name, array in self.tensors.items():
            found.update(name.encode())
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def session(self, engine: Engine, *, threads: int = 1, folded: bool = False) -> Session:
        """Load it; in parts if it is long. ``folded`` as in :meth:`Engine.session`.

        Raises:
            ModelError: The runtime cannot load the model.
        """
        if self.nodes >= long.LONG:
            model = onnx.load_model_from_string(self.content)
            if long.is_long(model.graph):
                return long.LongSession(
                    model,
                    self.tensors,
                    lambda content, tensors: engine.session(content, tensors=tensors, threads=threads, folded=folded),
                )
        return engine.session(self.content, tensors=self.tensors, threads=threads, folded=folded)


def message(model: ir.Model, *, beside_from: int | None = None) -> Message:
    """The model for an engine; its external constants are read into ``model`` where the message has to hold them.

    Args:
        model: The graph.
        beside_from: Bytes of constants from which they are handed over beside the message; ``BESIDE_FROM`` by default.
    """
    if constant_bytes(model) < (BESIDE_FROM if beside_from is None else beside_from):
        g.load_constants(model)
        proto = ir.to_proto(model)
        _forget_computed_sizes(proto.graph)
        return Message(proto.SerializeToString(), nodes=len(model.graph))
    values = model.graph.initializers
    shared = ((n, v, v.const_value) for n, v in values.items() if v.const_value is not None)
    detached = {n: tensor for n, v, tensor in shared if _is_shared(tensor) and not _is_of_bodies(model.graph, v)}
    with _emptied(model, detached):
        g.load_constants(model)
        proto = ir.to_proto(model)
    _forget_computed_sizes(proto.graph)
    unread = {name for name in detached if not values[name].uses() and not values[name].is_graph_output()}
    kept = [
        tensor for tensor in proto.graph.initializer if tensor.name not in unread
    ]  # runtimes refuse values for others
    for tensor in kept:
        if tensor.name in detached:
            _declare_external(tensor, detached[tensor.name])
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(kept)
    tensors = {n: t.numpy() for n, t in detached.items() if n not in unread}
    return Message(proto.SerializeToString(), tensors, len(model.graph))


def _forget_computed_sizes(graph: onnx.GraphProto) -> None:
    """Drop the names of inner sizes that no input has.

    Where two such sizes have one name, onnxruntime lets a Reshape copy the one and infer the rest, which fails as soon as a
    detector finds nothing and the size is 0.
    """
    given = {dim.dim_param for value in graph.input for dim in value.type.tensor_type.shape.dim}
    for value in graph.value_info:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param not in given:
                dim.ClearField("dim_param")


def open_session(
    engine: Engine, model: ir.Model, *, beside_from: int | None = None, threads: int = 1, given: bool = False
) -> Session:
    """A session of a graph (see :func:`message`) whose integer sums are exact on every processor.

    Weights that could make a kernel saturate are stored differently for the engine
    (:func:`converter_lite.runtime.saturation.without_saturation`), so results do not depend on the processor of this machine.
    Products with weights alone round no activations. A graph that only stores its weights as integers computes with floats,
    which are made at load instead of at every run; so does one that is given them (``given``), of which it is not known whether a
    kernel saturates: onnxruntime 1.19 multiplies them in integers where activations are int8.

    Raises:
        ModelError: The runtime cannot load the model.
    """
    exact = with_float_products(without_saturation(model))
    folded = given or not any(node.op_type in QUANTIZING for node in g.all_nodes(exact.graph))
    return message(exact, beside_from=beside_from).session(engine, threads=threads, folded=folded)


def open_file(engine: Engine, file: bytes | Path, *, threads: int = 1) -> Session:
    """A session of a serialized model or a file, exact like that of :func:`open_session`.

    Raises:
        ModelError: The runtime cannot load the model.
    """
    model, changed = _exact(file)
    if changed is not model:
        return message(changed).session(engine, threads=threads)
    if len(model.graph) < long.LONG:
        return engine.session(file, threads=threads)
    if any(isinstance(value.const_value, ir.ExternalTensor) for value in model.graph.initializers.values()):
        return message(model).session(engine, threads=threads)
    content = file.read_bytes() if isinstance(file, Path) else file
    return Message(content, nodes=len(model.graph)).session(engine, threads=threads)


def exact_message(file: bytes | Path) -> Message | None:
    """What :func:`open_file` loads instead of a serialized model or a file; ``None`` if that is exact as it is."""
    model, changed = _exact(file)
    return None if changed is model else message(changed)


def _exact(file: bytes | Path) -> tuple[ir.Model, ir.Model]:
    """A serialized model or a file, and the same with exact integer sums."""
    model = ir.load(file) if isinstance(file, Path) else ir.from_proto(onnx.load_model_from_string(file))
    library.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    return model, with_float_products(without_saturation(model))


def constant_bytes(model: ir.Model) -> int:
    """Bytes of all constants, those of subgraphs included."""
    tensors = (value.const_value for graph in model.graphs() for value in graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def _is_shared(tensor: ir.TensorProtocol) -> bool:
    if tensor.nbytes < DETACHED_FROM or tensor.dtype.is_string():
        return False
    return np.dtype(tensor.dtype.numpy()).char in _SHARED_TYPES


def _is_of_bodies(graph: ir.Graph, value: ir.Value) -> bool:
    """Whether only branches and bodies read a constant; onnxruntime looks in vain for those that are handed over."""
    return (
        bool(value.uses()) and not value.is_graph_output() and all(use.node.graph is not graph for use in value.uses())
    )


@contextmanager
def _emptied(model: ir.Model, tensors: Mapping[str, ir.TensorProtocol]) -> Iterator[None]:
    """Initializers of the main graph without their values."""
    values = model.graph.initializers
    try:
        for name, tensor in tensors.items():
            values[name].const_value = ir.Tensor(np.zeros(0, tensor.dtype.numpy()), dtype=tensor.dtype, name=name)
        yield
    finally:
        for name, tensor in tensors.items():
            values[name].const_value = tensor


def _declare_external(message: onnx.TensorProto, tensor: ir.TensorProtocol) -> None:
    name = message.name  # the value's; a tensor that was a node's attribute has none, or another
    message.Clear()
    message.name = name
    message.data_type = int(tensor.dtype)
    message.dims.extend(tensor.shape.numpy())
    message.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "beside the message"), ("offset", "0"), ("length", str(tensor.nbytes))):
        message.external_data.add(key=key, value=value)
