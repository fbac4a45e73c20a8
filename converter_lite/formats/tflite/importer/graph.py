"""A whole file as a graph with its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from converter_lite.errors import MISFITS, ConverterError, FormatError, ModelError
from converter_lite.formats.tflite.container import Operator, Subgraph, TfliteModel, parse
from converter_lite.formats.tflite.importer.builder import IR_VERSION, Builder
from converter_lite.formats.tflite.importer.complex_numbers import in_two_parts
from converter_lite.formats.tflite.importer.context import Importer
from converter_lite.formats.tflite.importer.merging import merged
from converter_lite.formats.tflite.importer.table import REASONS, handler_of
from converter_lite.formats.tflite.importer.variables import next_states
from converter_lite.passes.input_shapes import fix_input_shapes
from converter_lite.quantization.plan import QuantizedModel

TARGET = "tflite"
"""Name of the plan's target."""

SHOWN = 5
"""Operators that a refusal names."""


def to_quantized_model(
    data: bytes | TfliteModel, *, where: str = "", input_shapes: Mapping[str, Sequence[int]] | None = None
) -> QuantizedModel:
    """The main graph in ONNX, with weights in real numbers, and the plan that says what the file holds as integers.

    Args:
        data: The file, or what :func:`~converter_lite.formats.tflite.container.parse` made of it.
        where: Name of the file for messages.
        input_shapes: Sizes of open dimensions.

    Raises:
        FormatError: The file is damaged.
        ModelError: It holds something that cannot be translated; operator, tensor and reason are named.
        UsageError: A shape does not fit.
    """
    try:
        file = parse(data) if isinstance(data, bytes) else data
    except FormatError as error:
        raise FormatError(error.message, where=f"{where} {error.where}".strip(), hint=error.hint) from None
    _refuse_choices(file, where)
    _refuse_operators(file.subgraphs[0], where)
    file = replace(file, subgraphs=[in_two_parts(_with_single_names(graph), where) for graph in file.subgraphs])
    graph, builder = file.subgraphs[0], Builder(TARGET)
    ctx = Importer(file, graph, builder, run, where)
    _add_inputs(ctx, input_shapes or {})
    run(ctx)
    results = _at_interface(ctx, builder, where)
    return builder.finish(results, graph.name)


def _with_single_names(graph: Subgraph) -> Subgraph:
    """The graph with the first name alone for each inner tensor.

    TensorFlow's converter joins the names of all operators that it made one of with semicolons, up to half of the bytes of a
    small file. Names that then stand for several tensors are numbered by the builder.
    """
    named = {*graph.inputs, *graph.outputs}
    tensors = [
        tensor if index in named else replace(tensor, name=tensor.name.partition(";")[0] or tensor.name)
        for index, tensor in enumerate(graph.tensors)
    ]
    return replace(graph, tensors=tensors)


def _refuse_choices(file: TfliteModel, where: str) -> None:
    called = {signature.subgraph for signature in file.signatures}
    if len(called) > 1:
        names = ", ".join(signature.name for signature in file.signatures[:SHOWN])
        raise ModelError(
            f"the file holds {len(called)} graphs to choose from ({names})",
            where=where,
            hint="convert the model again with one signature",
        )
    if called - {0}:
        raise ModelError("its signature names another graph than the first one", where=where)


def _refuse_operators(graph: Subgraph, where: str) -> None:
    """Name everything that cannot be translated, before any work."""
    found: dict[str, str] = {}
    for op in graph.operators:
        if handler_of(op) is None:
            kind = f"custom operator {op.kind}" if op.is_custom else op.kind
            found.setdefault(kind, graph.tensors[op.outputs[0]].name if op.outputs and op.outputs[0] >= 0 else "")
    if found:
        names = ", ".join(f"{kind} ({result})" for kind, result in list(found.items())[:SHOWN])
        more = f" and {len(found) - SHOWN} kinds more" if len(found) > SHOWN else ""
        reasons = dict.fromkeys(REASONS[kind] for kind in found if kind in REASONS)
        raise ModelError(f"operators that cannot be translated: {names}{more}", where=where, hint="; ".join(reasons))


def _add_inputs(ctx: Importer, shapes: Mapping[str, Sequence[int]]) -> None:
    """Inputs of the main graph: real numbers where the file has integers that stand for them."""
    builder, graph = ctx.builder, ctx.graph
    for index in graph.inputs:
        tensor = graph.tensors[index]
        try:
            kind = ctx.element_type(index)
        except ConverterError as error:
            raise ModelError(error.message, where=ctx.where, hint=error.hint) from None
        value = builder.add_input(tensor.name, kind, tensor.open_shape)
        ctx.bind(index, value)
    if shapes:
        copies = [ir.Value(name=value.name, shape=value.shape, type=value.type) for value in builder.inputs]
        alone = ir.Graph(copies, [], nodes=[], opset_imports={"": 1})
        fix_input_shapes(ir.Model(alone, ir_version=IR_VERSION), shapes)
        for value, copy in zip(builder.inputs, copies, strict=True):
            value.shape = copy.shape
            builder.inference.forget(value)


def run(ctx: Importer) -> None:
    """Translate the operators of a subgraph in order.

    Raises:
        ModelError: One cannot be translated; it is named.
        FormatError: The file is damaged.
    """
    for number, op in enumerate(merged(ctx)):
        place = f"{ctx.where} operator {number} ({_label(ctx, op)})".strip()
        try:
            handler = handler_of(op)
            if handler is None:
                raise ModelError("this operator cannot be translated")
            ctx.start(op)
            handler(ctx, op)
        except FormatError as error:
            raise FormatError(error.message, where=_joined(place, error.where), hint=error.hint) from None
        except ConverterError as error:
            raise ModelError(error.message, where=_joined(place, error.where), hint=error.hint) from None
        except MISFITS as error:
            # Options and inputs of a damaged file can be anything.
            raise ModelError(f"its options or inputs make no sense: {error}", where=place) from None


def _joined(place: str, inner: str) -> str:
    return place if not inner or inner in place else f"{place}: {inner}"


def _label(ctx: Importer, op: Operator) -> str:
    results = [ctx.graph.tensors[index].name for index in op.outputs[:1] if index >= 0]
    return f"{op.kind} -> {results[0]}" if results else op.kind


def _at_interface(ctx: Importer, builder: Builder, where: str) -> list[ir.Value]:
    """The outputs under their names, in the order of the file."""
    results: list[ir.Value] = []
    for index in ctx.graph.outputs:
        try:
            value, kind = builder.made(ctx.value(index)), ctx.element_type(index)
        except ConverterError as error:
            raise type(error)(error.message, where=where, hint=error.hint) from None
        results.append(_result(builder, value, ctx.graph.tensors[index].name, results))
        results[-1].type = ir.TensorType(kind)
    for name, value in next_states(ctx):
        results.append(_result(builder, builder.made(value), name, results))
    return results


def _result(builder: Builder, value: ir.Value, name: str, others: Sequence[ir.Value]) -> ir.Value:
    """A value as an output of its own with a name."""
    if value.producer() is None or value in others:
        (value,) = builder.add("Identity", [value], name=name, computes=False)
    if value.name != name:
        _free(builder, name)
        builder.rename(value, name)
    return value


def _free(builder: Builder, name: str) -> None:
    """Take a name away from an inner value that has it."""
    for node in builder.nodes:
        for value in node.outputs:
            if value.name == name:
                order = len(value.shape) if value.shape is not None else 0
                builder.rename(value, f"{name}_{'nchw' if order == 4 else 'inner'}")
