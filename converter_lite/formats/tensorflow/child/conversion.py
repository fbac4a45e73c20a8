"""A frozen graph to an ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import tensorflow as tf
from tf2onnx import tf_loader
from tf2onnx.optimizer import optimize_graph
from tf2onnx.tfonnx import process_tf_graph

from converter_lite.formats.child import MODEL, Answer, Refusal, WrongUsage
from converter_lite.formats.tensorflow.child.dropout import fix_keep_probabilities
from converter_lite.formats.tensorflow.child.fake_quantize import handlers, hold_constants
from converter_lite.formats.tensorflow.child.functions import (
    add_up_scattered,
    bound_segments,
    count_boundaries,
    drop_negative_segments,
    leave_out_negatives,
    round_quotients_down,
    spell_out_functions,
)
from converter_lite.formats.tensorflow.child.grouped import state_groups
from converter_lite.formats.tensorflow.child.nearest import gather_nearest
from converter_lite.formats.tensorflow.child.nodes import allow_inlining, in_order, placeholder_shape, pruned
from converter_lite.formats.tensorflow.child.numbering import order_hashes, renumber
from converter_lite.formats.tensorflow.child.resizes import (
    name_half_pixels,
    refuse_other_resizes,
    round_up_crops,
    state_sizes,
)
from converter_lite.formats.tensorflow.child.transposed import state_output_padding
from converter_lite.formats.tensorflow.child.zeros import drop_signs_of_zeros

OPSET = 17
"""Known to tf2onnx and to everything here."""

FIXED_KEEP = "input '{}' is the probability of a dropout: it is built in as 1, which is what inference feeds"

LOWERED = (
    "loops were lowered when the graph was frozen: freeze it with convert_variables_to_constants_v2(f, "
    "lower_control_flow=False), or give the SavedModel or Keras file"
)

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
        graph: GraphDef without variables; it is changed.
        names: Tensors that are inputs -> what they are called.
        outputs: The same of outputs.
        shapes: Sizes that the user gave, by what the input is called.
        folder: Where it goes.
        notes: What the user should know.

    Raises:
        Refusal: ONNX has no counterpart of an operator.
    """
    fixed = fix_keep_probabilities(graph.node, names)
    graph = pruned(graph, outputs)
    notes = (*notes, *(FIXED_KEEP.format(names[tensor]) for tensor in fixed))
    names = {tensor: name for tensor, name in names.items() if tensor not in fixed}
    if not names:
        raise Refusal(
            "the model has no input", "save it with its inputs (a Placeholder, or the arguments of a signature)"
        )
    tensors = {name: tensor for tensor, name in names.items()}
    _require_ranks(graph, names, shapes)
    drop_signs_of_zeros(graph)
    spell_out_functions(graph)
    round_quotients_down(graph)
    add_up_scattered(graph)
    count_boundaries(graph)
    leave_out_negatives(graph)
    drop_negative_segments(graph)
    bound_segments(graph)
    held = hold_constants(graph)
    fed = [*names, *(f"{name}:0" for name in held)]
    allow_inlining(graph)
    order_hashes()
    with tf.device("/cpu:0"):
        with tf.Graph().as_default() as given:
            tf.import_graph_def(graph, name="")
            gather_nearest(graph, given.get_operations())
            graph = in_order(tf_loader.tf_optimize(fed, list(outputs), graph))
        with tf.Graph().as_default() as imported:
            tf.import_graph_def(graph, name="")
            refuse_other_resizes(imported.get_operations(), tf.get_static_value)
            made = process_tf_graph(
                imported,
                continue_on_error=True,
                opset=OPSET,
                custom_op_handlers=handlers(held),
                input_names=fed,
                output_names=list(outputs),
                shape_override={tensors[name]: list(shape) for name, shape in shapes.items() if name in tensors},
                tensors_to_rename={**names, **outputs},
            )
            state_sizes(made)
            name_half_pixels(made)
            state_output_padding(made)
            state_groups(made)
            model = optimize_graph(made).make_model("tensorflow")
    _refuse_unknown(model)
    round_up_crops(_nodes(model.graph))
    renumber(model)
    model.producer_name, model.producer_version = "tf2onnx", ""
    if model.ByteSize() < onnx.checker.MAXIMUM_PROTOBUF:
        onnx.save(model, str(folder / MODEL))
    else:
        onnx.save(model, str(folder / MODEL), save_as_external_data=True, location="weights")
    return Answer(notes=list(notes))


def _require_ranks(graph: Any, names: Mapping[str, str], shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse an input that nobody gave a shape: tf2onnx would take it for a single number.

    Raises:
        WrongUsage: There is one.
    """
    for node in graph.node:
        name = names.get(f"{node.name}:0")
        if name is not None and name not in shapes and placeholder_shape(node) is None:
            raise WrongUsage(
                f"the model does not say the shape of input '{name}'", f"give it: --inputShape={name}:1,..."
            )


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
        hint = "export the part of the model without these operators, or replace them"
        if any(node.op_type.startswith("TensorList") for node in unknown):
            hint = LOWERED
        raise Refusal(f"ONNX has no counterpart of {named}{more}", hint)


def _nodes(graph: Any) -> list[Any]:
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                found += _nodes(inner)
    return found
