"""The content of a ``.prototxt`` or ``.caffemodel`` file, as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from converter_lite.formats.base import Block
from converter_lite.formats.caffe.importer.table import KINDS
from converter_lite.formats.caffe.network import Layer, Network, read_network
from converter_lite.formats.caffe.source import WEIGHT_SUFFIX
from converter_lite.formats.caffe.text import Message
from converter_lite.formats.caffe.wire import Blob, Weights


def describe(path: Path, *, confined: bool) -> Iterator[Block]:
    """Of a description: inputs and layers, with their weights if the file is beside it. Of a weight file: its blobs.

    Raises:
        ModelError: The file is damaged.
    """
    del confined
    data = path.read_bytes()
    if path.suffix == WEIGHT_SUFFIX:
        weights = Weights(data, where=str(path))
        yield f"Caffe weights, {len(weights.layers)} layers with blobs, {len(data):,} bytes"
        yield _blobs(weights)
        return
    network = read_network(data, where=str(path))
    beside = path.with_suffix(WEIGHT_SUFFIX)
    stored = Weights(beside.read_bytes(), where=str(beside)) if beside.is_file() else None
    with_weights = f", weights in {beside.name}" if stored is not None else f", without {beside.name}"
    yield f"Caffe network {network.name!r}, {len(network.layers)} layers in the TEST phase{with_weights}"
    yield _inputs(network)
    yield _layers(network, stored)


def _inputs(network: Network) -> Block:
    return [["input", "shape"], *([name, _shape(shape) or "?"] for name, shape in network.inputs)]


def _layers(network: Network, weights: Weights | None) -> Block:
    rows = [["line", "name", "type", "bottoms", "tops", "weights", "parameters"]]
    for layer in network.layers:
        blobs = weights.blobs(layer.name) if weights is not None else []
        shapes = ", ".join(_shape(blob.shape) or "1" for blob in blobs)
        kind = layer.type if layer.type in KINDS else f"{layer.type} (refused)"
        ends = ", ".join(layer.bottoms), ", ".join(layer.tops)
        rows.append([str(layer.message.line), layer.name, kind, *ends, shapes, _parameters(layer)])
    return rows


def _parameters(layer: Layer) -> str:
    """Fields of all groups that a layer has, but for those of the training."""
    groups = {name: values for name, values in layer.message.fields.items() if name.endswith("_param")}
    return " ".join(_words(values[-1]) for values in groups.values() if isinstance(values[-1], Message))


def _words(message: Message) -> str:
    return " ".join(
        f"{name}={','.join(v.lstrip(chr(34)) if isinstance(v, str) else '{' + _words(v) + '}' for v in values)}"
        for name, values in message.fields.items()
        if not name.endswith("filler")
    )


def _blobs(weights: Weights) -> Block:
    rows = [["layer", "blob", "type", "shape", "bytes"]]
    for name in weights.layers:
        rows += [_row(name, index, blob) for index, blob in enumerate(weights.blobs(name))]
    return rows


def _row(layer: str, index: int, blob: Blob) -> list[str]:
    return [layer, str(index), str(blob.data.dtype), _shape(blob.shape) or "1", str(blob.data.nbytes)]


def _shape(shape: tuple[int, ...] | list[int]) -> str:
    return "x".join(map(str, shape))
