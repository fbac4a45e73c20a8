"""A program of PyTorch to an ONNX file."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._decomp import get_decompositions

from converter_lite.formats.child import MODEL, Answer, Refusal

OPSET = 18
"""What PyTorch's exporter has its operators in; others are made of them."""

FAST_PATHS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
"""Operators that a trace of attention layers holds unless PyTorch is told to compute them step by step."""

HINT = "export the part of the network without it, or replace it"
FAST_PATH_HINT = (
    "call torch.backends.mha.set_fastpath_enabled(False) before torch.jit.trace, or use torch.export.export"
)

SCOPES = "pkg.torch.onnx.name_scopes"
"""Where the exporter writes which modules and nodes a node of ONNX comes from."""


def export(
    program: Any,
    folder: Path,
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> Answer:
    """Write the model.

    Args:
        program: An ExportedProgram.
        folder: Where it goes.
        inputs: What its inputs are called; ``None``: as in the program.
        outputs: The same for outputs.
        notes: What the user should know.

    Raises:
        Refusal: ONNX has no counterpart of an operator.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(
                _with_steps(program),
                dynamo=True,
                opset_version=OPSET,
                input_names=inputs,
                output_names=outputs,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = _reason(error)
        raise Refusal(reason, FAST_PATH_HINT if any(name in reason for name in FAST_PATHS) else HINT) from error
    _name_inputs(made.model.graph)
    _name_nodes(made.model.graph, program)
    made.save(str(folder / MODEL), external_data=_bytes(made.model) > 1 << 30)
    return Answer(notes=list(notes))


def refuse_changes(program: Any) -> None:
    """Refuse a program that keeps something between its calls: the file would compute the first one again and again.

    Args:
        program: An ExportedProgram.

    Raises:
        Refusal: It changes its buffers.
    """
    changed = sorted(program.run_decompositions({}).graph_signature.buffers_to_mutate.values())
    if changed:
        raise Refusal(
            f"it changes its buffers when it is called ({', '.join(changed[:4])})",
            "call eval() before torch.export.export, or give the state as inputs and outputs",
        )


def _with_steps(program: Any) -> Any:
    """The program with what PyTorch exports wrongly written out.

    These are LSTM layers that project their outputs (``proj_size``), and copies into a part of a tensor, as ``y[:, 0] = 0`` in
    a script, which do not spread over it there.
    """
    aten = torch.ops.aten
    steps: dict[Any, Any] = {}
    if any(node.target is aten.lstm.input and _projects(node.args) for node in program.graph.nodes):
        steps.update(get_decompositions([aten.lstm.input]))
    if any(node.target in (aten.copy.default, aten.copy_.default) for node in program.graph.nodes):
        steps[aten.copy.default] = _copy
    return program.run_decompositions(steps) if steps else program


def _copy(into: Any, source: Any, _: bool = False) -> Any:
    """What ``into`` holds after ``into.copy_(source)``."""
    return source.to(into.dtype).expand(into.shape)


def _projects(arguments: Any) -> bool:
    """Whether a layer of an ``aten.lstm`` has a weight more than those of the input, the state, and perhaps their biases."""
    _, _, weights, has_biases, layers, _, _, both, _ = arguments
    return bool(len(weights) // (layers * (1 + both)) > (4 if has_biases else 2))


def _name_inputs(graph: Any) -> None:
    """Give an input that is a result, too, its own name: PyTorch's exporter leaves that to the result."""
    results = {value.name: value for value in graph.outputs}
    for value in graph.inputs:
        name = value.name.removesuffix("_orig")
        if name != value.name and name in results:
            results[name].name = f"{name}_output"
            value.name = name


def _name_nodes(graph: Any, program: Any) -> None:
    """Add the nodes of the program to the scopes of what reads their weights: the exporter forgets that of a folded layer."""
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    readers = {
        weights[node.name]: next(iter(node.users)).name
        for node in program.graph.nodes
        if node.name in weights and len(node.users) == 1
    }
    for node in graph:
        names = {readers[value.name] for value in node.inputs if value is not None and value.name in readers}
        if names:
            node.metadata_props[SCOPES] = f"{node.metadata_props.get(SCOPES, '')} {sorted(names)}"


def _bytes(model: Any) -> int:
    return sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value is not None)


def _reason(error: BaseException) -> str:
    """The innermost message, in one line."""
    found = str(error)
    cause: BaseException | None = error
    while cause is not None:
        found = str(cause) or found
        cause = cause.__cause__
    lines = [line.strip() for line in found.splitlines() if line.strip()]
    return f"PyTorch's exporter refuses it: {lines[0][:400] if lines else type(error).__name__}"
