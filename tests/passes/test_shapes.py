from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.passes.shapes import infer_shapes
from converter_lite.passes.skeleton import DETACH_ABOVE, skeleton
from tests.support import build, build_proto, normal, random_feed, run, since


def _value(model: ir.Model, name: str) -> ir.Value:
    return next(value for node in model.graph for value in node.outputs if value.name == name)


def test_inferred_numbers_replace_stale_ones() -> None:
    model = build("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Relu(m) }", w=normal(3, 4))
    _value(model, "m").shape = ir.Shape([7, 9])
    assert infer_shapes(model) == 1
    assert _value(model, "m").shape == (2, 4)


def test_an_output_with_the_axes_of_another_model_gets_its_own() -> None:
    model = build("g (float[2,3] x) => (float[2,4] y) { m = MatMul(x, w) y = Relu(m) }", w=normal(3, 4))
    model.graph.outputs[0].shape = ir.Shape([1, "length", 4])
    infer_shapes(model)
    assert model.graph.outputs[0].shape == (2, 4)


def test_recorded_shapes_stay_where_inference_says_nothing() -> None:
    proto = build_proto("g (float[2,3] x) => (float[2,3] y) { m = Relu(x) y = Neg(m) }")
    proto.graph.node[0].op_type, proto.graph.node[0].domain = "FusedThing", "com.example"
    proto.opset_import.add(domain="com.example", version=1)
    model = ir.from_proto(proto)
    value = _value(model, "m")
    value.shape, value.type = ir.Shape([2, 3]), ir.TensorType(ir.DataType.FLOAT)
    model.graph.outputs[0].shape = None
    infer_shapes(model)
    assert value.shape == (2, 3)
    assert model.graph.outputs[0].shape == (2, 3)


ROUNDED = {
    "MaxPool<kernel_shape=[4,4], strides=[1,4], pads=[2,1,1,1], ceil_mode=1>(x)": (18, 7),
    "AveragePool<kernel_shape=[2,2], strides=[1,4], ceil_mode=1>(x)": (16, 20),
    "AveragePool<kernel_shape=[3,4], strides=[4,4], pads=[1,0,2,2], ceil_mode=1>(x)": (15, 15),
    "MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)": (8, 11),
    "MaxPool<kernel_shape=[3,3], strides=[3,3], ceil_mode=1>(x)": (18, 19),
    'Resize<mode="nearest">(x, none, factors)': (10, 11),
}
"""Node -> height and width of its input."""


LEFT_OUT = since("onnxruntime", 1, 21, reason="keeps windows that begin behind the picture")


@pytest.mark.parametrize("body", [pytest.param(b, marks=LEFT_OUT) if "pads" in b else b for b in ROUNDED])
def test_sizes_that_are_rounded_are_those_of_the_runtime(body: str) -> None:
    """Two in a row: the second is inferred from what the first gives."""
    height, width = ROUNDED[body]
    more = (
        {"factors": np.array([1, 1, 0.7, 0.7], np.float32), "none": np.zeros(0, np.float32)}
        if "factors" in body
        else {}
    )
    text = f"g (float[1,2,{height},{width}] x) => (float[a,b,c,d] y) {{ m = {body} y = {body.replace('(x', '(m')} }}"
    model = build(text, opset=19, **more)
    expected = run(model, random_feed(model))["y"].shape
    assert _value(model, "y").shape == expected


def test_names_of_dynamic_dimensions_stay() -> None:
    model = build("g (float[batch,3] x) => (float[batch,4] y) { m = MatMul(x, w) y = Relu(m) }", w=normal(3, 4))
    shape = _value(model, "m").shape
    assert shape is not None
    assert [getattr(dim, "value", dim) for dim in shape] == ["batch", 4]


def test_a_model_that_cannot_be_inferred_keeps_its_shapes() -> None:
    model = build("g (float[2,3] x) => (float[2,3] y) { m = Relu(x) y = Neg(m) }")
    model.graph.opset_imports[""] = 9999
    assert infer_shapes(model) == 0
    assert _value(model, "m").shape == (2, 3)


def test_the_skeleton_declares_large_constants_without_their_numbers() -> None:
    model = build(
        "g (float[N,512] x) => (float[N,512] y) { m = MatMul(x, w) y = Add(m, b) }", w=normal(512, 512), b=normal(1)
    )
    proto, detached = skeleton(model)
    assert list(detached) == ["w"]
    assert detached["w"] is model.graph.initializers["w"]
    assert [value.name for value in proto.graph.input] == ["x", "w"]
    assert [tensor.name for tensor in proto.graph.initializer] == ["b"]
    assert proto.ByteSize() < DETACH_ABOVE
    assert len(model.graph.inputs) == 1
    assert np.array_equal(model.graph.initializers["w"].const_value.numpy(), normal(512, 512))


def test_an_output_that_is_an_input_of_another_rank_is_passed_over(tmp_path: Path) -> None:
    graph = "g (float[N,3,4,4] x) => (float[N,2,4,4] y, float[N,5] x) { y = Conv(x, w) }"
    onnx.save(build_proto(graph, w=normal(2, 3, 1, 1)), tmp_path / "m.onnx")
    model = read_onnx(tmp_path / "m.onnx")
    assert [str(value.name) for value in model.graph.outputs] == ["y", "x"]
    assert model.graph.inputs[0].shape == ("N", 3, 4, 4)


def test_a_convolution_of_rows_is_refused_before_shapes_are_inferred(tmp_path: Path) -> None:
    onnx.save(
        build_proto("g (float[N,5] x) => (float y) { y = Conv(x, w) }", w=normal(2, 3, 1, 1)), tmp_path / "m.onnx"
    )
    with pytest.raises(ModelError, match="2 dimensions and not at least 3"):
        read_onnx(tmp_path / "m.onnx")


def test_sizes_that_are_found_later_have_names_of_their_own() -> None:
    """Two sizes with one name would be taken for the same size."""
    text = "g (float[2,3] a, float[4] b) => (int64[2,M] y, int64[1,N] z) "
    model = build(text + "{ p = NonZero(a) q = NonZero(b) y = Identity(p) z = Identity(q) }")
    first, second, *_ = model.graph
    before = first.outputs[0].shape
    model.graph.remove(second)
    second.outputs[0].shape = None
    model.graph.insert_before(first, second)
    infer_shapes(model)
    assert first.outputs[0].shape == before
    assert first.outputs[0].shape is not None
    assert second.outputs[0].shape is not None
    assert first.outputs[0].shape[1] != second.outputs[0].shape[1]


def test_readers_of_what_is_an_output_too_keep_their_shapes() -> None:
    text = "g (float[N,3,8,8] x) => (float[N,4,6,6] y, float[N,3,8,8] x, float[4,3,3,3] w) "
    model = build(text + "{ t = Relu(x) c = Conv(t, w) y = Relu(c) }", w=normal(4, 3, 3, 3))
    assert _value(model, "t").shape == ("N", 3, 8, 8)
    assert _value(model, "c").shape == ("N", 4, 6, 6)


@pytest.mark.parametrize("normalization", ["GroupNormalization<num_groups=2>(x, s, s)", "MeanVarianceNormalization(x)"])
def test_shapes_behind_normalizations_are_known(normalization: str) -> None:
    text = f"g (float[N,4,8] x) => (float[N,4,8] y) {{ n = {normalization} y = Relu(n) }}"
    model = build(text, opset=21, ir_version=10, s=normal(4))
    assert _value(model, "n").shape == ("N", 4, 8)
    assert _value(model, "n").dtype is ir.DataType.FLOAT


def test_types_of_sequences_and_optional_tensors_are_inferred() -> None:
    model = build(
        "g (float16[2,3] x) => (float16[2,3] y) { s = SequenceConstruct(x, x) o = Optional(s) t = OptionalGetElement(o) "
        "y = SequenceAt(t, zero) }",
        opset=18,
        zero=np.array(0),
    )
    sequence = ir.SequenceType(ir.TensorType(ir.DataType.FLOAT16))
    assert [_value(model, name).type for name in "sot"] == [sequence, ir.OptionalType(sequence), sequence]
