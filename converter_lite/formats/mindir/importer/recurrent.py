"""The LSTM; other recurrent networks are unrolled into their operators when they are exported."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from converter_lite.errors import ModelError
from converter_lite.formats.mindir.importer.folding import folded
from converter_lite.formats.mindir.importer.step import Kind, Step
from converter_lite.formats.mindir.program import Unknown

GATES = (0, 3, 1, 2)
"""Input, output, forget and cell gate in MindSpore's order: input, forget, cell, output."""


def _lstm(step: Step) -> None:
    """One layer in one direction: that is how MindSpore writes several of them on a CPU.

    Its weights are one tensor: input weights (4H, I), recurrent weights (4H, H), and the sum of both biases (4H).
    """
    if step.integer("num_layers", 1) != 1 or step.flag("bidirectional", False) or step.integer("proj_size", 0):
        raise ModelError(
            "several layers, directions or a projection in one operator, whose weights other libraries order",
            hint="export the model with device_target CPU, which writes one operator for each layer and direction",
        )
    size, width, has_bias = step.integer("hidden_size"), step.integer("input_size"), step.flag("has_bias", True)
    numbers = folded(step.tensor("weights"))
    if numbers is None:
        raise ModelError("its weights are known at run time only")
    shapes = [(4 * size, width), (4 * size, size), *([(4 * size,)] if has_bias else [])]
    if size < 1 or width < 1 or numbers.size != sum(math.prod(shape) for shape in shapes):
        raise ModelError(f"{numbers.size} weights for {width} inputs and {size} hidden numbers")
    parts, start = list[NDArray[np.float32]](), 0
    for shape in shapes:
        end = start + math.prod(shape)
        parts.append(_ordered(numbers.reshape(-1)[start:end].reshape(shape)))
        start = end
    value = step.tensor("x")
    weights = [step.constant(name, part[None], part.dtype) for name, part in zip(("W", "R"), parts, strict=False)]
    bias = (
        step.constant("B", np.concatenate([parts[2], np.zeros_like(parts[2])])[None], parts[2].dtype)
        if has_bias
        else None
    )
    states = step.tensor("h"), step.tensor("c")
    whole, last, cell = step.emit_many("LSTM", [value, *weights, bias, None, *states], 3, hidden_size=size)
    sequence = step.emit("Squeeze", whole, step.ints("direction", [1]))
    rest = Unknown("what an LSTM keeps for its training")
    step.give((sequence, last, cell, rest, rest))


def _ordered(array: NDArray[np.float32]) -> NDArray[np.float32]:
    """The four gates in ONNX's order."""
    gates = np.split(array, 4)
    return np.concatenate([gates[gate] for gate in GATES])


KINDS: dict[str, Kind] = {
    "LSTM": Kind(
        _lstm, "x h c weights", "LSTM, Squeeze", "hidden_size input_size has_bias num_layers bidirectional proj_size"
    ),
}
