"""Which nodes a device computes in integers, and which tensors need parameters for that.

Rules, in this order (numbers are cited in the code):

1. A node named in ``skip_quant_node`` stays float.
2. A node the device has no integer kernel for stays float (or keeps only its weights as integers), and so does a
   division by what is not constant, and what computes divisors and arguments of logarithms (:mod:`.small_numbers`), unless the
   device has integers only.
3. Relu and Clip behind an integer node that nobody else reads become part of it.
4. Where the device gains nothing from isolated integer operators, an operator without weights is quantized only
   between quantized neighbours. Repeat until nothing changes.
5. Where the device computes them as fast in float, the layers that read a picture stay float (:mod:`.stem`).
6. Where the device's kernels were not measured, a depthwise convolution between nodes that compute in float (HardSwish, SiLU)
   stays float: its short sums save less than it takes to quantize and dequantize what it reads and gives, and the channels
   that share a grid there are not mixed.
7. Where the device's kernels were measured, nodes and regions that take longer in integers stay float (:mod:`.regions`),
   where nothing would be quantized then, small weights are stored as integers, too; if there are none, the integers
   stay: they were asked for, and the result says how fast they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantPlan
from converter_lite.quantization.regions import Regions
from converter_lite.quantization.small_numbers import small_number_nodes
from converter_lite.quantization.stem import stem
from converter_lite.targets.operands import FLOAT_TYPES, is_depthwise, is_weighted, operator, stored_weight
from converter_lite.targets.operators import Role
from converter_lite.targets.policy import Policy
from converter_lite.targets.rules import data_inputs

STANDS_ALONE = "a depthwise convolution between float nodes: integers would cost accuracy and save no time"
"""Why one of rule 6 stays float."""

READS_PICTURE = "reads a picture: integers would cost accuracy and save no time"
"""Why a layer of :mod:`.stem` stays float."""


def decide_nodes(model: ir.Model, target: Policy, skip: frozenset[str]) -> QuantPlan:
    """A plan with a mode or a reason for every node of the main graph; no parameters yet."""
    plan = QuantPlan(target.name)
    small = small_number_nodes(model.graph) if target.float_small_numbers else {}
    for node in model.graph:
        if node.name in skip:  # rule 1
            plan.keep_float(node, "named in skip_quant_node")
            continue
        found = target.capability(node)  # rule 2
        if not found.integer and node not in small:
            plan.quantize(node, NodeMode.INTEGER)
        elif not found.stored:
            plan.quantize(node, NodeMode.WEIGHT)
        else:
            plan.keep_float(node, found.integer or small[node])
    if target.float_stem is not None:
        for node in stem(model, target.float_stem):  # rule 5
            plan.keep_float(node, READS_PICTURE)
    settle(model, plan, target)
    if target.costs is None and target.float_small_numbers:
        _leave_depthwise_alone(model, plan)  # rule 6
    kept = dict(plan.nodes)
    while (
        target.costs is not None and Regions(model, plan, target, target.costs, reads_integer).leave_slow_ones()
    ):  # rule 7: what it leaves may part regions
        _follow_clamps(model, plan)
        _drop_islands(model, plan, target)
    if not plan.quantized_nodes and (not skip or not decide_nodes(model, target, frozenset()).computes_with_integers):
        _store_small_weights(model, plan, kept)
    if target.float_addend:
        _mark_float_addends(model, plan)
    plan.ends = target.grid_ends
    return plan


def settle(model: ir.Model, plan: QuantPlan, target: Policy) -> None:
    """Leave in float what rules 3 and 4 forbid beside nodes that are float; ``plan`` is changed."""
    _follow_clamps(model, plan)  # rule 3
    if target.only_between_weighted:
        _drop_islands(model, plan, target)  # rule 4


def _store_small_weights(model: ir.Model, plan: QuantPlan, kept: dict[str, NodePlan]) -> None:
    """Store even weights that save little where nothing else would be quantized; without any, decisions stay as they were."""
    for node in model.graph:
        before = kept.get(node.name or "")
        if before is not None and before.mode is NodeMode.INTEGER and stored_weight(node) is not None:
            plan.quantize(node, NodeMode.WEIGHT)
    if not plan.quantized_nodes:
        plan.nodes = kept


def is_fused_clamp(node: ir.Node, plan: QuantPlan) -> bool:
    """Whether a Relu or Clip is the last step of the integer node before it (rule 3)."""
    entry = operator(node)
    if entry is None or entry.role is not Role.CLAMP or plan.mode(node) is not NodeMode.INTEGER:
        return False
    value = node.inputs[0]
    before = value.producer() if value is not None else None
    if value is None or before is None or plan.mode(before) is not NodeMode.INTEGER:
        return False
    before_entry = operator(before)
    own_range = before_entry is not None and before_entry.role in (Role.WEIGHTED, Role.ARITHMETIC)
    return own_range and g.single_consumer(value) is node and g.clamp_bounds(node) is not None


def _follow_clamps(model: ir.Model, plan: QuantPlan) -> None:
    for node in model.graph:
        entry = operator(node)
        if entry is None or entry.role is not Role.CLAMP or plan.mode(node) is not NodeMode.INTEGER:
            continue
        value = node.inputs[0]
        before = value.producer() if value is not None else None
        if before is None or plan.mode(before) is not NodeMode.INTEGER:
            plan.keep_float(node, "follows a float node")
        elif g.clamp_bounds(node) is None:
            plan.keep_float(node, "its bounds are not constant")


def _leave_depthwise_alone(model: ir.Model, plan: QuantPlan) -> None:
    for node in model.graph:
        if plan.mode(node) is not NodeMode.INTEGER or not is_depthwise(node):
            continue
        before, clamp = _behind_clamps(node.inputs[0]), _clamp_behind(node)
        readers = [user for user, _ in (clamp or node).outputs[0].uses()]
        if not any(other is not None and plan.mode(other) is NodeMode.INTEGER for other in (before, *readers)):
            for alone in (node, clamp):
                if alone is not None and plan.mode(alone) is NodeMode.INTEGER:
                    plan.keep_float(alone, STANDS_ALONE)


def _behind_clamps(value: ir.Value | None) -> ir.Node | None:
    """The node that gives a value, or gave it to a Relu or Clip, which runtimes compute as the last step of others."""
    node = value.producer() if value is not None else None
    while node is not None and (entry := operator(node)) is not None and entry.role is Role.CLAMP:
        node = node.inputs[0].producer() if node.inputs[0] is not None else None
    return node


def _clamp_behind(node: ir.Node) -> ir.Node | None:
    reader = g.single_consumer(node.outputs[0])
    entry = operator(reader) if reader is not None else None
    return reader if entry is not None and entry.role is Role.CLAMP else None


def _drop_islands(model: ir.Model, plan: QuantPlan, target: Policy) -> None:
    def integer(node: ir.Node | None) -> bool:
        return node is not None and plan.mode(node) is NodeMode.INTEGER

    changed = True
    while changed:
        changed = False
        for node in model.graph:
            if not integer(node) or is_weighted(node):
                continue
            reason = _island_reason(node, plan, integer, target.integer_ends)
            if reason:
                plan.keep_float(node, reason)
                changed = True


def _island_reason(
    node: ir.Node, plan: QuantPlan, integer: Callable[[ir.Node | None], bool], ends: frozenset[str]
) -> str:
    if is_fused_clamp(node, plan):
        return ""
    for value in data_inputs(node):
        if g.is_constant(value) or integer(value.producer()) or value.name in ends:
            continue
        if not any(is_weighted(user) and integer(user) for user, _ in value.uses()):
            return "stands behind a float node"
    if not any(output.name in ends or any(integer(user) for user, _ in output.uses()) for output in node.outputs):
        return "no integer node follows"
    return ""


def quantized_tensors(model: ir.Model, plan: QuantPlan, target: Policy) -> dict[str, str]:
    """Tensors that need Q/DQ -> tensor whose parameters they take (usually their own name).

    An integer node's output is quantized unless its kernel can give float results and no integer node reads it. Ends that the
    plan names are quantized whoever reads or gives them.
    """
    sources: dict[str, str] = {}
    for value in model.graph.inputs:
        if value.dtype in FLOAT_TYPES and (_read_as_integer(value, plan) or value.name in plan.ends):
            sources[_name(value)] = _name(value)
    for node in model.graph:
        entry = operator(node)
        mode = plan.mode(node)
        for output in node.outputs:
            if output.dtype not in FLOAT_TYPES or not output.name:
                continue
            if mode is not NodeMode.INTEGER or entry is None:
                if _read_as_integer(output, plan) or output.name in plan.ends:
                    sources[output.name] = output.name
                continue
            if _is_inner(output, plan) or not _needs_qdq(node, output, plan, target):
                continue
            origin = node.inputs[0]
            is_on_grid = _keeps_values(node) or node.op_type in target.keeps_grid
            shares = is_on_grid and origin is not None and origin.name in sources
            sources[output.name] = (
                sources[origin.name] if shares and origin is not None and origin.name else output.name
            )
    return sources


def _keeps_values(node: ir.Node) -> bool:
    """Whether the output holds values of the first input only: Pad may add a constant (infinity, for MaxPool, saturates)."""
    entry = operator(node)
    if entry is None or entry.role is not Role.SAME:
        return False
    if node.op_type != "Pad" or g.text_attribute(node, "mode", "constant") != "constant":
        return True
    value = g.input_at(node, 2)
    added = 0.0 if value is None else g.scalar(value)
    return added is not None and (added == 0.0 or not math.isfinite(added))


def _needs_qdq(node: ir.Node, output: ir.Value, plan: QuantPlan, target: Policy) -> bool:
    computing = node
    if is_fused_clamp(node, plan):
        before = node.inputs[0].producer() if node.inputs[0] is not None else None
        computing = before or node
    if computing.op_type in target.float_output:
        return output.name in target.integer_ends or _read_as_integer(output, plan)
    return True


def _is_inner(value: ir.Value, plan: QuantPlan) -> bool:
    """Whether the tensor disappears inside an integer node (between it and its Relu)."""
    user = g.single_consumer(value)
    return user is not None and is_fused_clamp(user, plan)


def _read_as_integer(value: ir.Value, plan: QuantPlan) -> bool:
    return any(reads_integer(user, position, plan) for user, position in value.uses())


def reads_integer(node: ir.Node, position: int, plan: QuantPlan) -> bool:
    """Whether input ``position`` of a node is read through Q/DQ."""
    value = node.inputs[position]
    if plan.mode(node) is not NodeMode.INTEGER or is_fused_clamp(node, plan):
        return False
    if position in plan.nodes[node.name or ""].float_inputs:
        return False
    return any(value is data for data in data_inputs(node))


def reads_grid(node: ir.Node, position: int, plan: QuantPlan) -> bool:
    """Whether input ``position`` of a node is on a grid: read as integers, given by an integer node, or known to be."""
    decision, value = plan.nodes.get(node.name or ""), node.inputs[position]
    if decision is not None and decision.mode is not NodeMode.INTEGER and decision.grid_inputs is not None:
        return position in decision.grid_inputs
    maker = value.producer() if value is not None else None
    return reads_integer(node, position, plan) or (maker is not None and plan.mode(maker) is NodeMode.INTEGER)


def _mark_float_addends(model: ir.Model, plan: QuantPlan) -> None:
    """The first addend that comes straight from a weighted node stays in that node's accumulator precision."""
    for node in model.graph:
        if node.op_type != "Add" or plan.mode(node) is not NodeMode.INTEGER:
            continue
        for position, value in enumerate(node.inputs):
            before = value.producer() if value is not None else None
            if value is None or before is None or not is_weighted(before):
                continue
            if plan.mode(before) is NodeMode.INTEGER and g.single_consumer(value) is node:
                plan.nodes[node.name or ""] = NodePlan("Add", NodeMode.INTEGER, float_inputs=(position,))
                break


def _name(value: ir.Value) -> str:
    return value.name or ""
