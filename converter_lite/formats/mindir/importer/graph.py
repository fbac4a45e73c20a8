"""A whole program as a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from converter_lite.errors import MISFITS, ModelError, UsageError, did_you_mean, nearest
from converter_lite.formats.mindir.importer.context import MISSING, Held, Importer
from converter_lite.formats.mindir.importer.step import Step
from converter_lite.formats.mindir.importer.table import CALLED, KINDS, REFUSED
from converter_lite.formats.mindir.program import (
    DTYPES,
    MONAD,
    Graph,
    Node,
    Primitive,
    Program,
    Span,
    Tensor,
    Unknown,
    type_name,
)
from converter_lite.formats.mindir.reader import Reader
from converter_lite.formats.mindir.weights import Weights

REFERENCE = "REF::"
"""Before the name of a primitive or graph that a node refers to."""

CONSTANT = "Constant"

DEEPEST_CALLS = 32
"""Functions that call each other."""

MOST_CALLED_NODES = 1 << 14
"""Nodes of functions, each counted as often as it is called."""

SHOWN = 5
"""Operators that a message names."""


@dataclass(slots=True)
class Translation:
    """One translation.

    Attributes:
        program: What is translated.
        reader: Decodes values of attributes.
        weights: Gives constants.
        importer: The graph that is built.
        called_left: Nodes of functions that may still be called.
        calls: Functions that are being translated, the innermost last.
        parameters: Weights of all graphs by name.
    """

    program: Program
    reader: Reader
    weights: Weights
    importer: Importer = field(default_factory=Importer)
    called_left: int = MOST_CALLED_NODES
    calls: list[str] = field(default_factory=list)
    parameters: dict[str, Tensor] = field(default_factory=dict)


def to_model(
    program: Program, reader: Reader, weights: Weights, input_shapes: Mapping[str, Sequence[int]] | None = None
) -> ir.Model:
    """The program as ONNX (opset 20).

    Args:
        program: The file.
        reader: Of the file.
        weights: Of the file and those beside it.
        input_shapes: Shapes of inputs that replace those in the file.

    Raises:
        ModelError: An operator cannot be translated; it is named.
        UsageError: A shape is for an input that there is not, or of another rank.
    """
    _check_operators(program)
    translation = Translation(program, reader, weights)
    graph, importer = program.graph, translation.importer
    with _naming(program.where):
        for owner in (graph, *program.functions.values()):
            translation.parameters.update({tensor.name: tensor for tensor in owner.parameters})
        _add_inputs(translation, dict(input_shapes or {}))
        held = _run(translation, graph)
        return importer.model(list(_results(held)), graph.name)


def _add_inputs(translation: Translation, shapes: dict[str, Sequence[int]]) -> None:
    graph, importer = translation.program.graph, translation.importer
    for tensor in graph.inputs:
        name, kind = graph.short(tensor.name), DTYPES.get(tensor.kind)
        if kind is None:
            raise ModelError(f"input '{name}' is no tensor of numbers ({type_name(tensor.kind)})")
        dims: Sequence[int] = tensor.dims
        if name in shapes:
            dims = shapes.pop(name)
            if len(dims) != len(tensor.dims) and -2 not in tensor.dims:
                raise UsageError(
                    f"input '{name}' has {len(tensor.dims)} dimensions {list(tensor.dims)}, not {len(dims)}",
                    where="inputShape",
                )
            if any(known not in (size, -1) for known, size in zip(tensor.dims, dims, strict=False)):
                importer.checks_shapes = False
        elif any(size < -1 for size in dims):
            raise UsageError(
                f"the file does not say how many dimensions input '{name}' has",
                where=translation.program.where,
                hint=f"--inputShape={name}:1,3,224,224",
            )
        if any(size == 0 for size in dims):
            raise ModelError(f"input '{name}' has the shape {list(dims)}")
        importer.held[tensor.name] = importer.add_input(name, kind, dims)
    if shapes:
        known = [graph.short(tensor.name) for tensor in graph.inputs]
        raise UsageError(
            f"the model has no input '{next(iter(shapes))}'",
            where="inputShape",
            hint=f"its inputs are {', '.join(known)}",
        )


def _results(held: Held) -> Iterator[ir.Value]:
    """The tensors of what a program gives."""
    if isinstance(held, ir.Value):
        yield held
    elif isinstance(held, tuple):
        for part in held:
            yield from _results(part)
    elif isinstance(held, Unknown):
        raise ModelError(f"the model gives {held.kind}")
    else:
        raise ModelError(f"the model gives {held!r:.40}, which is no tensor")


def _run(translation: Translation, graph: Graph) -> Held:
    """Translate the nodes of a graph, whose inputs stand for something already."""
    for node in graph.nodes:
        if node.operator == CONSTANT:
            with _naming(f"constant '{node.output}'"):
                translation.importer.held[node.output] = _constant(translation, node)
            continue
        name = node.scope or graph.short(node.output)
        reference = node.operator.removeprefix(REFERENCE)
        if reference in translation.program.functions:
            _call(translation, node, translation.program.functions[reference], name)
            continue
        primitive = operator_of(translation.program, node)
        with _naming(f"'{name}' ({primitive.operator})"):
            _translate(translation, node, primitive, name)
    if len(graph.outputs) == 1:
        return _held(translation, graph.outputs[0])
    return tuple(_held(translation, output) for output in graph.outputs)


def _call(translation: Translation, node: Node, function: Graph, name: str) -> None:
    """Translate a function in the place where it is called."""
    with _naming(f"'{name}' (call of {function.name})"):
        if function.name in translation.calls or len(translation.calls) >= DEEPEST_CALLS:
            raise ModelError("functions call each other in a circle, or in too great a depth")
        translation.called_left -= len(function.nodes)
        if translation.called_left < 0:
            raise ModelError("its functions are called more often than a network does")
        given = [_held(translation, name) for name in node.inputs]
        if len(given) < len(function.inputs) or any(held is not MONAD for held in given[len(function.inputs) :]):
            raise ModelError(f"{len(given)} arguments for {len(function.inputs)} inputs")
        for tensor, held in zip(function.inputs, given, strict=False):
            translation.importer.held[tensor.name] = held
    translation.calls.append(function.name)
    result = _run(translation, function)
    translation.calls.pop()
    translation.importer.held[node.output] = result


def _translate(translation: Translation, node: Node, primitive: Primitive, name: str) -> None:
    kind, importer, reader = KINDS[primitive.operator], translation.importer, translation.reader

    def attribute(wanted: str) -> Held:
        span: Span | None = primitive.attributes.get(wanted) or node.attributes.get(wanted)
        return MISSING if span is None else reader.value(span)

    given = [_held(translation, source) for source in node.inputs]
    while given and given[-1] is MONAD and not kind.arguments.endswith("..."):
        given.pop()
    known = kind.arguments.split()
    if len(given) > len(known) and "..." not in known:
        raise ModelError(
            f"it has {len(given)} arguments, and {len(known)} are known: a newer form of the operator",
            hint="export the model with MindSpore 2.7",
        )
    declared = reader.value(node.attributes["shape"]) if "shape" in node.attributes else None
    step = Step(importer, kind, primitive.operator, name, node.output, tuple(given), attribute, declared)
    try:
        with np.errstate(all="ignore"):  # weights of a damaged file may be any numbers
            kind.translate(step)
    except MISFITS as error:
        raise ModelError(f"its arguments make no sense: {error}") from None


def _held(translation: Translation, name: str) -> Held:
    """What a name stands for; a weight becomes a constant when it is first read."""
    importer = translation.importer
    if name in importer.held:
        return importer.held[name]
    if name not in translation.parameters:
        raise ModelError(f"it reads '{name}', which nothing before it gives")
    tensor = translation.parameters[name]
    importer.held[name] = importer.constant(tensor.key or name.rpartition(":")[2], translation.weights.array(tensor))
    return importer.held[name]


def _constant(translation: Translation, node: Node) -> Held:
    if "value" not in node.attributes:
        raise ModelError("a constant without a value")
    return _made(translation, node.output, translation.reader.value(node.attributes["value"]))


def _made(translation: Translation, name: str, value: Any) -> Held:
    """A value of the file; tensors that hold numbers become constants."""
    if isinstance(value, tuple):
        return tuple(_made(translation, name, part) for part in value)
    if isinstance(value, Tensor) and (value.data is not None or value.apart is not None or 0 in value.dims):
        return translation.importer.constant(name, translation.weights.array(value))
    return value


def operator_of(program: Program, node: Node) -> Primitive:
    """The operator of a node, which the oldest files hold in the node itself."""
    if node.operator.startswith(REFERENCE):
        found = program.primitives.get(node.operator.removeprefix(REFERENCE))
        return found or Primitive(node.operator, {})
    return Primitive(node.operator, node.attributes)


def _check_operators(program: Program) -> None:
    """Refuse what cannot be translated before any work: all operators are named."""
    unknown: dict[str, str] = {}
    for graph in (program.graph, *program.functions.values()):
        for node in graph.nodes:
            if node.operator != CONSTANT and node.operator.removeprefix(REFERENCE) not in program.functions:
                operator = operator_of(program, node).operator
                if operator not in KINDS:
                    called = CALLED if operator.startswith(REFERENCE) else operator
                    unknown.setdefault(called, node.scope or graph.short(node.output))
    if not unknown:
        return
    operator, name = next(iter(unknown.items()))
    known = next((word for word in unknown if word in REFUSED), operator)
    operator, name = known, unknown[known]
    reason, hint = REFUSED.get(operator, ("", ""))
    if not reason:
        match = nearest(operator, KINDS)
        reason = f"no operator of MindSpore that is known here{did_you_mean(operator, KINDS)}"
        hint = "" if match else "write it in the network with operators that are known, or export ONNX"
    others = [word for word in unknown if word != operator]
    more = f"; neither can {', '.join(others[:SHOWN])}{' and others' * (len(others) > SHOWN)}" if others else ""
    raise ModelError(
        f"this operator cannot be translated: {reason}{more}",
        where=f"{program.where} '{name}' ({operator})".strip(),
        hint=hint,
    )


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Say in errors of what is called where in the file it was.

    Raises:
        ModelError: With the place.
    """
    try:
        yield
    except ModelError as error:
        place = f"{where} {error.where}".strip() if where not in error.where else error.where
        raise ModelError(error.message, where=place, hint=error.hint) from None
