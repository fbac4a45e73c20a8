"""Computing once what does not depend on the input."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.graph import (
    absorb_names,
    constant,
    is_constant,
    is_read,
    lazy_tensor,
    opset,
    static_shape,
    subgraphs,
)
from converter_lite.passes.rewrite import consumers, is_op, remove
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine

_log = logging.getLogger(__name__)

SMALL_RESULT = 64 * 1024
"""Bytes; a result up to this size is always stored."""

MAX_GROWTH = 4
"""A larger result may be this many times as large as the largest constant of the model that it is made of: widening
float16 or int8 to float32 fits, expanding a number to a picture does not, nor does a chain of expansions."""

SMALLEST_RESULT = 256
"""Bytes that a node takes in a file, with its names: a result up to this size is stored even where the graph must not grow."""

MADE_OF = "bytes of the largest constant that it is made of"
"""Key under which a computed value, and the constant that replaces it, remember this for the next round."""

FEED_ABOVE = 1024
"""Bytes; larger constants are fed to the runtime instead of being copied into a message."""

NEVER_FOLDED = frozenset(
    {
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"),
        *("DequantizeLinear", "DynamicQuantizeLinear"),
        *("Constant", "Dropout"),
    }
)
"""Random numbers differ from run to run; quantized constants must stay integers (QuantizeLinear of a constant is one)."""

CHOOSING = ("NonZero", "Compress", "Unique")
"""Operators whose results have as many elements as their values say."""

LAZY_FROM = 1 << 16
"""Elements of a float16 constant from which it is widened at every read, instead of being stored at twice its size."""

_FEEDABLE = {np.dtype(t) for t in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?")}


def fold_constants(model: ir.Model, *, engine: Engine = DEFAULT_ENGINE) -> int:
    """Evaluate nodes that have only constant inputs and store their results as initializers.

    ::

        W (float16) ─ Cast ─ Transpose ─┐
                                   x ─ MatMul ─ y      becomes      x ─ MatMul(W' (float32)) ─ y

    All foldable nodes are evaluated in one session, so only results that other nodes read are kept.

    Refused: random and quantization operators, nodes with subgraphs, graph outputs, results of unknown size, results
    that are much larger than what they are made of.
    """
    widened = _widen(model.graph)
    return _fold_all(model, _foldable(model.graph), engine, folded=widened)


def fold_without_growth(model: ir.Model, *, engine: Engine = DEFAULT_ENGINE) -> int:
    """:func:`fold_constants` where the result takes no more space than the constants that vanish with the node."""
    return _fold_all(model, _foldable(model.graph, limit=_vanishing), engine)


def _fold_all(model: ir.Model, nodes: list[ir.Node], engine: Engine, *, folded: int = 0) -> int:
    if not nodes:
        return folded
    try:
        return folded + _fold(model, nodes, engine)
    except ModelError as error:
        _log.debug("constants are folded one by one: %s", error)
    for node in nodes:
        try:
            folded += _fold(model, [node], engine) if all(map(is_constant, filter(None, node.inputs))) else 0
        except ModelError as error:
            _log.debug("%s stays: %s", node.name, error)
    return folded


def _widen(graph: ir.Graph) -> int:
    """Cast constants of types that NumPy lacks (bfloat16, 8-bit floats) here: the runtime takes them only as messages.

    Large float16 constants likewise, which then stay float16 in memory. Widening is exact: all ways give the same numbers.
    """
    widened = 0
    for node in list(graph):
        result = node.outputs[0]
        if not is_op(node, "Cast") or result.dtype != ir.DataType.FLOAT or result.is_graph_output():
            continue
        wide = _widened(node.inputs[0])
        if wide is not None:
            for reader in consumers(result):
                absorb_names(reader, [node])
            _store(graph, result, wide)
            remove(node)
            widened += 1
    return widened


def _widened(value: ir.Value | None) -> ir.TensorProtocol | None:
    """A constant as float32, where that is better done here than by the runtime."""
    tensor = value.const_value if is_constant(value) and value is not None else None
    if tensor is None:
        return None
    if _is_exotic(value):
        return ir.Tensor(tensor.numpy().astype(np.float32))
    if tensor.dtype == ir.DataType.FLOAT16 and tensor.size >= LAZY_FROM:
        return lazy_tensor(lambda: tensor.numpy().astype(np.float32), ir.DataType.FLOAT, tensor.shape.numpy())
    return None


def _is_exotic(value: ir.Value | None) -> bool:
    if value is None or value.const_value is None or value.is_graph_input():
        return False
    dtype = value.const_value.dtype
    return not dtype.is_string() and dtype.numpy() not in _FEEDABLE and value.const_value.nbytes > FEED_ABOVE


def _usual_limit(inputs: Sequence[ir.Value]) -> int:
    return max(SMALL_RESULT, MAX_GROWTH * _made_of(inputs))


def _vanishing(inputs: Sequence[ir.Value]) -> int:
    only_here = (value for value in dict.fromkeys(inputs) if len(value.uses()) == 1)
    return max(SMALLEST_RESULT, sum(_bytes(value) or 0 for value in only_here))


def _made_of(inputs: Sequence[ir.Value]) -> int:
    return max((int(value.meta.get(MADE_OF, _bytes(value) or 0)) for value in inputs), default=0)


def _foldable(graph: ir.Graph, limit: Callable[[Sequence[ir.Value]], int] = _usual_limit) -> list[ir.Node]:
    known: set[ir.Value] = set()
    nodes = []
    for node in graph:
        inputs = [value for value in node.inputs if value is not None]
        if not all(value in known or is_constant(value) for value in inputs):
            continue
        if _is_worth_folding(node, inputs, limit=limit(inputs)):
            nodes.append(node)
            known.update(node.outputs)
            made_of = _made_of(inputs)
            for value in node.outputs:
                value.meta[MADE_OF] = max(made_of, min(_bytes(value) or 0, SMALL_RESULT))
    return nodes


def _is_worth_folding(node: ir.Node, inputs: Sequence[ir.Value], *, limit: int) -> bool:
    if node.domain or node.op_type in NEVER_FOLDED or subgraphs(node) or not inputs:
        return False
    if any(_is_exotic(value) for value in inputs):
        return False
    if node.op_type == "QuantizeLinear" and node.outputs[0].dtype not in (ir.DataType.INT8, ir.DataType.UINT8):
        return False
    read = [value for value in node.outputs if is_read(value)]
    sizes = [_bytes(value) if node.op_type not in CHOOSING else _largest(node) for value in read]
    return not any(
        value.is_graph_output() or size is None or size > limit for value, size in zip(read, sizes, strict=True)
    )


def _bytes(value: ir.Value) -> int | None:
    """Size of the tensor, ``None`` if it is unknown or the type has no fixed size."""
    if value.const_value is not None:
        return int(value.const_value.nbytes)
    if value.shape is None or not value.shape.is_static() or value.dtype is None or value.dtype.is_string():
        return None
    return int(math.prod(value.shape.numpy()) * value.dtype.itemsize)  # untrusted shapes may overflow 64 bits


def _largest(node: ir.Node) -> int | None:
    """Bytes that a result of a :data:`CHOOSING` operator takes at most: places of all elements, or the elements."""
    x = node.inputs[0]
    shape = static_shape(x)
    if x is None or x.dtype is None or shape is None:
        return None
    return int(math.prod(shape) * max(len(shape) * ir.DataType.INT64.itemsize, x.dtype.itemsize))


def _fold(model: ir.Model, nodes: list[ir.Node], engine: Engine) -> int:
    inside = set(nodes)
    results = [v for n in nodes for v in n.outputs if any(reader not in inside for reader in consumers(v))]
    proto, feed = _program(model, nodes, results)
    values = engine.session(proto.SerializeToString(), optimize=False).run(feed) if results else {}
    for value in results:
        for reader in consumers(value):
            absorb_names(reader, _ancestors(value, inside))
    for value in results:
        _store(model.graph, value, ir.Tensor(np.asarray(values[str(value.name)], order="C"), dtype=value.dtype))
    for node in reversed(nodes):
        remove(node)
    return len(nodes)


def _ancestors(value: ir.Value, inside: set[ir.Node]) -> list[ir.Node]:
    """The folded nodes that ``value`` is computed from."""
    found: list[ir.Node] = []
    pending = [value.producer()]
    while pending:
        node = pending.pop()
        if node is not None and node in inside and node not in found:
            found.append(node)
            pending.extend(source.producer() for source in node.inputs if source is not None)
    return found


def _program(
    model: ir.Model, nodes: list[ir.Node], results: list[ir.Value]
) -> tuple[onnx.ModelProto, dict[str, NDArray[Any]]]:
    """The nodes as a model of their own, and what to feed it."""
    proto = onnx.ModelProto(ir_version=model.ir_version)
    proto.opset_import.add(domain="", version=opset(model))
    proto.graph.name = "constants"
    proto.graph.node.extend(ir.serde.serialize_node(node) for node in nodes)
    proto.graph.output.extend(ir.serde.serialize_value(value) for value in results)
    feed: dict[str, NDArray[Any]] = {}
    for value in dict.fromkeys(v for node in nodes for v in node.inputs if v is not None and is_constant(v)):
        name, array = str(value.name), constant(value)
        if array is not None and array.nbytes > FEED_ABOVE and array.dtype in _FEEDABLE:
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            proto.graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
            feed[name] = array
        elif value.const_value is not None:
            message = ir.serde.serialize_tensor(value.const_value)
            message.name = name
            proto.graph.initializer.append(message)
    return proto, feed


def _store(graph: ir.Graph, value: ir.Value, tensor: ir.TensorProtocol) -> None:
    name = value.name
    value.name = f"{name}_computed"
    tensor.name = name
    shape = ir.Shape(tensor.shape.numpy())
    stored = ir.Value(name=name, shape=shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.register_initializer(stored)
    if MADE_OF in value.meta:
        stored.meta[MADE_OF] = value.meta[MADE_OF]
    value.replace_all_uses_with(stored)
