"""Attention that is spelled out in matrix products, as the one operator that ONNX has for it.

::

    Q (B, S, heads · D) ─ Reshape ─ Transpose ─┐
    K (B, T, heads · D) ─ Reshape ─ Transpose ─┴─ MatMul ─ Mul ─ Add(mask) ─ Softmax ─┐
    V (B, T, heads · D) ─ Reshape ─ Transpose ────────────────────────────────────────┴─ MatMul ─ Transpose ─ Reshape

becomes ``Attention(Q, K, V, mask) ─ Reshape``, and the Reshape goes where it changes nothing. onnxruntime computes the same
numbers in less time: scores get their mask while they are computed, and heads are read where they lie.

Source: ONNX operator specification, Attention (operator set 23).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.graph import input_at
from converter_lite.passes.rewrite import bypass, constant_operand, int_values, is_op, number, remove
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.quantization.qdq.heads import splits_last_axis
from converter_lite.quantization.qdq.known import is_known
from converter_lite.runtime.engine import DEFAULT_ENGINE, Engine
from converter_lite.targets.operands import FLOAT_TYPES

ATTENTION_OPSET = 23
"""Operator set in which Attention appeared."""

HEADS_FIRST = (0, 2, 1, 3)
"""Order of the axes ``(B, S, heads, D)`` of queries and values, and back."""

HEADS_FIRST_TURNED = (0, 2, 3, 1)
"""Order of the axes ``(B, T, heads, D)`` of keys, which are turned for the product."""


@dataclass(frozen=True, slots=True)
class Attention:
    """An attention that is spelled out.

    Attributes:
        inputs: Queries, keys and values, ``(B, positions, heads * D)``.
        mask: What is added to the scores, of any shape that broadcasts to ``(B, heads, S, T)``.
        scale: Factor of the scores.
        heads: Their number.
        nodes: From the product of queries and keys to the Transpose of the result.
        joining: The Reshape behind it.
    """

    inputs: tuple[ir.Value, ir.Value, ir.Value]
    mask: ir.Value | None
    scale: float
    heads: int
    nodes: tuple[ir.Node, ...]
    joining: ir.Node


@dataclass(frozen=True, slots=True)
class _Heads:
    """A tensor that is split into heads. Shapes: source ``(B, positions, heads * width)``."""

    source: ir.Value
    heads: int
    width: int


def knows_attention(engine: Engine = DEFAULT_ENGINE) -> bool:
    """Whether ``onnx`` and the engine know the operator, and QuantizeLinear beside it (onnxruntime 1.23 knows the first only)."""
    ones = ir.Tensor(np.ones((1, 1, 1), np.float32))
    one_head = {"q_num_heads": 1, "kv_num_heads": 1}
    scale = ir.Tensor(np.ones((), np.float32))
    return is_known("Attention", (ones,) * 3, opset=ATTENTION_OPSET, attributes=one_head, engine=engine) and is_known(
        "QuantizeLinear", (ones, scale), opset=ATTENTION_OPSET, result=ir.DataType.UINT8, engine=engine
    )


def find_attentions(graph: ir.Graph, plan: QuantPlan) -> list[Attention]:
    """Spelled-out attentions whose products are computed in float, in graph order."""
    found = [_match(node) for node in graph if is_op(node, "Softmax")]
    return [one for one in found if one is not None and all(plan.mode(node) is NodeMode.FLOAT for node in one.nodes)]


def fuse_attentions(graph: ir.Graph, plan: QuantPlan) -> int:
    """Write them as one operator each; the graph's operator set has it. Returns how many there were."""
    masks: dict[tuple[ir.Value, str, str], ir.Value] = {}
    found = find_attentions(graph, plan)
    for attention in found:
        _fuse(graph, attention, masks)
    return len(found)


def _match(softmax: ir.Node) -> Attention | None:
    since_13 = softmax.graph is not None and g.opset(softmax.graph) >= 13
    axis = g.int_attribute(softmax, "axis", -1 if since_13 else 1)
    scores, product = softmax.inputs[0], g.single_consumer(softmax.outputs[0])
    if axis not in (-1, 3) or scores is None or product is None or not is_op(product, "MatMul"):
        return None
    if product.inputs[0] is not softmax.outputs[0]:
        return None
    turned = g.single_consumer(product.outputs[0])
    joining = g.single_consumer(turned.outputs[0]) if turned is not None and _has_order(turned, HEADS_FIRST) else None
    values = _split(product.inputs[1], HEADS_FIRST)
    if turned is None or joining is None or values is None or not _joins(joining):
        return None
    for part, mask in _without_mask(scores, softmax):
        score = _scaled(part)
        first = score[0].producer()
        if not is_op(first, "MatMul") or first is None or len(score[0].uses()) != 1:
            continue
        (queries, by), (keys, and_by) = _scaled(first.inputs[0]), _scaled(first.inputs[1])
        query, key = _split(queries, HEADS_FIRST), _split(keys, HEADS_FIRST_TURNED)
        if query is None or key is None or not query.heads == key.heads == values.heads or query.width != key.width:
            continue
        inputs = (query.source, key.source, values.source)
        scale = score[1] * by * and_by
        if scale > 0 and _same(query.source, key.source, 0) and _same(query.source, values.source, 0):
            return Attention(inputs, mask, scale, query.heads, (first, softmax, product, turned), joining)
    return None


def _has_order(node: ir.Node, order: tuple[int, ...]) -> bool:
    return is_op(node, "Transpose") and g.ints_attribute(node, "perm") == order


def _without_mask(scores: ir.Value, softmax: ir.Node) -> list[tuple[ir.Value, ir.Value | None]]:
    """The scores before a mask was added, as far as that can be seen, and the mask."""
    node = scores.producer()
    if node is None or g.single_consumer(scores) is not softmax:
        return []
    if not is_op(node, "Add"):
        return [(scores, None)]
    pairs = ((node.inputs[0], node.inputs[1]), (node.inputs[1], node.inputs[0]))
    return [(part, mask) for part, mask in pairs if part is not None and mask is not None and _is_mask(mask)]


def _is_mask(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) <= 4 and value.dtype in FLOAT_TYPES


def _scaled(value: ir.Value | None) -> tuple[ir.Value, float]:
    """A tensor without the constant scalars that it is multiplied or divided by, and the resulting factor."""
    assert value is not None
    factor = 1.0
    while (node := value.producer()) is not None and is_op(node, "Mul", "Div") and g.single_consumer(value) is not None:
        operands = constant_operand(node)
        by = number(operands[1]) if operands is not None else None
        if operands is None or not by or (is_op(node, "Div") and operands[2]):
            break
        value, factor = operands[0], factor * by if is_op(node, "Mul") else factor / by
    return value, factor


def _split(value: ir.Value | None, order: tuple[int, ...]) -> _Heads | None:
    """The tensor whose last axis is split into heads, where ``value`` holds them in this order."""
    turned = value.producer() if value is not None else None
    split = turned.inputs[0] if turned is not None and _has_order(turned, order) else None
    reshape = split.producer() if split is not None else None
    source = reshape.inputs[0] if reshape is not None else None
    if reshape is None or source is None or source.shape is None or len(source.shape) != 3:
        return None
    if split is None or split.shape is None or not splits_last_axis(reshape, source):
        return None
    heads, width = split.shape[2], split.shape[3]
    return _Heads(source, heads, width) if isinstance(heads, int) and isinstance(width, int) else None


def _joins(node: ir.Node) -> bool:
    """Whether a Reshape gives the same for ``(B, S, heads * D)`` as for ``(B, S, heads, D)``: it copies no size of the heads."""
    if not is_op(node, "Reshape") or g.int_attribute(node, "allowzero", 0):
        return False
    sizes = int_values(input_at(node, 1))
    if sizes is not None:
        return 0 not in sizes[2:]
    target = node.inputs[1]
    concat = target.producer() if target is not None else None
    return is_op(concat, "Concat") and concat is not None and all(0 not in (int_values(p) or ()) for p in concat.inputs)


def _fuse(graph: ir.Graph, attention: Attention, masks: dict[tuple[ir.Value, str, str], ir.Value]) -> None:
    query, _, value = attention.inputs
    last = attention.nodes[-1]
    inputs = list(attention.inputs)
    if attention.mask is not None:
        inputs.append(_full_mask(graph, attention, masks))
    attributes = {"q_num_heads": attention.heads, "kv_num_heads": attention.heads, "scale": attention.scale}
    made = ir.node("Attention", inputs, attributes=attributes, name=f"{last.name}/attention")
    made.outputs[0].name = g.unique_name(graph, f"{last.outputs[0].name}_joined")
    made.outputs[0].dtype = ir.DataType.FLOAT
    assert query.shape is not None and value.shape is not None
    made.outputs[0].shape = ir.Shape([query.shape[0], query.shape[1], value.shape[2]])
    graph.insert_before(last, made)
    last.outputs[0].replace_all_uses_with(made.outputs[0])
    g.absorb_names(made, attention.nodes)
    if _keeps_shape(attention.joining):
        bypass(attention.joining)
    _remove_unread(last)


def _full_mask(graph: ir.Graph, attention: Attention, masks: dict[tuple[ir.Value, str, str], ir.Value]) -> ir.Value:
    """The mask expanded to every query and key: onnxruntime (1.31) refuses one that is shared by all queries."""
    query, key, _ = attention.inputs
    assert attention.mask is not None and query.shape is not None and key.shape is not None
    place = (attention.mask, _symbol(query), _symbol(key))
    if place not in masks:
        made = attention.nodes[-1]
        ones = g.add_initializer(graph, f"{attention.mask.name}_ones", np.ones(2, np.int64))
        sizes = [ir.node("Shape", [v], attributes={"start": 1, "end": 2}) for v in dict.fromkeys((query, key))]
        parts = [ones, sizes[0].outputs[0], sizes[-1].outputs[0]]
        concat = ir.node("Concat", parts, attributes={"axis": 0})
        expand = ir.node("Expand", [attention.mask, concat.outputs[0]])
        for index, node in enumerate((*sizes, concat, expand)):
            node.name = f"{made.name}/mask_{index}"
            node.outputs[0].name = g.unique_name(graph, f"{node.name}_output")
            graph.insert_before(attention.nodes[1], node)
        masks[place] = expand.outputs[0]
    return masks[place]


def _symbol(value: ir.Value) -> str:
    """What identifies the number of positions of a tensor: the size, its symbol, or else the tensor itself."""
    assert value.shape is not None
    size = value.shape[1]
    return str(size) if isinstance(size, int) or size.value is not None else str(value.name)


def _keeps_shape(reshape: ir.Node) -> bool:
    """Whether the Reshape gives three axes, two of which are known to be unchanged."""
    source, result = reshape.inputs[0], reshape.outputs[0]
    if source is None or source.shape is None or result.shape is None or len(result.shape) != 3:
        return False
    if (int_values(reshape.inputs[1]) or ())[:2] == (0, 0):
        return True
    return _same(source, result, 0) and _same(source, result, 1)


def _same(first: ir.Value, second: ir.Value, axis: int) -> bool:
    """Whether two tensors are known to have the same size along an axis."""
    if first.shape is None or second.shape is None:
        return False
    one, other = first.shape[axis], second.shape[axis]
    return one == other and (isinstance(one, int) or one.value is not None)


def _remove_unread(node: ir.Node) -> None:
    """Remove a node that nothing reads, then those that only it read."""
    if any(g.is_read(output) for output in node.outputs):
        return
    producers = [value.producer() for value in node.inputs if value is not None]
    remove(node)
    for producer in dict.fromkeys(producers):
        if producer is not None and producer.graph is not None:
            _remove_unread(producer)
