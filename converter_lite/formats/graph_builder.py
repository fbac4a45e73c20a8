"""Making the graph of a float model node by node: names, constants, types and shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.inference import OPSET, Inference

MOST_ELEMENTS = (1 << 31) - 1
"""Elements of a tensor: sizes are counted in 32 bits."""

FILLED_LIMIT = 1 << 24
"""Elements of all constants that a model asks for and no file holds."""


@dataclass(slots=True)
class GraphBuilder:
    """The graph so far.

    Attributes:
        nodes: Nodes so far.
        inputs: Inputs of the graph.
        filled_left: Elements that further constants may have which are in no file.
    """

    nodes: list[ir.Node] = field(default_factory=list)
    inputs: list[ir.Value] = field(default_factory=list)
    filled_left: int = FILLED_LIMIT
    _taken: dict[str, int] = field(default_factory=dict)
    _labels: dict[str, int] = field(default_factory=dict)
    _inference: Inference = field(default_factory=Inference)

    def fresh(self, hint: str) -> str:
        """A name that no value has."""
        return _fresh(hint or "value", self._taken)

    def label(self, hint: str) -> str:
        """A name that no node has."""
        return _fresh(hint, self._labels)

    def constant(self, hint: str, array: NDArray[Any]) -> ir.Value:
        """A constant, as it is: weights stay views of the file."""
        name = self.fresh(hint)
        tensor = ir.Tensor(np.asarray(array, order="C"), name=name)
        return ir.Value(name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)

    def take(self, elements: int) -> None:
        """Allow for constants that are in no file.

        Raises:
            ModelError: All of them together have too many elements.
        """
        self.filled_left -= elements
        if self.filled_left < 0:
            raise ModelError(
                f"{elements} numbers that are in no file: more than a network has", hint="check the sizes of the inputs"
            )

    def node(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        names: Sequence[str],
        label: str,
        attributes: Mapping[str, Any],
    ) -> list[ir.Value]:
        """Append a node whose outputs have these names; returns them with their types and shapes.

        Raises:
            ModelError: The inputs do not fit the operator.
        """
        outputs = [ir.Value(name=name) for name in names]
        given = [ir.convenience.convert_attribute(key, value) for key, value in attributes.items() if value is not None]
        made = ir.Node("", op_type, list(inputs), given, outputs=outputs, name=label)
        self._inference.infer(made)
        for value in outputs:
            check_size(value)
        self.nodes.append(made)
        return outputs

    def finished(self, results: Sequence[ir.Value], title: str) -> ir.Model:
        """The model of the nodes so far, with the constants that they read."""
        read = dict.fromkeys(value for node in self.nodes for value in node.inputs if value is not None)
        graph = ir.Graph(
            self.inputs,
            results,
            nodes=self.nodes,
            initializers=[value for value in read if value.const_value is not None],
            opset_imports={"": OPSET},
            name=title,
        )
        return ir.Model(graph, ir_version=9)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a value.

    Raises:
        ModelError: It is known at run time only.
    """
    shape = g.static_shape(value)
    if shape is None:
        raise ModelError(f"the shape of '{value.name}' is known at run time only")
    return shape


def rank_of(value: ir.Value) -> int:
    """Number of dimensions of a value.

    Raises:
        ModelError: It is known at run time only.
    """
    if value.shape is None:
        raise ModelError(f"the number of dimensions of '{value.name}' is known at run time only")
    return len(value.shape)


def axis_of(number: int, rank: int) -> int:
    """An axis counted from the front.

    Raises:
        ModelError: There is no such axis.
    """
    if not -rank <= number < rank:
        raise ModelError(f"axis {number} of {rank} dimensions")
    return number % rank


def check_size(value: ir.Value) -> None:
    """Refuse a value of more elements than a tensor has.

    Raises:
        ModelError: It has.
    """
    shape = g.static_shape(value)
    if shape is not None and math.prod(shape) > MOST_ELEMENTS:
        raise ModelError(f"'{value.name}' has the shape {list(shape)}: more elements than a tensor can have")


def _fresh(hint: str, taken: dict[str, int]) -> str:
    """``hint``, with a number behind it if it is taken; ``taken`` holds the next number of each."""
    name = hint
    while name in taken:
        name, taken[hint] = f"{hint}_{taken[hint]}", taken[hint] + 1
    taken[name] = 1
    return name
