"""A whole network as a graph."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from converter_lite.errors import MISFITS, ModelError, UsageError, did_you_mean, nearest
from converter_lite.formats.caffe.importer.context import Importer, Kind, Step
from converter_lite.formats.caffe.importer.shape import is_idle
from converter_lite.formats.caffe.importer.table import KINDS, REFUSED
from converter_lite.formats.caffe.network import Layer, Network, naming

_log = logging.getLogger(__name__)

SHOWN = 5
"""Layers that a message names."""

OWN_FIELDS = (
    *("name", "type", "bottom", "top", "phase", "loss_weight", "param", "blobs", "propagate_down"),
    *("include", "exclude", "blobs_lr", "weight_decay", "blob_share_mode"),
)
"""Fields of every layer, in the present format and in the old one."""

UNUSED = (
    *("accuracy", "contrastive_loss", "data", "dropout", "dummy_data", "hdf5_data", "hdf5_output", "hinge_loss"),
    *("image_data", "infogain_loss", "loss", "memory_data", "python", "recurrent", "spp", "transform", "window_data"),
)
"""Caffe's parameters (``*_param``) of layers that compute nothing here, or cannot be translated."""


def to_model(network: Network, *, input_shapes: Mapping[str, Sequence[int]] | None = None) -> ir.Model:
    """The network as ONNX (opset 20).

    Args:
        network: With its weights.
        input_shapes: Shapes of inputs that replace the described ones.

    Raises:
        ModelError: A layer cannot be translated; it is named.
        UsageError: A shape is for an input that there is not, or one is missing.
    """
    shapes = dict(input_shapes or {})
    _check_kinds(network)
    network = replace(network, layers=[layer for layer in network.layers if not is_idle(layer)])
    _warn_of_fields(network)
    importer = Importer(network=network)
    with naming(network.where):
        for name, declared in network.inputs:
            importer.add_input(name, _input_shape(name, shapes.pop(name, None), declared, network.where))
        if shapes:
            unknown, known = next(iter(shapes)), [name for name, _ in network.inputs]
            raise UsageError(
                f"the model has no input '{unknown}'", where="inputShape", hint=f"its inputs are {', '.join(known)}"
            )
    for layer in network.layers:
        with naming(f"{network.where} {layer.place}".strip()):
            _translate(importer, layer)
    with naming(network.where):
        return importer.model()


def _check_kinds(network: Network) -> None:
    """Refuse what cannot be translated before any work: all layers of a kind are named."""
    unknown = [layer for layer in network.layers if layer.type not in KINDS]
    if unknown:
        first = unknown[0]
        reason, hint = REFUSED.get(first.type, ("", ""))
        if not reason:
            match = nearest(first.type, KINDS)
            reason = f"no layer type of Caffe or of its forks that is known here{did_you_mean(first.type, KINDS)}"
            hint = "" if match else "cut the network before it, or write it as layers that are known"
        others = [f"'{layer.name}' ({layer.type})" for layer in unknown[1 : SHOWN + 1]]
        more = f"; neither can {', '.join(others)}{' and others' * (len(unknown) > SHOWN + 1)}" if others else ""
        raise ModelError(
            f"this layer cannot be translated: {reason}{more}",
            where=f"{network.where} {first.place}".strip(),
            hint=hint,
        )
    bare = [layer for layer in network.layers if _needs_weights(KINDS[layer.type], layer) and not layer.blobs]
    if bare:
        names = ", ".join(f"'{layer.name}'" for layer in bare[:SHOWN])
        raise ModelError(
            f"the weight file has nothing for {names}{f' and {len(bare) - SHOWN} others' * (len(bare) > SHOWN)}",
            where=network.where,
            hint="weights belong to layers by name: the two files are of different networks",
        )


def _needs_weights(kind: Kind, layer: Layer) -> bool:
    return kind.weighted and not (layer.type in ("Scale", "Bias") and len(layer.bottoms) > 1)


def _input_shape(name: str, given: Sequence[int] | None, declared: Sequence[int], where: str) -> Sequence[int]:
    if given is None and not declared:
        raise UsageError(
            f"the description gives no shape for input '{name}'", where=where, hint=f"--inputShape={name}:1,3,224,224"
        )
    if given is not None and declared and len(given) != len(declared):
        raise UsageError(
            f"input '{name}' has {len(declared)} dimensions {list(declared)}, not {len(given)}", where="inputShape"
        )
    return declared if given is None else given


def _translate(importer: Importer, layer: Layer) -> None:
    """Add the nodes of one layer.

    Raises:
        ModelError: Its parameters, bottoms or weights make no sense.
    """
    kind = KINDS[layer.type]
    for found, (least, most), what in ((layer.bottoms, kind.bottoms, "bottom"), (layer.tops, kind.tops, "top")):
        if not least <= len(found) <= most:
            wanted = f"{least}" if least == most else f"{least} or more" if most > 3 else f"{least} to {most}"
            raise ModelError(f"it has {len(found)} {what}{'s' * (len(found) != 1)}, and not {wanted}")
    parameters = layer.message.message(kind.message) if kind.message else layer.message
    if kind.message:
        _check_fields(parameters.fields, kind)
    importer.advance(layer)
    importer.blobs_used = 0
    try:
        with np.errstate(all="ignore"):  # weights of a damaged file may be any numbers
            kind.translate(Step(importer, layer, parameters))
    except MISFITS as error:
        raise ModelError(f"its parameters or inputs make no sense: {error}") from None
    if len(layer.blobs) != importer.blobs_used:
        raise ModelError(
            f"the weight file has {len(layer.blobs)} blobs for it, and its parameters ask for {importer.blobs_used}",
            hint="the description and the weights are of different networks",
        )


def _warn_of_fields(network: Network) -> None:
    """Name fields beside the layers' own parameters that Caffe does not have: a fork's, or misspelt."""
    known = {*OWN_FIELDS, *(f"{name}_param" for name in UNUSED), *(kind.message for kind in KINDS.values())}
    unread: Counter[str] = Counter()
    first: dict[str, Layer] = {}
    for layer in network.layers:
        kind = KINDS[layer.type]
        for name in layer.message.fields.keys() - known - (set() if kind.message else {*kind.fields.split()}):
            unread[name] += 1
            first.setdefault(name, layer)
    for name, count in sorted(unread.items()):
        others = f" (and that of {count - 1} more)" if count > 1 else ""
        message = KINDS[first[name].type].message
        near = did_you_mean(name, [message]) if message else ""
        _log.warning("%s: its field %s%s is not read%s", first[name].place, name, others, near)


def _check_fields(given: Mapping[str, object], kind: Kind) -> None:
    """Refuse fields that may change what a layer computes, and that only a fork knows."""
    known = kind.fields.split()
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ModelError(
            f"{kind.message} has a field that is not known here: {unknown[0]}{did_you_mean(unknown[0], known)}",
            hint="remove it if the layer computes the same without it",
        )
