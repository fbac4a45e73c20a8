"""Each definition of an operator beside the newer ones that it is turned into, as onnxruntime computes them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.errors import ModelError
from converter_lite.passes.opset import raise_opset
from tests.support import run

NEWEST = 22
"""Newest operator set of a definition that is tried; the targets are those that we raise to."""
TARGETS = (13, 18, 19, 21)

Array = np.ndarray[Any, Any]


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def _whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


X, POSITIVE = _normal(1, 2, 5, 6), np.abs(_normal(2, 3, 4)) + np.float32(0.1)
GRID = (np.random.default_rng(0).random((1, 3, 4, 2)) * 2.2 - 1.1).astype(np.float32)
ROOM = {"output_height": 2, "output_width": 3}
BOXES = [_normal(1, 2, 7, 7), np.array([[0, 0, 3, 4], [1, 1, 5, 5.5]], np.float32), _whole(0, 0)]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
REDUCTIONS = [
    f"Reduce{kind}" for kind in ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
]
SAME = {"auto_pad": "SAME_UPPER", "strides": [2, 2]}

Case = tuple[str, list[Array], dict[str, Any]]
"""Operator, inputs (the first is fed, the others are constants), attributes."""


def _cases() -> Iterator[Case]:
    for mode in ("nearest", "linear"):
        for factors in ((2.0, 2.0), (3.0, 1.7), (1.0, 2.0), (0.5, 0.7)):
            scales = _floats(1, 1, *factors)
            if min(factors) >= 1:
                yield "Upsample", [X], {"mode": mode, "scales": scales.tolist()}
                yield "Upsample", [X, scales], {"mode": mode}
            yield "Resize", [X, scales], {"mode": mode}
            for places in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
                yield "Resize", [X, _floats(), scales], {"mode": mode, "coordinate_transformation_mode": places}
    for operator in ("Softmax", "LogSoftmax", "Hardmax"):
        yield operator, [_normal(2, 3, 4, 5)], {}
        yield operator, [_normal(3, 4)], {}
        for axis in (0, 1, 2, 3, -1, -2):
            yield operator, [_normal(2, 3, 4, 5)], {"axis": axis}
    for bounds in ({"min": -0.5, "max": 0.7}, {"min": -0.5}, {"max": 0.5}, {}):
        yield "Clip", [X], bounds
    for mode in ("constant", "reflect", "edge"):
        yield "Pad", [X], {"mode": mode, "pads": [0, 0, 1, 2, 0, 0, 2, 1], "value": 1.5}
        yield "Pad", [X], {"mode": mode, "pads": [0, 0, 1, -1, 0, 0, 2, 0]}
    yield "Slice", [X], {"starts": [1, 0], "ends": [3, -1], "axes": [2, 3]}
    yield "Slice", [X], {"starts": [0, 1], "ends": [1, 2]}
    yield "TopK", [_normal(6, 3)], {"k": 2, "axis": 0}
    yield "TopK", [_normal(3, 6), _whole(3)], {}
    yield "Squeeze", [_normal(1, 1, 3, 1)], {"axes": [0, 3]}
    yield "Unsqueeze", [_normal(2, 3)], {"axes": [1, 3]}
    yield "Split", [_normal(6, 4)], {"axis": 0, "split": [2, 4]}
    yield "Split", [_normal(6, 4)], {"axis": 1}
    for operator in REDUCTIONS:
        for attributes in ({}, {"axes": [1], "keepdims": 0}, {"axes": [-1, 0]}, {"keepdims": 0}):
            yield operator, [POSITIVE], attributes
    for attributes in ({}, SAME, {"pads": [1, 1, 1, 1], "strides": [2, 2]}):
        shared = {"kernel_shape": [3, 2], **attributes}
        for operator in ("AveragePool", "MaxPool", "LpPool"):
            yield operator, [_normal(1, 2, 7, 8)], shared
            yield operator, [_normal(1, 2, 7, 8)], {**shared, "ceil_mode": 1}
        yield "AveragePool", [_normal(1, 2, 7, 8)], {**shared, "count_include_pad": 1}
    moments = [_normal(2), _normal(2), _normal(2), np.abs(_normal(2)) + np.float32(0.1)]
    yield "BatchNormalization", [X, *moments], {"epsilon": 1e-2}
    yield "GroupNormalization", [_normal(1, 4, 3, 3), _normal(2), _normal(2)], {"num_groups": 2}
    yield "Gemm", [_normal(3, 2), _normal(4, 3), _normal(4)], {"alpha": 0.5, "transA": 1, "transB": 1}
    yield "OneHot", [np.array([[0, 1], [2, -1]]), _whole(4), _floats(0.5, 2)], {"axis": 1}
    yield "Scatter", [_normal(3, 4), np.array([[0, 1], [2, 0]]), _normal(2, 2)], {"axis": 1}
    yield "GatherND", [_normal(3, 4), np.array([[0, 1], [2, -1]])], {}
    yield "CumSum", [_normal(3, 4), np.array(1)], {"exclusive": 1, "reverse": 1}
    yield "DepthToSpace", [_normal(1, 8, 2, 3)], {"blocksize": 2}
    for more in ({}, {"mode": "max"}, {"sampling_ratio": 2, "spatial_scale": 0.5}):
        yield "RoiAlign", BOXES, {**ROOM, **more}
    for mode in ("bilinear", "nearest", "bicubic"):
        yield "GridSample", [X, GRID], {"mode": mode, "align_corners": 1}
    for operator, gates in GATES.items():
        weights = [_normal(1, gates * 4, 3), _normal(1, gates * 4, 4), _normal(1, gates * 8)]
        yield operator, [_normal(5, 2, 3), *weights], {"hidden_size": 4}
    for operator in ("ArgMax", "ArgMin"):
        yield operator, [np.round(_normal(3, 5))], {"axis": 1, "keepdims": 0}
    yield "QuantizeLinear", [_normal(2, 3), _floats(0.01), np.array([1], np.int8)], {}


CASES = list(_cases())


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_each_definition_is_kept(case: Case) -> None:
    versions = _definitions(case)
    assert versions, "onnxruntime runs no definition of it"
    for version, expected in versions.items():
        for target in (target for target in TARGETS if target > version):
            raised = raise_opset(_model(case, version), target)
            for found, wanted in zip(run(raised, {"x": case[1][0]}).values(), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6, err_msg=f"{version} -> {target}")


def _definitions(case: Case) -> dict[int, list[Array]]:
    """Operator sets that define the operator anew and know the case -> the outputs there."""
    found: dict[int, list[Array]] = {}
    for version in sorted({max(schema.since_version, 7) for schema in _schemas(case[0])}):
        try:
            found[version] = list(run(_model(case, version), {"x": case[1][0]}).values())
        except (ModelError, onnx.shape_inference.InferenceError):  # attributes and inputs of another definition
            continue
    return found


def _schemas(operator: str) -> list[Any]:
    known = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == operator and s.domain == ""]
    return [schema for schema in known if schema.since_version <= NEWEST]


def _model(case: Case, version: int) -> ir.Model:
    operator, (fed, *constants), attributes = case
    names = [f"c{number}" for number in range(len(constants))]
    outputs = ["y", "z"] if operator in ("TopK", "Split") else ["y"]
    node = helper.make_node(operator, ["x", *names], outputs, name="n", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(fed.dtype), fed.shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in zip(names, constants, strict=True)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


def test_a_picture_that_shrinks_and_grows_to_nearest_elements_is_refused() -> None:
    model = _model(("Resize", [X, _floats(1, 1, 0.5, 2)], {"mode": "nearest"}), 10)
    with pytest.raises(ModelError, match="shrinks one axis"):
        raise_opset(model, 13)


def test_a_scale_per_group_that_is_computed_is_refused() -> None:
    scale = helper.make_node("Relu", ["s"], ["r"])
    node = helper.make_node("GroupNormalization", ["x", "r", "b"], ["y"], name="n", num_groups=2)
    shapes = {"x": [1, 4, 2, 2], "s": [2], "b": [2]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 2, 2])]
    graph = helper.make_graph([scale, node], "g", inputs, outputs)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with pytest.raises(ModelError, match="cannot be given to set 21"):
        raise_opset(ir.from_proto(proto), 21)
