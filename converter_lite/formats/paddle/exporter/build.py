"""A graph with its plan as the structure of a ``.nb`` file, and the check whether it can be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.errors import MISFITS, ConverterError, TargetError
from converter_lite.formats.paddle.exporter.lowering import RESERVED, Lowering, Unsupported, dims
from converter_lite.formats.paddle.exporter.reshaping import MOST_DIMENSIONS
from converter_lite.formats.paddle.exporter.table import HANDLERS
from converter_lite.formats.paddle.exporter.types import refused_type
from converter_lite.formats.paddle.kernels import Target
from converter_lite.formats.paddle.program import NbFile
from converter_lite.log import counted
from converter_lite.passes.input_values import HINT
from converter_lite.quantization.plan import QuantizedModel, QuantPlan

FIXED_HINT = "the shapes of the inputs are fixed already, and do not decide it"
"""Where ``--inputShape`` would be the advice for a model whose inputs are open."""

GRAPH_OUTPUT = "graph output"
"""What stands in the place of an operator where an output cannot be written."""

FEW_AXES = frozenset({"Gather", "Slice", "Tile", "Transpose"})
"""Operators that end the process where a tensor has more dimensions than :data:`MOST_DIMENSIONS`; Softmax, too, on x86."""


@dataclass(frozen=True, slots=True)
class NbOptions:
    """How a ``.nb`` file is written.

    Attributes:
        target: ``arm``, ``x86`` or ``host``.
        meta_version: Layout of the file: 2, or 1 for libraries of release 2.7.
        opt_version: Release that the file names as its writer; libraries of other releases warn.
    """

    target: str = "arm"
    meta_version: int = 2
    opt_version: str = "v2.12"


@dataclass(frozen=True, slots=True)
class Problem:
    """A node, or an output, that the target cannot express.

    Attributes:
        node: Its name.
        operator: Its ONNX operator; :data:`GRAPH_OUTPUT`.
        reason: Why.
        hint: What would help, empty where nothing does.
    """

    node: str
    operator: str
    reason: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.node} ({self.operator}): {self.reason}"
        return f"{text}; {self.hint}" if self.hint else text


def build(quantized: QuantizedModel, *, options: NbOptions) -> NbFile:
    """Structure of the file.

    Raises:
        TargetError: A node cannot be expressed; all such nodes are named.
    """
    lowering = Lowering(quantized, target_of(options.target))
    refuse(lower(lowering), quantized.model, f".nb for {options.target}")
    return NbFile(lowering.program(), lowering.parameters, options.meta_version, options.opt_version)


def check(model: ir.Model, target: str) -> list[Problem]:
    """Nodes that a float file for ``target`` cannot express; empty when it can. Nothing is changed or run.

    Raises:
        TargetError: The target does not exist.
    """
    return lower(Lowering(QuantizedModel(model, QuantPlan(target)), target_of(target)))


def refuse_unwritable(model: ir.Model, target: str) -> None:
    """Refuse a model that a float file for ``target`` cannot express.

    Raises:
        TargetError: Nodes and reasons are named, all of them.
    """
    refuse(check(model, target), model, f".nb for {target}")


def refuse(problems: Sequence[Problem], model: ir.Model, kind: str) -> None:
    """Refuse a model with nodes, inputs or outputs that cannot be expressed; ``kind`` names the file.

    Raises:
        TargetError: Nodes and reasons are named, all of them; or the input or output.
    """
    for values, what in ((model.graph.inputs, "inputs"), (model.graph.outputs, "outputs")):
        if not values:
            raise TargetError(f"the model has no {what}, and {kind} needs one")
    narrow = next((value for value in model.graph.inputs if value.dtype is ir.DataType.INT8), None)
    if narrow is not None:
        raise TargetError(f"input '{narrow.name}' is int8, and {kind} has no such inputs", hint="change the model")
    for values, what in ((model.graph.inputs, "input"), (model.graph.outputs, "output")):
        taken = next((value.name for value in values if value.name in RESERVED), None)
        if taken is not None:
            raise TargetError(
                f"no {what} of {kind} can be called '{taken}'", hint=f"give the {what} another name in the model"
            )
    names = [str(value.name) for value in model.graph.outputs]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise TargetError(
            f"two outputs are {repeated!r}: each output of {kind} is another tensor", hint="leave one of them out"
        )
    if not problems:
        return
    lines = "\n".join(f"  {problem}" for problem in problems)
    of_nodes = [problem for problem in problems if problem.operator != GRAPH_OUTPUT]
    counts = [
        counted(len(problems) - len(of_nodes), "output") if len(of_nodes) < len(problems) else "",
        f"{len(of_nodes)} of {len(model.graph)} nodes" if of_nodes else "",
    ]
    hints = [
        "use --saveType=ONNX, or change the model",
        "fixed input shapes (--inputShape) make such nodes constant in many models" if _is_open(model.graph) else "",
        HINT if " (If)" in lines else "",
    ]
    raise TargetError(
        f"{' and '.join(filter(None, counts))} cannot be written as {kind}:\n{lines}",
        hint="; ".join(filter(None, hints)),
    )


def target_of(name: str) -> Target:
    """Target by name.

    Raises:
        TargetError: It does not exist.
    """
    try:
        return Target.parse(name)
    except ValueError as error:
        raise TargetError(str(error)) from None


def lower(lowering: Lowering) -> list[Problem]:
    """Translate the whole graph; returns the nodes that cannot be expressed."""
    graph = lowering.graph
    lowering.reserve([*graph.inputs, *graph.outputs])
    problems = list(_problems(lowering, graph))
    problems.extend(
        Problem(str(value.name), GRAPH_OUTPUT, "it is a constant or an input, and nothing computes it")
        for value in graph.outputs
        if value.producer() is None
    )
    return problems


def _refuse_tensors(node: ir.Node, lowering: Lowering) -> None:
    """Refuse what kernels would read as numbers of another type, or as nothing, and more axes than they have room for."""
    if reason := refused_type(node, lowering.target):
        raise Unsupported(reason)
    few = FEW_AXES | ({"Softmax"} if not lowering.is_arm else set())
    axes = len(dims(node.inputs[0])) if node.op_type in few and node.inputs[0] is not None else 0
    if axes > MOST_DIMENSIONS and lowering.absorbs:
        raise Unsupported(f"a tensor of {axes} dimensions; the library takes at most {MOST_DIMENSIONS} here")
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and not g.is_constant(value)]
    empty = [str(value.name) for value in values if 0 in (g.static_shape(value) or ())]
    if empty:
        raise Unsupported(f"{empty[0]} holds no element")


def _is_open(graph: ir.Graph) -> bool:
    """Whether an input has a dimension that is not fixed."""
    return any(g.static_shape(value) is None for value in graph.inputs)


def _problems(lowering: Lowering, graph: ir.Graph) -> Iterator[Problem]:
    is_open = _is_open(graph)
    for node in graph:
        if node in lowering.done:
            continue
        handler = HANDLERS.get(node.op_type) if not node.domain else None
        name = str(node.name)
        if handler is None:
            yield Problem(name, node.op_type, f"this operator is not written for {lowering.runtime}")
        else:
            try:
                _refuse_tensors(node, lowering)
                handler(lowering, node)
                continue
            except Unsupported as error:
                is_advice = is_open or "--inputShape" not in error.hint
                yield Problem(name, node.op_type, error.reason, error.hint if is_advice else FIXED_HINT)
            except ConverterError as error:
                yield Problem(name, node.op_type, str(error).replace("\n ", ";"))
            except MISFITS as error:
                yield Problem(name, node.op_type, f"it does not fit its operator ({error})")
        lowering.reserve(node.outputs)  # readers of a failed node must not fail for that reason
