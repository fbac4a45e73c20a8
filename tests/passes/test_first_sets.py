"""Operator sets 1 to 6: records that others made, and each definition by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from converter_lite.errors import ModelError
from converter_lite.formats.onnx.reader import read_onnx
from tests.onnx_records import RECORDS, record
from tests.support import run

Array = np.ndarray[Any, Any]


def test_there_are_records() -> None:
    assert len(RECORDS) > 100


@pytest.mark.parametrize("folder", RECORDS, ids=lambda folder: folder.name)
def test_a_record_is_read_and_gives_its_numbers(folder: Path) -> None:
    case = record(folder)
    found = run(read_onnx(folder / "model.onnx"), case.feed)
    for name, expected in case.results.items():
        assert found[name].shape == expected.shape
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


def _normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X = _normal(2, 3, 4, 5)
WINDOWS = np.stack([X[:, :, :-1, :-1], X[:, :, 1:, :-1], X[:, :, :-1, 1:], X[:, :, 1:, 1:]])
CHANNELS = [_normal(3) + np.float32(i) for i in range(3)]
"""One number for each channel."""

Case = tuple[int, str, list[Array], dict[str, Any], Array]
"""Operator set, operator, inputs (the first is fed, the others are constants), attributes, result."""


def _spread(array: Array) -> Array:
    return array.reshape(3, 1, 1)


def _cases() -> Iterator[Case]:
    aligned = {"broadcast": 1, "axis": 1}
    for version in (1, 6):
        old: dict[str, Any] = {"consumed_inputs": [0]} if version == 1 else {}
        for operator, compute in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)):
            more = {**old, **aligned}
            yield version, operator, [X, CHANNELS[0]], more, compute(X, _spread(CHANNELS[0]))
            yield version, operator, [X, _normal(3, 4)], more, compute(X, _normal(3, 4)[..., None])
            yield version, operator, [X, _normal(5)], {**old, "broadcast": 1}, compute(X, _normal(5))
            yield version, operator, [X, X], {**old, "axis": 0}, compute(X, X)
            yield version, operator, [X, _normal(3, 1, 1)], more, compute(X, _normal(3, 1, 1))
            yield version, operator, [X, _normal(2)], {**more, "axis": -4}, compute(X, _normal(2).reshape(2, 1, 1, 1))
        yield version, "Pow", [np.abs(X), CHANNELS[0]], aligned, np.abs(X) ** _spread(CHANNELS[0])
        for operator, compare in (("Greater", np.greater), ("Less", np.less)):
            yield version, operator, [X, CHANNELS[0]], aligned, compare(X, _spread(CHANNELS[0]))
        truth = CHANNELS[0] > 0
        for operator, judge in (("And", np.logical_and), ("Or", np.logical_or), ("Xor", np.logical_xor)):
            yield version, operator, [X > 0, truth], aligned, judge(X > 0, _spread(truth))
        whole = (X * 2).astype(np.int32)
        yield version, "Equal", [whole, whole[0, :, 0, 0]], aligned, whole == _spread(whole[0, :, 0, 0])
        for operator, alone in (
            ("Relu", np.maximum(X, 0)),
            ("Abs", np.abs(X)),
            ("Tanh", np.tanh(X)),
            ("Exp", np.exp(X)),
        ):
            yield version, operator, [X], old, alone
        for operator, alone in (("Neg", -X), ("Ceil", np.ceil(X)), ("Floor", np.floor(X)), ("Reciprocal", 1 / X)):
            yield version, operator, [X], old, alone
        yield version, "Sqrt", [np.abs(X)], old, np.sqrt(np.abs(X))
        yield version, "Log", [np.abs(X)], old, np.log(np.abs(X))
        yield version, "Sigmoid", [X], old, 1 / (1 + np.exp(-X))
        yield version, "HardSigmoid", [X], old, np.clip(X * np.float32(0.2) + np.float32(0.5), 0, 1)
        yield version, "LeakyRelu", [X], {**old, "alpha": 0.2}, np.where(X < 0, X * np.float32(0.2), X)
        yield version, "Elu", [X], old, np.where(X < 0, np.expm1(X), X)
        yield version, "Clip", [X], {**old, "min": -0.5, "max": 0.5}, np.clip(X, -0.5, 0.5)
        alpha, gamma = (1.6732, 1.0507) if version == 1 else (1.67326324, 1.05070098)
        yield version, "Selu", [X], old, np.float32(gamma) * np.where(X > 0, X, np.float32(alpha) * np.expm1(X))
        yield version, "Sum", [X, X, X], old, X * 3
        yield version, "Mean", [X, X * 3], old, X * 2
        yield version, "Max", [X, -X], old, np.abs(X)
        yield version, "Min", [X, -X], old, -np.abs(X)
        for slope in (CHANNELS[0], _normal(1)):
            yield version, "PRelu", [X, slope], old, np.where(X < 0, X * slope.reshape(-1, 1, 1), X)
        yield (
            version,
            "PRelu",
            [X[:, :, 0, 0], CHANNELS[0]],
            old,
            np.where(X < 0, X * _spread(CHANNELS[0]), X)[..., 0, 0],
        )
        for mark in ({"is_test": 1}, {}):
            yield version, "Dropout", [X], {**old, **mark}, X
            moments = {**mark, **({"consumed_inputs": [0, 0, 0, 1, 1]} if version == 1 else {})}
            scale, bias, variance = _spread(CHANNELS[0]), _spread(CHANNELS[1]), _spread(np.abs(CHANNELS[2]))
            scaled = (X - bias) / np.sqrt(variance + np.float32(1e-5)) * scale + bias
            yield version, "BatchNormalization", [X, *CHANNELS[:2], CHANNELS[1], variance.reshape(3)], moments, scaled
        centred = X - X.mean((2, 3), keepdims=True)
        normed = centred / np.sqrt((centred**2).mean((2, 3), keepdims=True) + np.float32(1e-5))
        expected = normed * _spread(CHANNELS[0]) + _spread(CHANNELS[1])
        yield version, "InstanceNormalization", [X, *CHANNELS[:2]], old, expected
        matrix, other, row = _normal(2, 3), _normal(4, 3), _normal(4)
        yield version, "Gemm", [matrix, other, row], {"transB": 1, "broadcast": 1}, matrix @ other.T + row
        yield version, "Gemm", [matrix, other, _normal(2, 4)], {"transB": 1}, matrix @ other.T + _normal(2, 4)
        yield version, "AveragePool", [X], {"kernel_shape": [2, 2]}, WINDOWS.mean(0)
        yield version, "Concat", [X, X], {"axis": 2}, np.concatenate([X, X], 2)
    yield 1, "Concat", [X, X], {}, np.concatenate([X, X], 1)
    yield 1, "Cast", [X], {"to": "INT32"}, X.astype(np.int32)
    yield 1, "Tile", [X, np.float32([2]), np.float32([1])], {}, np.tile(X, (1, 2, 1, 1))
    yield 6, "Tile", [X, np.array([1, 2, 1, 1])], {}, np.tile(X, (1, 2, 1, 1))
    yield 1, "Reshape", [X], {"shape": [0, -1]}, X.reshape(2, -1)
    yield 5, "Reshape", [X, np.array([0, -1])], {}, X.reshape(2, -1)
    padded = np.pad(X, ((0, 0), (0, 0), (1, 3), (2, 4)))
    yield 1, "Pad", [X], {"paddings": [0, 0, 1, 2, 0, 0, 3, 4]}, padded
    yield 2, "Pad", [X], {"pads": [0, 0, 1, 2, 0, 0, 3, 4]}, padded
    yield 1, "Split", [X], {"axis": 1, "split": [1, 2]}, X[:, :1]
    yield 1, "Split", [X, np.float32([1, 2])], {"axis": 1}, X[:, :1]
    yield 2, "Split", [X], {"axis": 1, "split": [1, 2]}, X[:, :1]
    yield 1, "Upsample", [X], {"height_scale": 2.0, "width_scale": 3.0}, X.repeat(2, 2).repeat(3, 3)
    for version, norm in ((1, 2.0), (2, 2)):
        yield version, "LpPool", [X], {"kernel_shape": [2, 2], "p": norm}, np.sqrt((WINDOWS**2).sum(0))
        yield version, "GlobalLpPool", [X], {"p": norm}, np.sqrt((X**2).sum((2, 3), keepdims=True))


CASES = list(_cases())
GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
"""Recurrent layers: their gates."""


def _model(version: int, operator: str, inputs: list[Array], attributes: dict[str, Any]) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(inputs))]
    outputs = ["y", "rest"] if operator == "Split" else ["y"]
    graph = helper.make_graph(
        [helper.make_node(operator, names, outputs, name="node", **attributes)],
        "g",
        [helper.make_tensor_value_info("x0", helper.np_dtype_to_tensor_dtype(inputs[0].dtype), inputs[0].shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for array, name in zip(inputs[1:], names[1:], strict=True)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=3)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0]}")
def test_a_definition_computes_what_it_says(case: Case, tmp_path: Path) -> None:
    version, operator, inputs, attributes, expected = case
    onnx.save(_model(version, operator, inputs, attributes), tmp_path / "m.onnx")
    found = run(read_onnx(tmp_path / "m.onnx"), {"x0": inputs[0]})["y"]
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0]}")
def test_a_damaged_node_is_read_or_refused(case: Case, tmp_path: Path) -> None:
    version, operator, inputs, attributes, _ = case
    for damaged in (_model(version, operator, inputs, {}), _model(version, operator, inputs, attributes)):
        node = damaged.graph.node[0]
        for _ in range(len(node.input)):
            onnx.save(damaged, tmp_path / "m.onnx")
            with suppress(ModelError):
                read_onnx(tmp_path / "m.onnx")
            node.input.pop()


@pytest.mark.parametrize("operator", GATES)
def test_a_recurrent_layer_computes_what_it_does_in_newer_sets(operator: str, tmp_path: Path) -> None:
    gates = GATES[operator]
    inputs = [_normal(5, 2, 3), _normal(1, gates * 4, 3), _normal(1, gates * 4, 4), _normal(1, gates * 8)]
    found = []
    for version, marks in ((1, {"output_sequence": 1}), (7, {})):
        onnx.save(_model(version, operator, inputs, {"hidden_size": 4, **marks}), tmp_path / "m.onnx")
        found.append(run(read_onnx(tmp_path / "m.onnx"), {"x0": inputs[0]})["y"])
    np.testing.assert_array_equal(*found)


def test_every_definition_that_changed_has_a_case() -> None:
    changed: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= 7:
            changed.setdefault(schema.name, set()).add(schema.since_version)
    old = {name for name, versions in changed.items() if len(versions) > 1}
    assert old - set(GATES) <= {operator for _, operator, *_ in CASES}


REFUSED: list[tuple[int, str, list[Array], dict[str, Any], str]] = [
    (1, "Cast", [X], {"to": "FLOTE"}, "there is no type 'FLOTE'"),
    (1, "LpPool", [X], {"kernel_shape": [2, 2], "p": 1.5}, "a norm of 1.5"),
]


@pytest.mark.parametrize(("version", "operator", "inputs", "attributes", "message"), REFUSED)
def test_what_has_no_equal_is_refused(
    version: int, operator: str, inputs: list[Array], attributes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    onnx.save(_model(version, operator, inputs, attributes), tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="cannot be raised") as refused:
        read_onnx(tmp_path / "m.onnx")
    assert message in refused.value.message and refused.value.where == f"node ({operator})"


@pytest.mark.parametrize(("operator", "numbers"), [("Tile", 2), ("Split", 1)])
def test_computed_sizes_are_refused(operator: str, numbers: int, tmp_path: Path) -> None:
    proto = _model(1, operator, [X, *[np.float32([1])] * numbers], {})
    for tensor in proto.graph.initializer:
        proto.graph.input.append(helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, [1]))
    del proto.graph.initializer[:]
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=r"computed|unknown"):
        read_onnx(tmp_path / "m.onnx")


def test_an_unknown_number_of_axes_is_refused(tmp_path: Path) -> None:
    proto = _model(6, "Add", [X, CHANNELS[0]], {"broadcast": 1, "axis": 1})
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(proto, tmp_path / "m.onnx")
    with pytest.raises(ModelError, match="the number of axes of its input is unknown"):
        read_onnx(tmp_path / "m.onnx")
