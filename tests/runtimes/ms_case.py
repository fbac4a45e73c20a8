"""A model of one node with its inputs, for comparing runtimes with onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from converter_lite.formats.mindspore_lite.format import MS_REQUIREMENTS
from converter_lite.graph import assign_names
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.spelled_out import SPELLED_OUT
from converter_lite.runtime.engine import DEFAULT_ENGINE

Array = NDArray[Any]
IMAGE = (1, 4, 7, 6)


@dataclass(frozen=True)
class Case:
    """A model with one node (or a few), its inputs, and the largest allowed difference, absolute and relative."""

    name: str
    model: bytes
    feed: dict[str, Array]
    tolerance: float = 2e-5

    def graph(self) -> ir.Model:
        """The graph without what the format lacks."""
        model = ir.serde.deserialize_model(onnx.load_from_string(self.model))
        assign_names(model)
        for operator, spell_out in SPELLED_OUT.items():
            if operator in MS_REQUIREMENTS.spelled_out:
                spell_out(model)
        infer_shapes(model)
        return model


def values(shape: tuple[int, ...] = IMAGE, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Array:
    """Uniform float32 numbers."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def whole(shape: tuple[int, ...], high: int, seed: int = 0) -> Array:
    """Whole numbers below ``high``."""
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.int64)


def build(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Array],
    constants: dict[str, Array],
    outputs: int = 1,
    opset: int = 17,
) -> bytes:
    """A model with outputs called y0, y1, ..., which get the types and shapes that onnxruntime gives them."""
    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    results = DEFAULT_ENGINE.session(model.SerializeToString()).run(inputs)
    for output in graph.output:
        array = results[output.name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, kind, array.shape))
    model.graph.CopyFrom(graph)
    return onnx.shape_inference.infer_shapes(model).SerializeToString()


def case(
    name: str,
    op: str,
    *operands: Array | tuple[Array] | None,
    outputs: int = 1,
    opset: int = 17,
    tolerance: float = 2e-5,
    **attributes: Any,
) -> Case:
    """A single node; an operand in a tuple is a constant, a plain one a graph input, ``None`` is left out."""
    inputs: dict[str, Array] = {}
    constants: dict[str, Array] = {}
    names = []
    for i, operand in enumerate(operands):
        if operand is None:
            names.append("")
            continue
        (constants if isinstance(operand, tuple) else inputs)[f"x{i}"] = np.asarray(
            operand[0] if isinstance(operand, tuple) else operand
        )
        names.append(f"x{i}")
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="node", **attributes)
    return Case(name, build([node], inputs, constants, outputs, opset), inputs, tolerance)


def ints(*numbers: int) -> tuple[Array]:
    """A constant int64 vector."""
    return (np.array(numbers, np.int64),)


def const(shape: tuple[int, ...], seed: int = 1, low: float = -1.0, high: float = 1.0) -> tuple[Array]:
    """A constant of uniform numbers."""
    return (values(shape, seed, low, high),)
