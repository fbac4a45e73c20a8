"""Rules of ``onnx_ir``, wrapped so that original names still find their node."""

from __future__ import annotations

import onnx_ir as ir
import onnx_ir.passes.common as library

from converter_lite.graph import absorb_names, subgraphs
from converter_lite.passes.branches import forget
from converter_lite.passes.rewrite import is_op

COMPARED = 16
"""First elements of a constant that are compared before all of them are."""


def lift_constants(model: ir.Model) -> int:
    """Turn Constant nodes into initializers; one that is a graph output itself stays a node."""
    before = len(model.graph)
    library.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    return before - len(model.graph)


def remove_unused(model: ir.Model) -> int:
    """Remove nodes and initializers that no output depends on."""
    before = len(model.graph) + len(model.graph.initializers)
    owners = [node for node in model.graph if subgraphs(node)]
    library.RemoveUnusedNodesPass()(model)
    while gone := [node for node in owners if node.graph is None]:
        for node in gone:  # what only their branches and bodies read goes next
            forget(node)
        owners = [node for node in owners if node.graph is not None]
        library.RemoveUnusedNodesPass()(model)
    return before - len(model.graph) - len(model.graph.initializers)


def deduplicate_initializers(model: ir.Model) -> int:
    """Store equal constants once, whatever their size."""
    before = len(model.graph.initializers)
    limit = _largest_twin(model)
    if limit:
        library.DeduplicateHashedInitializersPass(size_limit=limit)(model)
    return before - len(model.graph.initializers)


def _largest_twin(model: ir.Model) -> int:
    """Elements of the largest constant that begins like another one of its type and shape: larger ones need no hash."""
    seen, largest = set(), 0
    for value in (value for graph in model.graphs() for value in graph.initializers.values()):
        tensor = value.const_value
        if tensor is None:
            continue
        start = b"" if tensor.dtype == ir.DataType.STRING else tensor.numpy().reshape(-1)[:COMPARED].tobytes()
        key = (tensor.dtype, tuple(tensor.shape), start)
        if key in seen:
            largest = max(largest, tensor.size)
        seen.add(key)
    return largest


def eliminate_common_subexpressions(model: ir.Model) -> int:
    """Compute once what two nodes with equal operator, inputs and attributes compute; random operators are kept.

    ::

        x ─┬─ Sqrt ─ y            x ─ Sqrt ─┬─ y
           └─ Sqrt ─ z   becomes            └─ y
    """
    before = list(model.graph)
    readers = {node: _readers(node) for node in before}
    exported = {node: [v.name for v in node.outputs if v.is_graph_output()] for node in before}
    library.CommonSubexpressionEliminationPass()(model)
    after = set(model.graph)
    removed = [node for node in before if node not in after]
    sources = {value.name: _computed_by(value) for value in model.graph.outputs}
    twins: dict[ir.Node, ir.Node] = {}
    for node in reversed(removed):
        candidates = [_now_feeding(reader, index, twins) for reader, index in readers[node]]
        candidates += [sources[name] for name in exported[node]]
        twin = next((candidate for candidate in candidates if candidate is not None), None)
        if twin is not None:
            twins[node] = twin
            absorb_names(twin, [node])
    return len(removed)


def _readers(node: ir.Node) -> list[tuple[ir.Node, int]]:
    return [(use.node, use.idx) for output in node.outputs for use in output.uses()]


def _now_feeding(reader: ir.Node, index: int, twins: dict[ir.Node, ir.Node]) -> ir.Node | None:
    """What computes this input of a reader now; a reader that was removed as well is followed to its own twin."""
    remaining = twins.get(reader, reader)
    value = remaining.inputs[index] if index < len(remaining.inputs) else None
    return value.producer() if value is not None else None


def _computed_by(output: ir.Value) -> ir.Node | None:
    """The node behind a graph output; behind the Identity that keeps two equal outputs apart where there is one."""
    producer = output.producer()
    source = producer.inputs[0] if producer is not None and is_op(producer, "Identity") else None
    return source.producer() if source is not None else producer
