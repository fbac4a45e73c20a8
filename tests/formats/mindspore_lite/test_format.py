from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from converter_lite.errors import TargetError
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.format import MsFormat
from converter_lite.formats.mindspore_lite.importer.reader import read
from converter_lite.formats.mindspore_lite.options import MsOptions
from converter_lite.formats.mindspore_lite.policy import PARAMETER_BYTES, MsStorage
from converter_lite.graph import constant
from converter_lite.kernels.params import QuantSpec, weight_params
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.targets.operands import stored_axis, stored_weight
from tests.formats.mindspore_lite.models import (
    convolutional,
    floating,
    from_nodes,
    fully_quantized,
    image,
    proto,
    weights_quantized,
)
from tests.formats.mindspore_lite.test_writer import RANGES
from tests.support import normal


def test_a_written_file_runs_on_the_samples_of_the_model(tmp_path: Path) -> None:
    model = convolutional()
    expected = DEFAULT_ENGINE.session(proto(model)).run(image())["y"]
    for quantized, allowed in (
        (floating(model), 1e-5),
        (weights_quantized(model, 12), 1e-2),
        (fully_quantized(model, RANGES), 0.1),
    ):
        fmt = MsFormat()
        (path,) = fmt.write(quantized, tmp_path / "model.ms").files
        got = DEFAULT_ENGINE.session(fmt.runnable(path, like=model)).run(image())["y"]
        assert np.abs(got - expected).max() <= allowed


@pytest.mark.parametrize("nchw", [True, False])
def test_channels_of_a_cube_are_found_by_the_label_of_the_input(nchw: bool, tmp_path: Path) -> None:
    model = from_nodes(
        [helper.make_node("Conv", ["x", "w"], ["y"])], {"x": (1, 5, 5, 5)}, {"w": normal(3, 5, 3, 3)}, ["y"]
    )
    feed, fmt = {"x": normal(1, 5, 5, 5, seed=1)}, MsFormat(MsOptions(nchw_inputs=nchw))
    (path,) = fmt.write(floating(model), tmp_path / "model.ms").files
    got = DEFAULT_ENGINE.session(fmt.runnable(path, like=model)).run(feed)["y"]
    np.testing.assert_allclose(got, DEFAULT_ENGINE.session(proto(model)).run(feed)["y"], atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 5, 6, 8), (1, 8, 8, 8), (1, 5, 5, 3)], ids=["8 channels", "a cube", "colours"])
def test_channels_that_stand_last_already_stay_there(shape: tuple[int, ...], tmp_path: Path) -> None:
    """Networks of TensorFlow move them to the second place themselves; of eight channels no shape tells it."""
    model = from_nodes(
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["t", "w"], ["y"]),
        ],
        {"x": shape},
        {"w": normal(3, shape[3], 3, 3)},
        ["y"],
    )
    feed, fmt = {"x": normal(*shape, seed=1)}, MsFormat()
    (path,) = fmt.write(floating(model), tmp_path / "model.ms").files
    assert next(tensor for tensor in read(path.read_bytes()).tensors if tensor.name == "x").dims == shape
    got = DEFAULT_ENGINE.session(fmt.runnable(path, like=model)).run(feed)["y"]
    np.testing.assert_allclose(got, DEFAULT_ENGINE.session(proto(model)).run(feed)["y"], atol=1e-5)


def test_indices_stay_64_bits_wide_outside(tmp_path: Path) -> None:
    model = from_nodes(
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        {"ids": (2, 3)},
        {"table": np.arange(20, dtype=np.float32).reshape(10, 2)},
        ["y"],
        kinds={"ids": 7},
    )
    ids = {"ids": np.array([[1, 2, 3], [9, 0, 4]])}
    (path,) = MsFormat().write(floating(model), tmp_path / "model.ms").files
    got = DEFAULT_ENGINE.session(MsFormat().runnable(path, like=model)).run(ids)["y"]
    np.testing.assert_array_equal(got, DEFAULT_ENGINE.session(proto(model)).run(ids)["y"])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE], ids=["float16", "double"])
def test_inputs_of_other_float_types_take_the_samples_of_the_model(kind: int, tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["x"], ["c"], to=TensorProto.FLOAT), helper.make_node("Neg", ["c"], ["y"])]
    model = from_nodes(nodes, {"x": (1, 3, 8, 8)}, {}, ["y"], kinds={"x": kind})
    sample = {"x": image()["x"].astype(helper.tensor_dtype_to_np_dtype(kind))}
    (path,) = MsFormat().write(floating(model), tmp_path / "model.ms").files
    got = DEFAULT_ENGINE.session(MsFormat().runnable(path, like=model)).run(sample)["y"]
    np.testing.assert_allclose(got, -sample["x"], rtol=1e-6)


def test_a_model_that_does_not_fit_is_refused_at_once() -> None:
    model = from_nodes([helper.make_node("Det", ["x"], ["y"], name="d")], {"x": (2, 2)}, {}, ["y"])
    with pytest.raises(TargetError, match="Det"):
        MsFormat().check(model)
    MsFormat().check(convolutional())


@pytest.mark.parametrize("bits", [4, 5, 8, 16])
@pytest.mark.parametrize("per_channel", [False, True])
def test_the_expected_bytes_of_weights_are_those_of_the_file(bits: int, per_channel: bool, tmp_path: Path) -> None:
    model, storage = convolutional(), MsStorage()
    quantized = weights_quantized(model, bits)
    expected = 0
    for node in model.graph:
        weight = stored_weight(node)
        if weight is None or weight.name is None:
            continue
        array, axis = np.asarray(constant(weight)), stored_axis(node, weight) if per_channel else None
        spec = QuantSpec(bits, axis=axis)
        if axis is not None:
            spec = storage.spec(spec, channels=array.shape[axis], elements=array.size)
        quantized.plan.weights[weight.name] = weight_params(array, spec)
        expected += storage.nbytes(node, weight, bits, per_channel=per_channel)
    path = tmp_path / "model.ms"
    path.write_bytes(write(quantized, options=MsOptions(encode=False)))
    stored = [t for t in read(path.read_bytes()).tensors if t.quant is not None and t.data is not None]
    actual = sum(len(t.data) + PARAMETER_BYTES * len(t.quant.scale) for t in stored)
    assert len(stored) == 4
    assert abs(actual - expected) <= 2 * len(stored)  # units of two bytes
