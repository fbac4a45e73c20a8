"""Operators between convolutions, whose layouts and fusions in a runtime they have to bear."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from converter_lite import graph as g
from tests.support import normal


def behind_convolutions(model: ir.Model) -> ir.Model | None:
    """A copy of which every picture that is read comes from a convolution; ``None`` if it reads none."""
    made = model.clone()
    pictures = [value for value in made.graph.inputs if _is_picture(value)]
    for value in pictures:
        mixed = _mixed(made.graph, value)
        for use in list(value.uses()):
            if use.node is not mixed.producer():
                use.node.replace_input_with(use.idx, mixed)
        node = mixed.producer()
        assert node is not None
        made.graph.insert_before(made.graph[0], node)
    return made if pictures else None


def before_convolutions(model: ir.Model) -> ir.Model | None:
    """A copy of which a convolution reads every picture that was given; ``None`` if it gives none."""
    made, found = model.clone(), False
    for place, value in enumerate(made.graph.outputs):
        if _is_picture(value) and value.producer() is not None:
            made.graph.outputs[place] = mixed = _mixed(made.graph, value)
            node = mixed.producer()
            assert node is not None
            made.graph.append(node)
            found = True
    return made if found else None


def _is_picture(value: ir.Value) -> bool:
    size = g.static_shape(value)
    return value.dtype is ir.DataType.FLOAT and size is not None and len(size) == 4 and 0 not in size


def _mixed(graph: ir.Graph, value: ir.Value) -> ir.Value:
    """What a convolution of one element, which has to be put into the graph, makes of a picture: positive numbers stay so."""
    assert value.shape is not None
    channels, name = int(value.shape[1]), f"{value.name}_mixed"  # type: ignore[arg-type]
    weights = np.abs(normal(channels, channels, 1, 1)) / channels
    stored = g.add_initializer(graph, f"{name}_weights", weights.astype(np.float32))
    node = ir.node("Conv", [value, stored], name=name)
    node.outputs[0].name, node.outputs[0].shape, node.outputs[0].dtype = name, value.shape, value.dtype
    return node.outputs[0]
