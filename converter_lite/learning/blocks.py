"""Parts of a network that are learnt by themselves: between tensors through which everything passes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.plan import NodeMode, QuantPlan
from converter_lite.targets.operands import is_recurrent, stored_weight, weight_of

LAYERS = 2
"""Layers with learnable weights that a block has at least."""

OPEN = 3
"""Most tensors that a block reads: one, beside masks that the whole network reads."""


STEP_OPERATIONS = 12
"""Operators that a step of a recurrent layer takes."""


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a graph.

    Attributes:
        inputs: Tensors that it reads, apart from those that the graph's inputs alone give at once.
        outputs: Tensors that it gives to the nodes behind it.
        weights: Initializers whose integers learn in it.
        constants: All constants of its nodes, biases among them.
        tensors: Tensors that its nodes read and give.
        work: Multiplications for a sample.
        positions: Results of a sample that share a weight, in the layer that has fewest of them.
        operations: How many operators it takes to compute, a step of a recurrent layer after another.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...]
    constants: tuple[str, ...]
    tensors: tuple[str, ...]
    work: float
    positions: float
    operations: int


def blocks_of(graph: ir.Graph, plan: QuantPlan, elements: Mapping[str, int]) -> list[Block]:
    """Consecutive blocks that hold all layers with planned weights; graph inputs stay readable in all of them.

    Args:
        graph: Of the quantized network.
        plan: Which layers have integer weights.
        elements: Tensor name -> its elements in a sample; for others the shapes of the graph count.
    """
    nodes = list(graph)
    last = {value: index for index, node in enumerate(nodes) for value in node.inputs if value is not None}
    ends = set(graph.outputs)
    found: list[Block] = []
    inputs: tuple[str, ...] = ()
    open_now: dict[ir.Value, None] = {}
    started = 0
    for index, node in enumerate(nodes):
        open_now.update(dict.fromkeys(node.outputs))
        open_now = {v: None for v in open_now if last.get(v, -1) > index or v in ends}
        part = nodes[started : index + 1]
        layers = [n for n in part if plan.mode(n) is not NodeMode.FLOAT and weight_of(n) is not None]
        is_end = index == len(nodes) - 1
        inner = [v for v in open_now if v not in ends]
        if not is_end and (len(layers) < LAYERS or not 1 <= len(inner) <= OPEN or _waits(node)):
            continue
        own = {v for n in part for v in n.outputs}
        outputs = tuple(str(v.name) for v in open_now if v in own)
        if layers:
            found.append(_block(part, inputs, outputs, elements))
        inputs, started = tuple(str(v.name) for v in inner), index + 1
    return found


def operations(nodes: Sequence[ir.Node], elements: Mapping[str, int]) -> int:
    """How many operators nodes take to compute: their number, and in recurrent layers that of the steps."""
    found = len(nodes)
    for node in filter(is_recurrent, nodes):
        states = g.int_attribute(node, "hidden_size", 1) * (g.static_shape(node.inputs[1]) or (1,))[0]
        found += STEP_OPERATIONS * elements.get(str(node.outputs[0].name), 0) // max(states, 1)
    return found


def _waits(node: ir.Node) -> bool:
    """Whether an activation function follows, which belongs to the same block."""
    follower = g.single_consumer(node.outputs[0])
    return follower is not None and follower.op_type in ("Relu", "Clip", "Add")


def _block(
    part: list[ir.Node], inputs: tuple[str, ...], outputs: tuple[str, ...], elements: Mapping[str, int]
) -> Block:
    work = {node: multiplications(node, elements.get(str(node.outputs[0].name))) for node in part}
    stored = [stored_weight(node) for node in part]
    constants = dict.fromkeys(str(v.name) for n in part for v in n.inputs if v is not None and g.is_constant(v))
    tensors = dict.fromkeys(str(v.name) for node in part for v in (*node.inputs, *node.outputs) if v is not None)
    weights = dict.fromkeys(str(v.name) for v in stored if v is not None)
    sizes = {node: math.prod(g.static_shape(value) or ()) for node, value in zip(part, stored, strict=True) if value}
    return Block(
        inputs,
        outputs,
        tuple(weights),
        tuple(constants),
        tuple(name for name in tensors if name not in constants),
        work=sum(work.values()),
        positions=max(min(work[node] / max(size, 1) for node, size in sizes.items()), 1.0),
        operations=operations(part, elements),
    )
