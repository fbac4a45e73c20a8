"""Local functions of ONNX models, before they are inlined."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.graph import all_nodes, label

MAX_NODES = 1_000_000
"""Most nodes that a graph may have once its functions are inlined: ten times the largest models, and what a gigabyte holds."""


def refuse_graph_parameters(model: ir.Model, *, where: str) -> None:
    """Refuse functions that take a graph as parameter: they cannot be traversed.

    Raises:
        ModelError: There is one.
    """
    pending: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    while pending:
        for node in pending.pop():
            for key, attribute in node.attributes.items():
                if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                    continue
                if attribute.value is None:
                    raise ModelError(f"{label(node)} takes its {key} from a parameter of its function", where=where)
                pending += [attribute.value] if attribute.type is ir.AttributeType.GRAPH else attribute.value


def check_functions(model: ir.Model, *, where: str) -> None:
    """Refuse functions that call themselves, that multiply each other, or that have the name of a standard operator.

    Thirty functions that each call the next one twice are a file of a few kilobytes and a graph of a billion nodes.

    Raises:
        ModelError: A function calls itself, runtimes would not call it, or the inlined graph would have more than
            ``MAX_NODES`` nodes.
    """
    if not model.functions:
        return
    hidden = next(
        (name for domain, name, _ in model.functions if domain in ("", "ai.onnx") and onnx.defs.has(name)), None
    )
    if hidden is not None:
        raise ModelError(
            f"the function {hidden} has the name of a standard operator: some runtimes compute the one, some the other",
            where=where,
            hint="rename it, or give it a domain of its own",
        )
    sizes = _sizes(model, where)
    total = sum(sizes.get(node.op_identifier(), 1) for node in all_nodes(model.graph))
    if total > MAX_NODES:
        raise ModelError(
            f"inlining its functions would give {total:.3g} nodes, more than {MAX_NODES}",
            where=where,
            hint="export the model without functions",
        )


def _sizes(model: ir.Model, where: str) -> dict[ir.OperatorIdentifier, int]:
    """Nodes of each function with everything that it calls; depth first, without recursion."""
    calls = {name: [node.op_identifier() for node in all_nodes(body)] for name, body in model.functions.items()}
    sizes: dict[ir.OperatorIdentifier, int] = {}
    for start in calls:
        pending = [start]
        open_calls = {start}
        while pending:
            name = pending[-1]
            unknown = next((called for called in calls[name] if called in calls and called not in sizes), None)
            if unknown is None:
                sizes[name] = sum(sizes.get(called, 1) for called in calls[name])
                open_calls.discard(pending.pop())
            elif unknown in open_calls:
                raise ModelError(f"the function {unknown[1]} calls itself", where=where)
            else:
                pending.append(unknown)
                open_calls.add(unknown)
    return sizes
