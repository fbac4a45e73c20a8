"""A Caffe network as the source of a conversion."""

from __future__ import annotations

from pathlib import Path

from converter_lite.errors import ModelError, UsageError
from converter_lite.formats.caffe.importer.graph import to_model
from converter_lite.formats.caffe.importer.table import KINDS
from converter_lite.formats.caffe.network import Network, read_network
from converter_lite.formats.caffe.wire import Weights
from converter_lite.formats.source import ModelFiles, Source

WEIGHT_SUFFIX = ".caffemodel"


def read_source(files: ModelFiles) -> Source:
    """Read a network and its weights.

    Raises:
        ConverterError: One of them cannot be read, they do not belong together, or the shapes do not fit.
    """
    where = str(files.path)
    description = files.content()
    network = read_network(description, where=where)
    size = len(description)
    if has_weights(network):
        path = find_weights(files.path, files.weights)
        size += path.stat().st_size
        add_weights(network, path)
    return Source(to_model(network, input_shapes=files.input_shapes), size, where)


def has_weights(network: Network) -> bool:
    """Whether any of its layers has weights."""
    return any(layer.type in KINDS and KINDS[layer.type].weighted for layer in network.layers)


def find_weights(description: Path, given: Path | None) -> Path:
    """The weight file, by default the one with the name of the description beside it.

    Raises:
        UsageError: It does not exist.
    """
    if given is not None:
        if not given.is_file():
            raise UsageError("the weight file does not exist", where=f"--weightFile={given}")
        return given
    beside = description.with_suffix(WEIGHT_SUFFIX)
    if beside.is_file():
        return beside
    others = sorted(path.name for path in description.parent.glob(f"*{WEIGHT_SUFFIX}"))
    raise UsageError(
        f"a Caffe model has its weights in a second file, and {beside.name} does not exist",
        where=str(description),
        hint=f"--weightFile={description.with_name(others[0])}?" if len(others) == 1 else "give it with --weightFile",
    )


def add_weights(network: Network, path: Path) -> None:
    """Give the layers of a network their weights; of several layers with one name the first gets them, as in Caffe.

    Raises:
        ModelError: The file cannot be read, or it is damaged.
    """
    try:
        weights = Weights(path.read_bytes(), where=str(path))
    except OSError as error:
        raise ModelError(f"the weight file cannot be read: {error.strerror}", where=str(path)) from error
    served: set[str] = set()
    for layer in network.layers:
        if layer.name not in served:
            layer.blobs = weights.blobs(layer.name)
            served.add(layer.name)
