"""Nodes that take longer in integers than in float, where a device's kernels were measured.

An integer node saves the time of its multiplications, and costs what its inputs and results take to be quantized and
dequantized where their other ends are float. Single nodes, and then whole regions of integer nodes, become float where that
is less than what they cost; their weights stay integers, which a runtime dequantizes when it loads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.passes.rewrite import is_op
from converter_lite.quantization.cost import multiplications
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantPlan
from converter_lite.targets.operands import (
    is_depthwise,
    is_recurrent,
    is_small,
    is_weighted,
    operator,
    stored_weight,
    weight_of,
)
from converter_lite.targets.operators import Role
from converter_lite.targets.policy import KernelCosts, Policy
from converter_lite.targets.rules import data_inputs

TAKES_LONGER = "integers would take longer than float"
"""Why a node without a weight worth storing stays float."""

PICTURE_CHANNELS, PICTURE_KERNEL = 4, 9
"""Most input channels, and elements of a kernel, of a convolution that reads a picture."""

SERIES_RANK, VOLUME_RANK = 3, 5
"""Axes of the filters of a convolution over one dimension, and over three."""

PICTURE_RANK = 4

PASS_BLOCKS = frozenset({"Relu", "Clip", "HardSwish", "Add"})
"""Operators behind a float convolution that keep its order of channels."""

KEEPS_ORDER = frozenset({"Add", "AveragePool", "Clip", "Concat", "LeakyRelu", "MaxPool", "Mul", "Relu", "Sigmoid"})
"""Integer operators that work on whatever order of elements a convolution gives."""

NARROW = ((8, 1.0), (16, 0.2))
"""Single channels below which an integer convolution fills no vector, and the share of the cost that it has then."""

EVEN_GROUPS = range(8, 24)
"""Input channels of a group where an integer convolution of groups takes about as long as a float one."""

Reads = Callable[[ir.Node, int, QuantPlan], bool]


class Regions:
    """Integer nodes of a plan, and what they save."""

    def __init__(self, model: ir.Model, plan: QuantPlan, target: Policy, costs: KernelCosts, reads: Reads) -> None:
        """Take the plan, which is changed; ``reads`` says whether a node reads its input of a position as integers."""
        self._model, self._plan, self._target, self._costs, self._reads = model, plan, target, costs, reads

    def leave_slow_ones(self) -> int:
        """Make nodes and regions float that cost more than they save; returns how many nodes with weights."""
        integer = self._integer()
        results = [output for node in integer for output in node.outputs]
        if any(_elements(result) is None for result in results):
            return 0
        if any(node.op_type == "MatMul" for node in integer) and any(
            g.static_shape(result) is None for result in results
        ):
            return 0  # an open axis may hold more than samples: tokens, windows
        if float_time(self._model, filter(is_weighted, integer), self._costs) < self._costs.shortest:
            return 0
        self._leave_averages()
        changed = sum(self._leave([node]) for node in self._integer() if is_weighted(node))
        changed += sum(self._leave(region) for region in self._regions())
        self._leave_maxima()
        return changed

    def _leave_averages(self) -> None:
        """Make each AveragePool float, unless it gives one number per channel: of 2 x 2 elements it takes ten times as long."""
        for node in self._integer():
            places = node.outputs[0].shape[2:] if node.outputs[0].shape is not None else ()
            if is_op(node, "AveragePool") and any(size != 1 for size in places):
                self._plan.nodes[node.name or ""] = _in_float(node)

    def _leave_maxima(self) -> None:
        """Make each MaxPool float that no integer convolution feeds: there, it takes thirty times as long as in float."""
        for node in self._integer():
            if is_op(node, "MaxPool") and not self._is_channels_last(node):
                self._plan.nodes[node.name or ""] = _in_float(node)

    def _is_channels_last(self, node: ir.Node) -> bool:
        """Whether a tensor comes from an integer convolution, whose order of elements has a fast MaxPool."""
        pending, seen = [node], {node}
        while pending:
            for before in (value.producer() for value in data_inputs(pending.pop())):
                if before is None or before in seen or self._plan.mode(before) is not NodeMode.INTEGER:
                    continue
                if is_op(before, "Conv"):
                    return True
                if before.op_type in KEEPS_ORDER:
                    seen.add(before)
                    pending.append(before)
        return False

    def _integer(self) -> list[ir.Node]:
        return [node for node in self._model.graph if self._plan.mode(node) is NodeMode.INTEGER]

    def _regions(self) -> list[list[ir.Node]]:
        """Integer nodes that pass tensors to each other."""
        found: dict[ir.Node, list[ir.Node]] = {}
        for node in self._integer():
            before = (value.producer() for value in data_inputs(node))
            joined = list({id(r): r for p in before if p is not None and (r := found.get(p)) is not None}.values())
            region = max(joined, key=len, default=[])
            for other in joined:
                if other is not region:
                    region.extend(other)
                    found |= dict.fromkeys(other, region)
            region.append(node)
            found[node] = region
        return list({id(region): region for region in found.values()}.values())

    def _leave(self, nodes: list[ir.Node]) -> int:
        """Make nodes float if that saves time."""
        weighted = [node for node in nodes if is_weighted(node)]
        nodes = list(dict.fromkeys((*nodes, *(last for node in weighted for last in self._last_steps(node)))))
        nodes += self._only_for(nodes)
        values = list(
            dict.fromkeys(
                v for node in nodes for v in (*node.inputs, *node.outputs) if v is not None and not g.is_constant(v)
            )
        )
        before, saved = self._conversions(values), sum(self._saved(node) for node in weighted)
        if saved >= before:
            return 0
        kept = {node: self._plan.nodes[node.name or ""] for node in nodes}
        for node in nodes:
            self._plan.nodes[node.name or ""] = _in_float(node)
        if before - self._conversions(values) > saved:
            return len(weighted)
        for node, decision in kept.items():
            self._plan.nodes[node.name or ""] = decision
        return 0

    def _last_steps(self, node: ir.Node) -> Iterable[ir.Node]:
        """The Relu or Clip that is the last step of a node, or its Sigmoid and Mul (SiLU)."""
        if gate := _gate(node):
            yield from gate
            return
        reader = g.single_consumer(node.outputs[0])
        entry = operator(reader) if reader is not None else None
        is_clamp = reader is not None and entry is not None and entry.role is Role.CLAMP
        if reader is not None and is_clamp and self._plan.mode(reader) is NodeMode.INTEGER:
            yield reader

    def _only_for(self, nodes: list[ir.Node]) -> list[ir.Node]:
        """Integer nodes without weights that nothing else reads: they become float with their readers."""
        found, waiting = dict.fromkeys(nodes), list(nodes)
        while waiting:
            for before in (value.producer() for value in data_inputs(waiting.pop())):
                if before is not None and before not in found and self._serves_only(before, found):
                    found[before] = None
                    waiting.append(before)
        return list(found)[len(nodes) :]

    def _serves_only(self, node: ir.Node, readers: Container[ir.Node]) -> bool:
        if is_weighted(node) or self._plan.mode(node) is not NodeMode.INTEGER:
            return False
        results = node.outputs
        return not any(r.is_graph_output() or any(user not in readers for user, _ in r.uses()) for r in results)

    def _conversions(self, values: Iterable[ir.Value]) -> float:
        return sum(self._conversion(value) for value in values)

    def _conversion(self, value: ir.Value) -> float:
        """Time to quantize or dequantize a tensor between integer and float nodes."""
        uses = [(self._plan.mode(user), self._reads(user, position, self._plan)) for user, position in value.uses()]
        is_read, producer = any(reads for _, reads in uses), value.producer()
        if producer is None or self._plan.mode(producer) is not NodeMode.INTEGER:
            return _time(self._costs.quantize, value) + self._reordering(value) if is_read else 0.0
        is_floats = value.is_graph_output() or any(mode is not NodeMode.INTEGER for mode, _ in uses)
        if not is_floats or (producer.op_type in self._target.float_output and not is_read):
            return 0.0
        return _time(self._costs.dequantize, value) + self._reordering(value)

    def _reordering(self, value: ir.Value) -> float:
        """Time to put a picture in order that float convolutions write or read in blocks of channels."""
        if value.shape is None or len(value.shape) != PICTURE_RANK:
            return 0.0
        producer = value.producer()
        if producer is not None and producer.op_type in PASS_BLOCKS:
            producer = next((p for v in producer.inputs if v is not None and (p := v.producer()) is not None), None)
        sides = [producer, *(user for user, _ in value.uses())]
        if any(
            is_op(side, "Conv") and self._plan.mode(side) is not NodeMode.INTEGER for side in sides if side is not None
        ):
            return _time(self._costs.reorder, value)
        return 0.0

    def _saved(self, node: ir.Node) -> float:
        """What integer multiplications of a node save."""
        costs, shape = self._costs, g.static_shape(weight_of(node))
        millions, thousands = _multiplications(node) / 1e6, (_elements(node.outputs[0]) or 0) / 1e3
        if node.op_type != "Conv" or shape is None:
            columns = (g.static_shape(node.outputs[0]) or (0,))[-1] / 1e3
            return self._dense(millions, shape) - costs.product * thousands - costs.column * columns
        reader = g.single_consumer(node.outputs[0])
        fused = reader is not None and reader.op_type == "HardSwish"
        lost = _time(costs.activation, node.outputs[0]) if fused else 0.0
        gate = _gate(node)
        if gate and all(self._plan.mode(part) is NodeMode.INTEGER for part in gate):
            lost += _time(costs.gate, node.outputs[0])
        groups = g.int_attribute(node, "group", 1)
        if len(shape) == VOLUME_RANK:
            lost += costs.volume * thousands / shape[0] * math.prod(shape[2:])
        if len(shape) == SERIES_RANK and shape[2] > 1 and groups == 1:
            lost -= costs.series * thousands / shape[0] * math.prod(shape[1:])
        if is_depthwise(node) or shape[:2] == (1, 1):  # the kernel for single channels computes a single one, too
            return -lost - self._lost_by_single_channels(shape[0], groups, millions, thousands)
        if groups > 1 and shape[1] in EVEN_GROUPS:
            return -lost
        if groups > 1 or (shape[1] == 1 and len(shape) == PICTURE_RANK):  # a kernel that gathers single numbers
            places = thousands / shape[0] * groups
            lost += (costs.grouped[0] + costs.grouped[1] * math.prod(shape[2:])) * places
        if groups == 1 and shape[1] <= PICTURE_CHANNELS and math.prod(shape[2:]) <= PICTURE_KERNEL:
            return -lost - costs.picture * thousands
        if groups == 1 and 1 < shape[1] <= PICTURE_CHANNELS and len(shape) == PICTURE_RANK:
            lost += costs.window * thousands / shape[0] * shape[2]
        return self._dense(millions, shape) - lost

    def _lost_by_single_channels(self, results: int, channels: int, millions: float, thousands: float) -> float:
        costs = self._costs
        if results != channels:
            return costs.multiplied * millions
        narrow = next((share * costs.narrow for most, share in NARROW if channels < most), 0.0)
        return costs.call + max(costs.single * thousands, narrow * millions)

    def _dense(self, millions: float, shape: tuple[int, ...] | None) -> float:
        fetched = math.prod(shape) / 1e3 if shape is not None else 0.0
        return self._costs.saved * millions + self._costs.fetched * fetched - self._costs.call


def float_time(model: ir.Model, weighted: Iterable[ir.Node], costs: KernelCosts) -> float:
    """Time of the float network in microseconds; its multiplications are those of the given nodes and of recurrent layers."""
    call, million = costs.floats
    recurrent = sum(multiplications(node) for node in model.graph if is_recurrent(node))
    return call * len(model.graph) + million * (recurrent + sum(map(_multiplications, weighted))) / 1e6


def _multiplications(node: ir.Node) -> float:
    """Of a product or a convolution."""
    shape, first = g.static_shape(weight_of(node)), g.static_shape(node.inputs[0]) or (1,)
    if node.op_type == "Conv" and shape is not None:
        depth = math.prod(shape[1:])
    else:
        depth = first[0] if node.op_type == "Gemm" and g.int_attribute(node, "transA", 0) else first[-1]
    return float(_elements(node.outputs[0]) or 0) * depth


def _gate(node: ir.Node) -> tuple[ir.Node, ...]:
    """The Sigmoid and the Mul that make SiLU of a node's result, which nothing else reads."""
    readers = [user for user, _ in node.outputs[0].uses()]
    kinds = {user.op_type: user for user in readers}
    if len(readers) != 2 or kinds.keys() != {"Sigmoid", "Mul"} or node.outputs[0].is_graph_output():
        return ()
    sigmoid, product = kinds["Sigmoid"], kinds["Mul"]
    return (sigmoid, product) if g.single_consumer(sigmoid.outputs[0]) is product else ()


def _in_float(node: ir.Node) -> NodePlan:
    """The decision for a node that computes in float: large weights stay integers."""
    weight = stored_weight(node) if is_weighted(node) else None
    if weight is not None and len(weight.shape or ()) > 1 and not is_small(node):
        return NodePlan(node.op_type, NodeMode.WEIGHT)
    return NodePlan(node.op_type, NodeMode.FLOAT, TAKES_LONGER)


def _time(costs: tuple[float, float], value: ir.Value) -> float:
    return costs[0] + costs[1] * (_elements(value) or 0) / 1e3


def _elements(value: ir.Value) -> int | None:
    """Elements of a tensor, of one sample where the first axis is open; ``None`` where another one is."""
    shape = value.shape
    if shape is None or any(not isinstance(size, int) for size in shape[1:]):
        return None
    return math.prod(size if isinstance(size, int) else 1 for size in shape)
