"""Graphs compared without the names of values between operators, which files may not have."""

from __future__ import annotations

import hashlib

import onnx_ir as ir


def signature(model: ir.Model) -> list[object]:
    """Operators with their attributes, connections, constants by content, inputs by name; then what the outputs are."""
    places: dict[ir.Value | None, object] = {value: ("input", value.name) for value in model.graph.inputs}
    places[None] = None

    def place(value: ir.Value | None) -> object:
        if value in places or value is None or value.const_value is None:
            return places[value]
        array = value.const_value.numpy()
        return (str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest())

    found: list[object] = []
    for number, node in enumerate(model.graph):
        attributes = sorted((name, str(attribute.value)) for name, attribute in node.attributes.items())
        found.append((node.op_type, [place(value) for value in node.inputs], attributes))
        places.update({value: ("node", number, index) for index, value in enumerate(node.outputs)})
    return [*found, [place(value) for value in model.graph.outputs]]
