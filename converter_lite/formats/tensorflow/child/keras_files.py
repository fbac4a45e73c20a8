"""Keras models in one file: ``.keras`` and ``.h5``."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import tensorflow as tf
from tf2onnx import tf_loader

from converter_lite.formats.child import Answer, Refusal, Request, check_shapes, last_line, shape_text
from converter_lite.formats.tensorflow.child.conversion import convert
from converter_lite.formats.tensorflow.child.trust import refuse_code

CONFIG, WEIGHTS = "config.json", "model.weights.h5"

LARGEST_CONFIG = 1 << 28
"""Bytes of a description."""

DAMAGED = "this is not a Keras model, or it is damaged"


def answer(path: Path, request: Request, folder: Path) -> Answer:
    """Convert or describe a Keras model.

    Raises:
        Refusal: It is none, or it is not converted.
    """
    config = read_config(path)
    if request.task == "describe":
        return _describe(path, config)
    if not request.unsafe:
        refuse_code(config)
    model = _load(path, unsafe=request.unsafe)
    inputs, names = _inputs(model), _output_names(model)
    shapes = {name: list(tensor.shape) for name, tensor in inputs.items()}
    check_shapes(shapes, request.shapes)
    fixed = {name: request.shapes.get(name, shape) for name, shape in shapes.items()}
    function = _function(model, {n: tf.TensorSpec(fixed[n], t.dtype, name=n) for n, t in inputs.items()})
    ins = [tensor.name for tensor in function.inputs if tensor.dtype != tf.resource][: len(inputs)]
    outs = [tensor.name for tensor in function.outputs]
    graph = tf_loader.from_function(function, ins, outs)
    return convert(
        graph, dict(zip(ins, inputs, strict=True)), dict(zip(outs, names, strict=True)), request.shapes, folder
    )


def read_config(path: Path) -> Any:
    """The description of the model, as plain data; nothing is made of it.

    Raises:
        Refusal: There is none, or the weights would come from other files.
    """
    try:
        if zipfile.is_zipfile(path):
            return _config_of_zip(path)
        with h5py.File(path, "r") as file:
            _refuse_foreign(file)
            text = file.attrs.get("model_config")
            if text is None:
                raise Refusal(
                    "the file holds weights without the network that they belong to",
                    "save the whole model: model.save('model.keras')",
                )
            return json.loads(text)
    except (OSError, zipfile.BadZipFile, ValueError, KeyError, TypeError, EOFError, RuntimeError) as error:
        raise Refusal(f"{DAMAGED}: {last_line(str(error))}", "save it again: model.save('model.keras')") from error


def _config_of_zip(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        if CONFIG not in archive.namelist():
            raise Refusal(
                f"the archive has no {CONFIG}: it is not a Keras model", "save it with model.save('model.keras')"
            )
        if archive.getinfo(CONFIG).file_size > LARGEST_CONFIG:
            raise Refusal(f"{CONFIG} is larger than {LARGEST_CONFIG >> 20} MiB", "save the model again")
        if WEIGHTS in archive.namelist():
            with h5py.File(io.BytesIO(archive.read(WEIGHTS)), "r") as file:
                _refuse_foreign(file)
        return json.loads(archive.read(CONFIG))


def _refuse_foreign(group: Any) -> None:
    """Refuse weights that are, or are links to, data in other files.

    Raises:
        Refusal: There are some.
    """
    pending = [group]
    while pending:
        folder = pending.pop()
        for name in folder:
            link = folder.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                continue
            if isinstance(link, h5py.ExternalLink):
                raise Refusal(f"{folder.name}/{name} lies in another file", "save the model in one file")
            member = folder[name]
            if isinstance(member, h5py.Group):
                pending.append(member)
            elif isinstance(member, h5py.Dataset) and (member.external or member.is_virtual):
                raise Refusal(f"{member.name} lies in another file", "save the model in one file")


def _load(path: Path, *, unsafe: bool) -> Any:
    import keras

    return keras.saving.load_model(str(path), compile=False, safe_mode=not unsafe)


def _inputs(model: Any) -> dict[str, Any]:
    """Inputs by the names of their tensors.

    Raises:
        Refusal: The model has none yet.
    """
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise Refusal(
            "the model does not say what it takes and gives (a subclass of Model, or never called)",
            "save it as a SavedModel (model.export) and give its folder",
        )
    return {str(tensor.name): tensor for tensor in tf.nest.flatten(model.inputs)}


def _output_names(model: Any) -> list[str]:
    """Names of the layers that give the outputs; with a number behind them where a layer gives several."""
    names: list[str] = []
    for index, tensor in enumerate(tf.nest.flatten(model.outputs)):
        history = getattr(tensor, "_keras_history", None)
        name = history.operation.name if history is not None else f"output_{index}"
        names.append(name if name not in names else f"{name}_{index}")
    return names


def _function(model: Any, specs: dict[str, Any]) -> Any:
    """The model as a graph that takes the inputs in their order."""
    structure = model._inputs_struct if hasattr(model, "_inputs_struct") else list(specs.values())

    @tf.function(input_signature=list(specs.values()))
    def call(*arguments: Any) -> list[Any]:
        fed = tf.nest.pack_sequence_as(structure, list(arguments))
        return [tf.identity(tensor) for tensor in tf.nest.flatten(model(fed, training=False))]

    return call.get_concrete_function()


def _describe(path: Path, config: Any) -> Answer:
    content = config.get("config", {}) if isinstance(config, dict) else {}
    layers = content.get("layers", []) if isinstance(content, dict) else []
    rows = [["name", "layer", "shape of the input"]]
    for layer in layers if isinstance(layers, list) else []:
        own = layer.get("config", {}) if isinstance(layer, dict) else {}
        shape = own.get("batch_shape", own.get("batch_input_shape"))
        text = (
            shape_text([size if isinstance(size, int) else None for size in shape]) if isinstance(shape, list) else ""
        )
        rows.append([str(own.get("name", layer.get("name", ""))), str(layer.get("class_name", "")), text])
    kind = config.get("class_name", "") if isinstance(config, dict) else ""
    return Answer(blocks=[f"Keras model in {path.suffix}, {kind} of {len(rows) - 1} layers", rows])
