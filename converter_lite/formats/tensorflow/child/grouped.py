"""Groups of convolutions: tf2onnx finds out how many there are in one and two dimensions, and writes 1 in three."""

from __future__ import annotations

from typing import Any


def state_groups(graph: Any) -> None:
    """Give each Conv of a graph of tf2onnx as many groups as its filters have channels less than what they read."""
    for node in graph.get_nodes():
        if node.type != "Conv" or node.get_attr_value("group", 1) != 1:
            continue
        channels, read = (_second(graph.get_shape(tensor)) for tensor in node.input[:2])
        if channels > read > 0:
            node.set_attr("group", channels // read)


def _second(shape: list[int] | None) -> int:
    """Size of the axis of channels; -1 where nothing is known of it."""
    return shape[1] if shape is not None and len(shape) > 1 else -1
