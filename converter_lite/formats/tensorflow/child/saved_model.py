"""SavedModels: a folder with functions and their variables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import saved_model_pb2
from tf2onnx import tf_loader

from converter_lite.formats.child import Answer, Refusal, Request, check_shapes, shape_text
from converter_lite.formats.tensorflow.child.conversion import convert
from converter_lite.formats.tensorflow.child.nodes import nodes_of_functions, reachable
from converter_lite.formats.tensorflow.child.trust import refuse_acting

FILE = "saved_model.pb"

SERVE = "serve"
DEFAULT_SIGNATURE = "serving_default"

INITIALIZERS = ("__saved_model_init_op", "__saved_model_main_op")
"""Signatures of what loading runs, in the newer form."""

INIT_COLLECTIONS = ("saved_model_main_op", "legacy_init_op")
"""The same in the older one."""


def answer(path: Path, request: Request, folder: Path) -> Answer:
    """Convert or describe a SavedModel.

    Raises:
        Refusal: It is none, or it is not converted.
    """
    saved = _saved_model(path)
    meta = _meta_graph(saved)
    signature = _signature(meta)
    definition = meta.signature_def[signature]
    if request.task == "describe":
        return _describe(meta)
    if not request.unsafe:
        _refuse_acting(meta)
    shapes = {name: _shape(info) for name, info in definition.inputs.items()}
    check_shapes(shapes, request.shapes)
    graph, inputs, outputs, tables, names = tf_loader.from_saved_model(
        str(_without_slots(path, saved, folder)),
        None,
        None,
        tag=list(meta.meta_info_def.tags),
        signatures=[signature],
        return_initialized_tables=True,
        return_tensors_to_rename=True,
    )
    if tables:
        raise Refusal("the model looks words up in a table", "export the part behind the table")
    others = len(_signatures(meta)) - 1
    notes = [f"signature {signature} is converted, {others} other(s) are not"] if others else []
    named = {tensor: names.get(tensor, tensor.removesuffix(":0")) for tensor in (*inputs, *outputs)}
    return convert(graph, {i: named[i] for i in inputs}, {o: named[o] for o in outputs}, request.shapes, folder, notes)


def _saved_model(path: Path) -> Any:
    """The graphs and objects of the folder.

    Raises:
        Refusal: The file is damaged.
    """
    saved = saved_model_pb2.SavedModel()
    try:
        saved.ParseFromString((path / FILE).read_bytes())
    except DecodeError as error:
        raise Refusal(f"{FILE} is damaged", "save the model again") from error
    return saved


def _meta_graph(saved: Any) -> Any:
    """The graph that is served.

    Raises:
        Refusal: There is none.
    """
    served = [meta for meta in saved.meta_graphs if SERVE in meta.meta_info_def.tags]
    if not served:
        tags = "; ".join(",".join(meta.meta_info_def.tags) for meta in saved.meta_graphs) or "none"
        raise Refusal(f"no graph of the SavedModel has the tag {SERVE} (tags: {tags})", "save it for serving")
    return min(served, key=lambda meta: len(meta.meta_info_def.tags))


def _without_slots(path: Path, saved: Any, folder: Path) -> Path:
    """The folder, or a copy in which variables of optimizers are plain ones: newer releases of Keras lack the older ones."""
    optimizers = [n for meta in saved.meta_graphs for n in meta.object_graph_def.nodes if n.slot_variables]
    if not optimizers:
        return path
    for node in optimizers:
        del node.slot_variables[:]
    copy = folder / "without_slots"
    copy.mkdir()
    for entry in path.iterdir():
        if entry.name != FILE:
            (copy / entry.name).symlink_to(entry.resolve(), target_is_directory=entry.is_dir())
    (copy / FILE).write_bytes(saved.SerializeToString())
    return copy


def _signatures(meta: Any) -> list[str]:
    return sorted(name for name, d in meta.signature_def.items() if not name.startswith("__") and d.outputs)


def _signature(meta: Any) -> str:
    """The one that is served, or the only one.

    Raises:
        Refusal: It cannot be told.
    """
    names = _signatures(meta)
    if DEFAULT_SIGNATURE in names:
        return DEFAULT_SIGNATURE
    if len(names) != 1:
        raise Refusal(
            f"the SavedModel has {len(names)} signatures ({', '.join(names) or 'none'}), none called {DEFAULT_SIGNATURE}",
            f"save it with signatures={{'{DEFAULT_SIGNATURE}': function}}",
        )
    return names[0]


def _refuse_acting(meta: Any) -> None:
    """Refuse nodes that do more than compute; those that save variables only where loading would run them.

    Raises:
        Refusal: There is such a node.
    """
    functions = nodes_of_functions(meta.graph_def)
    refuse_acting([*meta.graph_def.node, *functions], storing=False)
    if meta.HasField(
        "object_graph_def"
    ):  # since TensorFlow 2: nothing but resources is initialized by functions of the file
        if any(node.HasField("resource") for node in meta.object_graph_def.nodes):
            raise Refusal(
                "the model has tables or other resources, which functions of the file initialize",
                "export the part behind them",
            )
        return
    run = reachable(meta.graph_def, _run_by_loading(meta))
    calls = any(attr.HasField("func") for node in run for attr in node.attr.values())
    refuse_acting([*run, *(functions if calls else ())], storing=True)


def _run_by_loading(meta: Any) -> Iterator[str]:
    for name in INITIALIZERS:
        if name in meta.signature_def:
            yield from (info.name for info in meta.signature_def[name].outputs.values())
    for name in INIT_COLLECTIONS:
        if name in meta.collection_def:
            yield from meta.collection_def[name].node_list.value
    yield meta.saver_def.restore_op_name


def _shape(info: Any) -> list[int | None] | None:
    if info.tensor_shape.unknown_rank:
        return None
    return [None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim]


def _describe(meta: Any) -> Answer:
    inside = nodes_of_functions(meta.graph_def)
    nodes = [*meta.graph_def.node, *inside]
    made_by = (
        f", saved by TensorFlow {meta.meta_info_def.tensorflow_version}"
        if meta.meta_info_def.tensorflow_version
        else ""
    )
    rows = [["signature", "", "name", "type", "shape"]]
    for name in _signatures(meta):
        definition = meta.signature_def[name]
        for kind, tensors in (("input", definition.inputs), ("output", definition.outputs)):
            for label in sorted(tensors):
                info = tensors[label]
                rows.append([name, kind, label, tf.dtypes.as_dtype(info.dtype).name, shape_text(_shape(info))])
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    operators = [["operator", "nodes"], *([op, str(count)] for op, count in sorted(counts.items()))]
    head = f"SavedModel, {len(nodes)} nodes, {len(inside)} of them in functions{made_by}"
    return Answer(blocks=[head, rows, operators])
