"""Along which axis the runtime applies the per-channel parameters of a weight: the file does not say."""

from __future__ import annotations

import re

import numpy as np

from converter_lite.formats.mindspore_lite.container import MsModel, MsNode

_BY_OPERATOR = (1, 6, 0)
_BY_TRANSPOSED_CONVOLUTION = (1, 8, 0)
"""Versions that introduced the rules; a file without a proper version is read by the oldest ones."""


def parameter_axis(ms: MsModel, index: int) -> int:
    """Axis of a weight's channels, negative or positive."""
    version = _version(ms.version)
    for node in ms.nodes:
        if index in node.inputs:
            return _axis(ms, node, index, version)
    return 0


def _version(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", text)
    return tuple(int(part) for part in found.groups()) if found else (0, 0, 0)


def _axis(ms: MsModel, node: MsNode, index: int, version: tuple[int, ...]) -> int:
    place, attributes = node.inputs.index(index), node.attributes
    if node.op in ("MatMulFusion", "FullConnection"):
        turned = node.op == "FullConnection" or bool(attributes.get("transpose_b"))
        if version < _BY_OPERATOR:
            return 1 if place == 1 and not turned else 0
        if place == 0:
            return -1 if attributes.get("transpose_a") else -2
        return -2 if turned else -1
    if version < _BY_OPERATOR:
        return 0
    if node.op == "Conv2dTransposeFusion" and version >= _BY_TRANSPOSED_CONVOLUTION:
        group = attributes.get("group", 1)
        depthwise = attributes.get("in_channel") == group == attributes.get("out_channel")
        return 0 if depthwise else -1
    return _gather_axis(ms, node) if node.op == "Gather" else 0


def _gather_axis(ms: MsModel, node: MsNode) -> int:
    if len(node.inputs) < 3:
        return 0
    data = ms.tensors[node.inputs[2]].data
    raw = data.tobytes() if isinstance(data, np.ndarray) else bytes(data or b"")
    return int.from_bytes(raw[:4], "little", signed=True)
