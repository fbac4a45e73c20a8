from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper

from converter_lite.errors import FormatError
from converter_lite.formats.mindspore_lite.container import from_bytes, to_bytes
from converter_lite.formats.mindspore_lite.enums import DataType
from converter_lite.formats.mindspore_lite.exporter.writer import write
from converter_lite.formats.mindspore_lite.importer.reader import to_quantized_model
from converter_lite.formats.mindspore_lite.options import Compatibility, MsOptions
from converter_lite.quantization.plan import NodeMode, QuantizedModel
from converter_lite.runtime.engine import DEFAULT_ENGINE
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
from tests.runtimes.ms_case import Case
from tests.runtimes.ms_cases import FAMILIES
from tests.support import build


def run(model: ir.Model, feed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    kinds = {value.name: value.dtype.numpy() for value in model.graph.inputs if value.dtype is not None}
    return DEFAULT_ENGINE.session(proto(model)).run({name: feed[name].astype(kinds[name]) for name in kinds})


def in_file_layout(feed: dict[str, np.ndarray], data: bytes) -> dict[str, np.ndarray]:
    ms = from_bytes(data)
    dims = {ms.tensors[i].name: ms.tensors[i].dims for i in ms.inputs}
    return {n: a.transpose(0, 2, 3, 1) if a.ndim == 4 and a.shape != dims[n] else a for n, a in feed.items()}


def differs(case: Case) -> float:
    """Largest relative difference between a model and what is rebuilt from its file."""
    data = write(floating(case.graph()))
    rebuilt = run(to_quantized_model(data).model, in_file_layout(case.feed, data))
    worst = 0.0
    for name, expected in DEFAULT_ENGINE.session(case.model).run(case.feed).items():
        assert rebuilt[name].shape == expected.shape
        scale = max(1.0, float(np.abs(expected.astype(np.float64)).max()))
        difference = np.abs(rebuilt[name].astype(np.float64) - expected.astype(np.float64)).max()
        worst = max(worst, float(difference) / scale)
    return worst


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_operator_that_is_written_is_rebuilt(family) -> None:  # type: ignore[no-untyped-def]
    wrong = {case.name: difference for case in family() if (difference := differs(case)) > case.tolerance}
    assert wrong == {}


@pytest.mark.parametrize("mode", ["", "DCR", "CRD"])
def test_blocks_of_channels_are_in_the_order_that_the_file_names(mode: str) -> None:
    ms = from_bytes(
        write(floating(build("g (float[1,8,2,3] x) => (float[1,2,4,6] y) { y = DepthToSpace<blocksize=2>(x) }")))
    )
    (node,) = (node for node in ms.nodes if node.op == "DepthToSpace")
    node.attributes["mode"] = mode
    (made,) = (node for node in to_quantized_model(to_bytes(ms)).model.graph if node.op_type == "DepthToSpace")
    assert made.attributes["mode"].as_string() == (mode or "DCR")


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_blocks_of_channels_take_one_operator_in_either_order(mode: str) -> None:
    text = f'g (float[1,8,2,3] x) => (float[1,2,4,6] y) {{ y = DepthToSpace<blocksize=2, mode="{mode}">(x) }}'
    ms = from_bytes(write(floating(build(text))))
    assert {node.op for node in ms.nodes} == {"DepthToSpace", "Transpose"}
    (node,) = (node for node in ms.nodes if node.op == "DepthToSpace")
    assert node.attributes["mode"] == mode


def test_whole_numbers_are_read_that_are_padded_by_reflection() -> None:
    ms = from_bytes(
        write(floating(build('g (float[2,3] x) => (float[2,5] y) { y = Pad<mode="reflect">(x, p) }', p=[0, 1, 0, 1])))
    )
    for tensor in ms.tensors:
        tensor.dtype = DataType.INT32
    sample = {"x": np.arange(6, dtype=np.int32).reshape(2, 3)}
    np.testing.assert_array_equal(
        run(to_quantized_model(ms).model, sample)["y"], np.pad(sample["x"], ((0, 0), (1, 1)), "reflect")
    )


@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("per_channel", [True, False])
def test_rebuilt_weights_are_the_dequantized_integers(bits: int, per_channel: bool) -> None:
    quantized = weights_quantized(convolutional(), bits, per_channel=per_channel)
    rebuilt = to_quantized_model(write(quantized, options=MsOptions(encode=per_channel)), nchw_inputs=["x"])
    plan = {
        node.name: decision.mode for node in rebuilt.model.graph if (decision := rebuilt.plan.nodes[node.name or ""])
    }
    assert plan["first"] is NodeMode.WEIGHT
    for name in ("w0", "w1", "w2", "w3"):
        spec = rebuilt.plan.weights[name].spec
        assert (spec.bits, spec.axis is not None) == (bits, per_channel)
        tensor = rebuilt.model.graph.initializers[name].const_value
        assert tensor is not None
        back = rebuilt.plan.weights[name].dequantize(rebuilt.integers(name))
        np.testing.assert_allclose(tensor.numpy(), back, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("options", [MsOptions(), MsOptions(compatibility=Compatibility.WHEEL)])
def test_a_weight_quantized_file_computes_the_same_in_every_construction(options: MsOptions) -> None:
    quantized = weights_quantized(convolutional(), 3)
    rebuilt = to_quantized_model(write(quantized, options=options), nchw_inputs=["x"])
    reference = dequantized(quantized)
    expected, got = run(reference, image())["y"], run(rebuilt.model, image())["y"]
    np.testing.assert_allclose(got, expected, atol=1e-5)


def dequantized(quantized: QuantizedModel) -> ir.Model:
    """The float model with its weights rounded as the file has them."""
    from converter_lite.formats.mindspore_lite.exporter.weights import stored_integers

    model = ir.serde.deserialize_model(ir.serde.serialize_model(quantized.model))
    for name, params in quantized.plan.weights.items():
        q = stored_integers(quantized, name)
        model.graph.initializers[name].const_value = ir.Tensor(params.dequantize(q), name=name)
    return model


def test_corrections_give_every_channel_its_mean_back() -> None:
    quantized = weights_quantized(convolutional(), 3)
    rebuilt = to_quantized_model(write(quantized, options=MsOptions(corrections=True)), nchw_inputs=["x"])
    before = quantized.model.graph.initializers["w0"].const_value
    after = rebuilt.model.graph.initializers["w0"].const_value
    assert before is not None
    assert after is not None
    np.testing.assert_allclose(after.numpy().mean(axis=(1, 2, 3)), before.numpy().mean(axis=(1, 2, 3)), atol=1e-6)
    np.testing.assert_allclose(after.numpy().std(axis=(1, 2, 3)), before.numpy().std(axis=(1, 2, 3)), rtol=1e-5)


def test_integer_files_give_their_plan_back() -> None:
    quantized = fully_quantized(convolutional(), RANGES)
    rebuilt = to_quantized_model(write(quantized), nchw_inputs=["x"])
    assert rebuilt.plan.nodes["first"].mode is NodeMode.INTEGER
    assert rebuilt.plan.activations["x"].scale == quantized.plan.activations["x"].scale
    scales = {float(p.scale) for p in rebuilt.plan.activations.values()}
    assert scales == {float(p.scale) for p in quantized.plan.activations.values()}
    for name in ("w0", "w1", "w2"):
        np.testing.assert_array_equal(rebuilt.integers(name), quantized.integers(name))
    expected, got = run(quantized.model, image())["y"], run(rebuilt.model, image())["y"]
    np.testing.assert_allclose(got, expected, atol=0.1)


def test_an_operator_without_a_counterpart_is_named() -> None:
    ms = from_bytes(write(floating(convolutional())))
    ms.nodes[0].op, ms.nodes[0].attributes = "Affine", {}
    with pytest.raises(FormatError, match="Affine"):
        to_quantized_model(to_bytes(ms))


def test_images_keep_the_layout_of_the_file_unless_told_otherwise() -> None:
    data = write(floating(convolutional()))
    assert to_quantized_model(data).model.graph.inputs[0].shape == ir.Shape((1, 8, 8, 3))
    assert to_quantized_model(data, nchw_inputs=["x"]).model.graph.inputs[0].shape == ir.Shape((1, 3, 8, 8))


def changed_node(
    graph: ir.Model, op: str, feed: dict[str, np.ndarray], *, to: str = "", **attributes: object
) -> list[np.ndarray]:
    """What a file computes in which the node of a kind is another one, or has other attributes."""
    ms = from_bytes(write(floating(graph)))
    node = next(node for node in ms.nodes if node.op == op)
    node.op, node.attributes = to or op, {**({} if to else node.attributes), **attributes}
    return list(run(to_quantized_model(to_bytes(ms)).model, feed).values())


def test_the_rest_of_a_split_may_be_left_open() -> None:
    parts = helper.make_node("Split", ["x", "sizes"], ["y", "z"], name="parts", axis=1)
    graph = from_nodes([parts], {"x": (2, 5)}, {"sizes": np.array([1, 4])}, ["y", "z"])
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    y, z = changed_node(graph, "Split", {"x": x}, size_splits=[1, -1])
    assert (y.tolist(), z.tolist()) == (x[:, :1].tolist(), x[:, 1:].tolist())


def test_reductions_to_the_end_have_a_factor() -> None:
    total = helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="sum", keepdims=0)
    graph = from_nodes([total], {"x": (2, 5)}, {"axes": np.array([1])}, ["y"])
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    (y,) = changed_node(graph, "ReduceFusion", {"x": x}, reduce_to_end=True, coeff=0.5)
    assert y.tolist() == (x.sum(1) / 2).tolist()


def test_remainders_of_floats_have_the_sign_of_the_divisor() -> None:
    graph = from_nodes([helper.make_node("Div", ["x", "d"], ["y"], name="div")], {"x": (3,), "d": (3,)}, {}, ["y"])
    x, d = np.array([-7, 7, 5.5], np.float32), np.array([3, -3, 2], np.float32)
    (y,) = changed_node(graph, "DivFusion", {"x": x, "d": d}, to="FloorMod")
    assert y == pytest.approx(np.mod(x, d))


def test_the_largest_along_the_first_axis() -> None:
    largest = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="largest", axis=-1)
    graph = from_nodes([largest], {"x": (4, 3)}, {"k": np.array([2])}, ["v", "i"])
    x = np.array([[1, 9, 5], [7, 2, 8], [3, 4, 6], [0, 11, 10]], np.float32)
    v, i = changed_node(graph, "TopKFusion", {"x": x}, axis=0)
    assert (v.tolist(), i.tolist()) == ([[7, 11, 10], [3, 9, 8]], [[1, 3, 3], [2, 0, 1]])
