"""Frozen graphs: a GraphDef whose variables are constants."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError

from converter_lite.formats.child import Answer, Refusal, Request, check_shapes, shape_text
from converter_lite.formats.tensorflow.child.conversion import convert
from converter_lite.formats.tensorflow.child.nodes import node_of, nodes_of_functions, placeholder_shape, reachable
from converter_lite.formats.tensorflow.child.trust import refuse_acting

PLACEHOLDERS = ("Placeholder", "PlaceholderV2")

NO_RESULTS = ("NoOp", "Assert", "Const", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "Variable")
"""Operators whose results, if nobody reads them, are no outputs of a model."""

VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable")


def answer(path: Path, request: Request, folder: Path) -> Answer:
    """Convert or describe a frozen graph.

    Raises:
        Refusal: It is none, or it is not converted.
    """
    graph = read_graph(path)
    outputs = find_outputs(graph)
    nodes = reachable(graph, outputs)
    if request.task == "describe":
        return describe("TensorFlow graph", nodes, outputs)
    if not request.unsafe:
        refuse_acting([*nodes, *nodes_of_functions(graph)], storing=True)
    _refuse_variables(nodes)
    inputs = {f"{node.name}:0": node.name for node in nodes if node.op in PLACEHOLDERS}
    by_name = {node.name: node for node in nodes}
    shapes = {name: placeholder_shape(by_name[name]) for name in inputs.values()}
    check_shapes(shapes, request.shapes)
    return convert(graph, inputs, outputs, request.shapes, folder)


def read_graph(path: Path) -> Any:
    """The GraphDef in a file.

    Raises:
        Refusal: There is none.
    """
    graph = tf.compat.v1.GraphDef()
    try:
        graph.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise Refusal(
            "this is not a frozen graph (GraphDef), or it is damaged",
            "a SavedModel is given as its folder, a Keras model as .keras or .h5",
        ) from error
    if not any(node.op for node in graph.node):
        raise Refusal("the file holds no graph (GraphDef), or it is damaged", "write it with freeze_graph")
    names = [node.name for node in graph.node]
    if len(set(names)) < len(names):
        raise Refusal("the graph is damaged: two nodes have one name", "freeze it again")
    return graph


def find_outputs(graph: Any) -> dict[str, str]:
    """Tensors that no node reads -> the name of their node, with ``:1`` and so on behind the name for further results.

    Raises:
        Refusal: There is none.
    """
    read = {node_of(tensor) for node in graph.node for tensor in node.input}
    found: dict[str, str] = {}
    for node in graph.node:
        if node.name in read or node.op in NO_RESULTS:
            continue
        for number in range(_results(node)):
            found[f"{node.name}:{number}"] = node.name if number == 0 else f"{node.name}:{number}"
    if not found:
        raise Refusal(
            "the graph has no output: each result is read by another node, or there is none", "freeze it again"
        )
    return found


def _results(node: Any) -> int:
    """How many tensors a node gives."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(node.op)
    if definition is None:
        return 1
    count = 0
    for result in definition.output_arg:
        if result.number_attr:
            count += node.attr[result.number_attr].i
        elif result.type_list_attr:
            count += len(node.attr[result.type_list_attr].list.type)
        else:
            count += 1
    return count


def _refuse_variables(nodes: Iterable[Any]) -> None:
    for node in nodes:
        if node.op in VARIABLES:
            raise Refusal(
                f"variable {node.name} has no value in this file: the graph is not frozen",
                "freeze it (convert_variables_to_constants), or save a SavedModel and give its folder",
            )


def describe(kind: str, nodes: list[Any], outputs: Iterable[str]) -> Answer:
    """Inputs, outputs and nodes."""
    inputs = [["input", "type", "shape"]]
    for node in nodes:
        if node.op in PLACEHOLDERS:
            dtype = tf.dtypes.as_dtype(node.attr["dtype"].type).name
            inputs.append([node.name, dtype, shape_text(placeholder_shape(node))])
    rows = [["name", "operator", "inputs"], *([n.name, n.op, ", ".join(n.input)] for n in nodes if n.op != "Const")]
    constants = sum(node.op == "Const" for node in nodes)
    head = f"{kind}, {len(nodes) - constants} nodes, {constants} constants"
    return Answer(blocks=[head, inputs, [["output"], *([name.removesuffix(":0")] for name in outputs)], rows])
