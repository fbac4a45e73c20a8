"""Transposed convolutions whose results are longer than their windows reach: tf2onnx writes negative pads, half of them first."""

from __future__ import annotations

from typing import Any


def state_output_padding(graph: Any) -> None:
    """Give each ConvTranspose of a graph of tf2onnx an ``output_padding`` instead of pads whose sum is negative.

    TensorFlow adds such elements behind the last window, whatever the padding is called.
    """
    for node in graph.get_nodes():
        pads = list(node.get_attr("pads").ints) if node.type == "ConvTranspose" and node.get_attr("pads") else []
        half = len(pads) // 2
        missing = [max(0, -begin - end) for begin, end in zip(pads[:half], pads[half:], strict=True)]
        if any(missing):
            node.set_attr("pads", [0 if missing[place % half] else pad for place, pad in enumerate(pads)])
            node.set_attr("output_padding", missing)
