"""Operators that call other graphs of the file: these are put in their place."""

from __future__ import annotations

import onnx_ir as ir

from converter_lite.errors import ModelError
from converter_lite.formats.tflite.container import Operator
from converter_lite.formats.tflite.importer import folding
from converter_lite.formats.tflite.importer.context import Binding, Handler, Importer

MOST_TURNS = 512
"""Most turns of a loop that are written one after the other."""

LOOP_HINT = "a loop is written turn by turn where their number is known from the file; --inputShape fixes open sizes"


def _bring(ctx: Importer, op: Operator, results: list[Binding]) -> None:
    for index, result in zip(op.outputs, results, strict=True):
        ctx.bring(index, result)


def _results(inner: Importer) -> list[Binding]:
    return [inner.binding(index) for index in inner.graph.outputs]


def _call(ctx: Importer, op: Operator) -> None:
    """A composite also says what it is made of."""
    key = "decomposition_subgraph_index" if op.kind == "STABLEHLO_COMPOSITE" else "subgraph"
    _bring(ctx, op, _results(ctx.inlined(int(op.get(key, -1)), [ctx.binding(index) for index in op.inputs])))


def _if(ctx: Importer, op: Operator) -> None:
    """One graph or the other; where the condition is known, only that one."""
    numbers = [int(op.get(f"{name}_subgraph_index", -1)) for name in ("then", "else")]
    inputs = [ctx.binding(index) for index in op.inputs[1:]]
    taken = ctx.constant_or_none(op.inputs[0])
    if taken is not None:
        _bring(ctx, op, _results(ctx.inlined(numbers[0 if taken.reshape(-1)[0] else 1], inputs)))
        return
    branches = [_branch(ctx, op, number, inputs) for number in numbers]
    if len({len(branch.outputs) for branch in branches} | {len(op.outputs)}) != 1:
        raise ModelError("its branches have different results")
    for index, value in zip(
        op.outputs, ctx.builder.choose(ctx.value(op.inputs[0]), branches, ctx.builder.name), strict=True
    ):
        ctx.bind(index, value)


def _branch(ctx: Importer, op: Operator, number: int, inputs: list[Binding]) -> ir.Graph:
    """A graph as a branch: what it reads from outside is there already.

    Raises:
        ModelError: It computes with integers, for which a plan has no place there.
    """
    graph = ctx.file.subgraphs[number] if 0 <= number < len(ctx.file.subgraphs) else None
    if graph is not None and any(ctx.params(index) is not None for index in op.outputs):
        raise ModelError("a branch computes with integers", hint="only a condition that is known is translated then")
    with ctx.builder.branch() as nodes:
        inner = ctx.inlined(number, inputs)
        values = []
        for index in inner.graph.outputs:
            value = ctx.builder.made(inner.value(index))
            if value.producer() not in nodes or value in values:
                value = ctx.add("Identity", [value], computes=False)
            values.append(value)
    return ir.Graph([], values, nodes=nodes, name=f"{ctx.builder.name}_{number}")


def _while(ctx: Importer, op: Operator) -> None:
    """Turn after turn, as long as the condition is known to hold.

    Raises:
        ModelError: Only a run will tell how many turns there are, or they are too many.
    """
    test, body = int(op.get("cond_subgraph_index", -1)), int(op.get("body_subgraph_index", -1))
    state = [ctx.binding(index) for index in op.inputs]
    for _ in range(MOST_TURNS + 1):
        inner = ctx.inlined(test, state)
        holds = folding.known(inner.value(inner.graph.outputs[0]))
        settled = None if holds is None else folding.whole(holds)
        if settled is None:
            raise ModelError("the number of its turns is computed", hint=LOOP_HINT)
        if not settled.reshape(-1)[0]:
            _bring(ctx, op, state)
            return
        state = _results(ctx.inlined(body, state))
    raise ModelError(f"it has more than {MOST_TURNS} turns", hint=LOOP_HINT)


HANDLERS: dict[str, Handler] = {
    "CALL": _call,
    "STABLEHLO_COMPOSITE": _call,
    "IF": _if,
    "WHILE": _while,
}
