"""A frozen graph to an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import tf2onnx.convert

from converter_lite.formats.child import MODEL, Answer, Refusal

OPSET = 17
"""Known to tf2onnx and to everything here."""

SHOWN = 8
"""Nodes that are named."""


def convert(
    graph: Any,
    names: Mapping[str, str],
    outputs: Mapping[str, str],
    shapes: Mapping[str, Sequence[int]],
    folder: Path,
    notes: Sequence[str] = (),
) -> Answer:
    """Write the model.

    Args:
        graph: GraphDef without variables.
        names: Tensors that are inputs -> what they are called.
        outputs: The same of outputs.
        shapes: Sizes that the user gave, by what the input is called.
        folder: Where it goes.
        notes: What the user should know.

    Raises:
        Refusal: ONNX has no counterpart of an operator.
    """
    tensors = {name: tensor for tensor, name in names.items()}
    model, _ = tf2onnx.convert.from_graph_def(
        graph,
        input_names=list(names),
        output_names=list(outputs),
        opset=OPSET,
        shape_override={tensors[name]: list(shape) for name, shape in shapes.items()},
        tensors_to_rename={**names, **outputs},
    )
    _refuse_unknown(model)
    model.producer_name, model.producer_version = "tf2onnx", ""
    if model.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF:
        onnx.save(model, str(folder / MODEL))
    else:
        onnx.save(model, str(folder / MODEL), save_as_external_data=True, location="weights")
    return Answer(notes=list(notes))


def _refuse_unknown(model: Any) -> None:
    """What tf2onnx has no rule for stays as it was.

    Raises:
        Refusal: There is such an operator.
    """
    unknown = [node for node in _nodes(model.graph) if node.domain == "" and not onnx.defs.has(node.op_type)]
    unknown += [node for node in _nodes(model.graph) if node.domain not in ("", "ai.onnx")]
    if unknown:
        named = ", ".join(f"{node.op_type} (node {node.name})" for node in unknown[:SHOWN])
        more = f" and {len(unknown) - SHOWN} more" if len(unknown) > SHOWN else ""
        raise Refusal(
            f"ONNX has no counterpart of {named}{more}",
            "export the part of the model without these operators, or replace them",
        )


def _nodes(graph: Any) -> list[Any]:
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += _nodes(inner)
    return found
