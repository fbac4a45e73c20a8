"""Variables that a file keeps from run to run: a graph takes their numbers as inputs, and gives the new ones as outputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from converter_lite.errors import FormatError, ModelError
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.container import Operator, Subgraph
from converter_lite.formats.tflite.importer.context import Handler, Importer

NEXT = "next"
"""Behind the name of a variable: the output with its new numbers."""


def _handles(graph: Subgraph) -> dict[int, str]:
    """Tensor of a subgraph -> name of the variable that it stands for."""
    return {
        op.outputs[0]: str(op.get("shared_name", "") or graph.tensors[op.outputs[0]].name)
        for op in graph.operators
        if op.kind == "VAR_HANDLE" and op.outputs
    }


def _name(ctx: Importer, index: int) -> str:
    """Name of a variable.

    Raises:
        FormatError: The tensor is none.
    """
    found = _handles(ctx.graph).get(index)
    if found is None:
        raise FormatError(f"the file is damaged: {ctx.tensor(index).name} is no variable")
    return found


def _changed(ctx: Importer) -> Iterator[str]:
    """Variables that a run assigns to, be it in a graph that is called; what prepares the first run does not count."""
    graphs = ctx.file.subgraphs
    first = {
        int(op.get("init_subgraph_index", 0)) for each in graphs for op in each.operators if op.kind == "CALL_ONCE"
    }
    for number, graph in enumerate(graphs):
        handles = {} if number in first else _handles(graph)
        yield from (
            handles.get(op.inputs[0], "") for op in graph.operators if op.kind == "ASSIGN_VARIABLE" and op.inputs
        )


def _call_once(ctx: Importer, op: Operator) -> None:
    """What prepares the first run says where each variable begins.

    Raises:
        ModelError: It computes that, or a variable that changes does not begin with zeros, as those who feed it expect.
    """
    number = int(op.get("init_subgraph_index", 0))
    if not 0 <= number < len(ctx.file.subgraphs):
        raise ModelError(f"there is no graph {number}")
    inner, changed = Importer(ctx.file, ctx.file.subgraphs[number], ctx.builder, _nothing), set(_changed(ctx))
    for each in inner.graph.operators:
        if each.kind == "VAR_HANDLE":
            continue
        if each.kind != "ASSIGN_VARIABLE" or not inner.is_constant(each.inputs[1]):
            raise ModelError(f"the graph that prepares the first run computes ({each.kind})")
        name, begin = _name(inner, each.inputs[0]), inner.stored(each.inputs[1])
        if name in changed and np.any(constants.reals(begin)):
            raise ModelError(
                f"the variable {name} does not begin with zeros",
                hint="a graph takes it as an input, and who runs it would have to know its first numbers",
            )
        ctx.builder.first_states[name] = begin


def _nothing(ctx: Importer) -> None:
    del ctx


def _handle(ctx: Importer, op: Operator) -> None:
    """Only its name counts."""
    del ctx, op


def _read(ctx: Importer, op: Operator) -> None:
    """What was assigned before, the constant that it stays, or an input."""
    name, result, builder = _name(ctx, op.inputs[0]), op.outputs[0], ctx.builder
    if name not in builder.states and name not in set(_changed(ctx)):
        if name not in builder.first_states:
            raise ModelError(f"nothing says what the variable {name} holds")
        ctx.bring(result, builder.first_states[name])
        return
    if name not in builder.states:
        builder.states[name] = builder.add_input(name, ctx.element_type(result), ctx.tensor(result).open_shape)
    ctx.bind(result, builder.states[name])


def _assign(ctx: Importer, op: Operator) -> None:
    """From here on, the variable is another value.

    Raises:
        ModelError: It is in a branch, which is not always taken.
    """
    if ctx.builder.is_branch:
        raise ModelError("a branch assigns to a variable", hint="only a condition that is known is translated then")
    ctx.builder.states[_name(ctx, op.inputs[0])] = ctx.value(op.inputs[1])


def next_states(ctx: Importer) -> list[tuple[str, ir.Value]]:
    """Names of outputs, and the new numbers of the variables that a run changes."""
    changed = set(_changed(ctx))
    return [(f"{name}/{NEXT}", value) for name, value in ctx.builder.states.items() if name in changed]


HANDLERS: dict[str, Handler] = {
    "CALL_ONCE": _call_once,
    "VAR_HANDLE": _handle,
    "READ_VARIABLE": _read,
    "ASSIGN_VARIABLE": _assign,
}
