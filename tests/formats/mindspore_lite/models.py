"""Small models for the tests of the format."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from converter_lite.graph import assign_names, constant, is_constant
from converter_lite.kernels.params import QuantSpec, params_from_range, weight_params
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan

WEIGHT_AXIS = {"Conv": 0, "MatMul": 1, "Gemm": 1}


def from_nodes(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, tuple[int, ...]],
    constants: dict[str, NDArray[np.generic]],
    outputs: list[str],
    kinds: dict[str, int] | None = None,
) -> ir.Model:
    """A model with inferred shapes and names."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, (kinds or {}).get(name, 1), shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    model = ir.serde.deserialize_model(onnx.shape_inference.infer_shapes(proto, strict_mode=True))
    assign_names(model)
    return model


def convolutional(seed: int = 0) -> ir.Model:
    """conv3x3 - relu - depthwise - relu6 - conv1x1, with a residual add, a pool and a classifier."""
    rng = np.random.default_rng(seed)

    def uniform(*shape: int) -> NDArray[np.float32]:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c0"], ["r0"], name="relu"),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], name="depthwise", group=8, pads=[1, 1, 1, 1]),
        helper.make_node("Clip", ["c1", "low", "high"], ["r1"], name="relu6"),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], name="pointwise"),
        helper.make_node("Add", ["c2", "r0"], ["s"], name="residual"),
        helper.make_node("GlobalAveragePool", ["s"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="classifier"),
    ]
    constants = {
        "w0": uniform(8, 3, 3, 3),
        "b0": uniform(8),
        "w1": uniform(8, 1, 3, 3),
        "b1": uniform(8),
        "w2": uniform(8, 8, 1, 1),
        "b2": uniform(8),
        "w3": uniform(8, 5),
        "b3": uniform(5),
        "low": np.array(0, np.float32),
        "high": np.array(6, np.float32),
    }
    return from_nodes(nodes, {"x": (1, 3, 8, 8)}, dict(constants), ["y"])


def image(seed: int = 1) -> dict[str, NDArray[np.float32]]:
    """A sample for :func:`convolutional`."""
    return {"x": np.random.default_rng(seed).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)}


def floating(model: ir.Model) -> QuantizedModel:
    """A model with an empty plan."""
    return QuantizedModel(model, QuantPlan("CPU"))


def weights_quantized(
    model: ir.Model, bits: int, *, per_channel: bool = True, mode: NodeMode = NodeMode.WEIGHT
) -> QuantizedModel:
    """Every constant weight as integers of ``bits`` bits."""
    plan = QuantPlan("CPU")
    symmetric = mode is NodeMode.DYNAMIC
    for node in model.graph:
        plan.keep_float(node, "no weight")
        if node.op_type not in WEIGHT_AXIS or not is_constant(node.inputs[1]):
            continue
        weight = node.inputs[1]
        axis = WEIGHT_AXIS[node.op_type] if per_channel else None
        spec = QuantSpec(bits, symmetric=symmetric, narrow_range=symmetric, axis=axis)
        plan.quantize(node, mode)
        plan.weights[weight.name] = weight_params(np.asarray(constant(weight)), spec)
    return QuantizedModel(model, plan)


def fully_quantized(model: ir.Model, ranges: dict[str, tuple[float, float]]) -> QuantizedModel:
    """Integer convolutions, products and adds; ``ranges`` names the activations that have parameters."""
    plan = QuantPlan("CPU")
    for node in model.graph:
        plan.quantize(node, NodeMode.INTEGER)
        if node.op_type in WEIGHT_AXIS:
            spec = QuantSpec(8, symmetric=True, narrow_range=True, axis=WEIGHT_AXIS[node.op_type])
            plan.weights[node.inputs[1].name] = weight_params(np.asarray(constant(node.inputs[1])), spec)
    plan.activations = {name: params_from_range(low, high, QuantSpec(8)) for name, (low, high) in ranges.items()}
    return QuantizedModel(model, plan)


def proto(model: ir.Model) -> bytes:
    """Serialized ONNX."""
    return ir.serde.serialize_model(model).SerializeToString()
