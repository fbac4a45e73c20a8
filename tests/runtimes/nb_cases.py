"""One small model per operator and attribute variant of a ``.nb`` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray

from converter_lite.formats.paddle.format import NB_REQUIREMENTS
from converter_lite.graph import assign_names
from converter_lite.passes.common import lift_constants
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.spelled_out import SPELLED_OUT

ALL = ("2.10", "2.12", "2.13rc0")
NEW = ("2.12", "2.13rc0")
NEWEST = ("2.13rc0",)
ARM_ONLY = ()
"""Of what x86 files cannot hold."""

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class NbCase:
    """A model, what it is fed, and the releases that can run it.

    Attributes:
        name: What is tried.
        model: Graph with shapes.
        feed: Inputs in graph order.
        releases: Where it runs.
        tolerance: Largest error relative to the largest output.
    """

    name: str
    model: ir.Model
    feed: dict[str, Array]
    releases: Sequence[str]
    tolerance: float


class Cases:
    """A list of cases under construction; random data with a fixed seed."""

    def __init__(self) -> None:
        self.made: list[NbCase] = []
        self.rng = np.random.default_rng(7)

    def data(self, given: Any) -> Array:
        """An array as it is, or random float32 of a shape."""
        if isinstance(given, np.ndarray):
            return given
        return self.rng.standard_normal(given).astype(np.float32)

    def add(
        self,
        name: str,
        op: str,
        *inputs: Any,
        consts: Mapping[int, Any] | None = None,
        outputs: int = 1,
        releases: Sequence[str] = ALL,
        opset: int = 20,
        tolerance: float = 1e-4,
        **attributes: Any,
    ) -> None:
        """A single-node model.

        Args:
            name: What is tried.
            op: ONNX operator.
            inputs: Shapes or arrays that are fed; ``None`` leaves an input out.
            consts: Position -> shape or array of constant inputs.
            outputs: Number of outputs.
            releases: Where it runs.
            opset: Operator set.
            tolerance: Largest relative error.
            attributes: Of the node.
        """
        constants = {position: self.data(value) for position, value in (consts or {}).items()}
        fed = [None if value is None else self.data(value) for value in inputs]
        names, feed, initializers = [], {}, []
        rest = iter(fed)
        for position in range(len(fed) + len(constants)):
            if position in constants:
                names.append(f"c{position}")
                initializers.append(onnx.numpy_helper.from_array(constants[position], f"c{position}"))
                continue
            array = next(rest)
            names.append("" if array is None else f"x{position}")
            if array is not None:
                feed[f"x{position}"] = array
        node = onnx.helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="node", **attributes)
        self.graph(name, [node], feed, initializers, [f"y{i}" for i in range(outputs)], releases, opset, tolerance)

    def graph(
        self,
        name: str,
        nodes: list[onnx.NodeProto],
        feed: dict[str, Array],
        initializers: list[onnx.TensorProto],
        outputs: list[str],
        releases: Sequence[str] = ALL,
        opset: int = 20,
        tolerance: float = 1e-4,
    ) -> None:
        """A model of several nodes."""
        inputs = [
            onnx.helper.make_tensor_value_info(key, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for key, array in feed.items()
        ]
        results = [onnx.ValueInfoProto(name=key) for key in outputs]
        made = onnx.helper.make_graph(nodes, "g", inputs, results, initializers)
        proto = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
        model = ir.from_proto(onnx.shape_inference.infer_shapes(proto))
        assign_names(model)
        lift_constants(model)
        infer_shapes(model)
        for operator, spell_out in SPELLED_OUT.items():
            if operator in NB_REQUIREMENTS.spelled_out:
                spell_out(model)
        self.made.append(NbCase(name, model, feed, releases, tolerance))

    def constant(self, name: str, given: Any) -> onnx.TensorProto:
        """An initializer for :meth:`graph`."""
        return onnx.numpy_helper.from_array(self.data(given), name)


def ints(*values: int) -> Array:
    """An int64 array."""
    return np.array(values, np.int64)


def floats(*values: float) -> Array:
    """A float32 array."""
    return np.array(values, np.float32)


def scalar(value: float, dtype: type = np.float32) -> Array:
    """An array without dimensions."""
    return np.array(value, dtype)
