"""The tensors of one subgraph: what the file says of them, and what they have become."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite import graph as g
from converter_lite.errors import ModelError
from converter_lite.formats.permutation import Perm
from converter_lite.formats.tflite import constants
from converter_lite.formats.tflite.constants import Stored
from converter_lite.formats.tflite.container import NOT_GIVEN, Operator, Subgraph, Tensor
from converter_lite.formats.tflite.enums import NUMPY_TYPES, TensorType
from converter_lite.formats.tflite.importer.values import same_grid
from converter_lite.kernels.params import QuantParams


class Tensors:
    """Tensors by their numbers in the file.

    Args:
        graph: The subgraph.
    """

    def __init__(self, graph: Subgraph) -> None:
        self.graph = graph
        self._forms: list[dict[Perm, ir.Value]] = [{} for _ in graph.tensors]
        self._stored: dict[int, Stored] = {}
        self._params: dict[int, QuantParams | None] = {}

    def tensor(self, index: int) -> Tensor:
        """What the file says of a tensor."""
        if index == NOT_GIVEN:
            raise ModelError("an input that it needs is left out")
        return self.graph.tensors[index]

    def is_constant(self, index: int) -> bool:
        """Whether the value of a tensor is known."""
        forms = self._forms[index] if index != NOT_GIVEN else {}
        return self._is_stored(index) or (() in forms and forms[()].const_value is not None)

    def stored(self, index: int) -> Stored:
        """The constant in the file behind a tensor.

        Raises:
            ModelError: It is computed.
        """
        tensor = self.tensor(index)
        if index not in self._stored and not self._is_stored(index):
            raise ModelError(f"{tensor.name} is computed, and only a constant can be translated there")
        if index not in self._stored:
            data = tensor.data if tensor.data is not None else np.zeros(0, np.uint8)
            self._stored[index] = constants.load(tensor, data)
        return self._stored[index]

    def _is_stored(self, index: int) -> bool:
        """Whether the file holds the value; a tensor without elements needs no bytes."""
        if index == NOT_GIVEN or self._forms[index]:
            return False
        if index in self._stored:
            return True
        tensor = self.graph.tensors[index]
        return not tensor.is_variable and (tensor.data is not None or 0 in tensor.shape)

    def store(self, index: int, stored: Stored) -> None:
        """Make a tensor a constant."""
        self._stored[index] = stored

    def array(self, index: int) -> NDArray[Any]:
        """The value of a constant, in real numbers.

        Raises:
            ModelError: It is computed.
        """
        found = self.constant_or_none(index)
        if found is None:
            raise ModelError(f"{self.tensor(index).name} is computed, and only a constant can be translated there")
        return found

    def constant_or_none(self, index: int) -> NDArray[Any] | None:
        """The value of a constant, in real numbers; ``None`` for what is computed."""
        if index == NOT_GIVEN:
            return None
        if self._is_stored(index):
            return constants.reals(self.stored(index))
        return g.constant(self._forms[index][()]) if self.is_constant(index) else None

    def ints(self, index: int) -> list[int]:
        """The numbers of a constant, such as axes.

        Raises:
            ModelError: They are computed, or no whole numbers.
        """
        found = self.array(index)
        if found.dtype.kind not in "iu":
            raise ModelError(f"{self.tensor(index).name} must hold whole numbers")
        return [int(number) for number in found.reshape(-1)]

    def order(self, index: int) -> Perm:
        """The first order of axes that a tensor was made in; ``()`` for that of the file."""
        return next(iter(self._forms[index]), ())

    def orders(self, index: int) -> list[Perm]:
        """All orders of axes in which a tensor exists."""
        return list(self._forms[index])

    def params(self, index: int) -> QuantParams | None:
        """Parameters of integers that stand for real numbers; ``None`` for others."""
        if index not in self._params:
            self._params[index] = constants.activation_params(self.tensor(index))
        return self._params[index]

    def element_type(self, index: int) -> ir.DataType:
        """Type of a tensor in the graph.

        Raises:
            ModelError: Such elements are not read.
        """
        tensor = self.tensor(index)
        if self.params(index) is not None:
            return ir.DataType.FLOAT
        if tensor.type not in NUMPY_TYPES or tensor.type is TensorType.INT4:
            raise ModelError(f"{tensor.name} has elements of type {tensor.type.name}, which are not read")
        return ir.DataType.from_numpy(NUMPY_TYPES[tensor.type].newbyteorder("="))

    def check_same_grid(self, op: Operator, *positions: int) -> None:
        """Refuse an operator that moves integers from one grid to another without converting them.

        Raises:
            ModelError: Parameters of inputs and outputs differ.
        """
        moved_from = [op.inputs[p] for p in positions or range(len(op.inputs)) if op.has(p)]
        grids = [g for g in map(self.params, (*moved_from, *op.outputs)) if g is not None]
        if any(not same_grid(grids[0], grid) for grid in grids[1:]):
            raise ModelError(
                "it moves integers between tensors of different scales or zero points",
                hint="convert the model again; the converter of TensorFlow gives both the same ones",
            )
