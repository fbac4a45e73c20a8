"""The shared face detector as a Caffe network and as ONNX: one network, but for the decoding of its boxes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.caffe.networks import read, run
from tests.support import normal, shared_model

pytestmark = pytest.mark.shared


def offsets_of(model: onnx.ModelProto) -> str:
    """The value that the boxes of the ONNX file are decoded from: the Concat of four numbers a box."""
    shapes = {
        v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in onnx.shape_inference.infer_shapes(model).graph.value_info
    }
    (name,) = [
        n.output[0]
        for n in model.graph.node
        if n.op_type == "Concat" and shapes.get(n.output[0]) == [1, 4420, 4] and len(n.input) == 4
    ]
    return name


def test_the_caffe_network_gives_what_the_onnx_model_gives() -> None:
    caffe = read(shared_model("frameworks/caffe/ultraface_rfb_320.prototxt")).model
    twin = onnx.load(shared_model("ultraface_rfb_320.onnx"))
    name = offsets_of(twin)
    twin.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    session = DEFAULT_ENGINE.session(twin.SerializeToString(), threads=1, optimize=False)
    for seed in range(3):
        feed = {"input": normal(1, 3, 240, 320, seed=seed)}
        found, expected = run(caffe, feed), session.run(feed)
        np.testing.assert_allclose(found["scores"], expected["scores"], rtol=0, atol=1e-5)
        np.testing.assert_allclose(found["boxes"], expected[name], rtol=0, atol=1e-4)


def test_nodes_have_the_names_of_the_layers() -> None:
    path = shared_model("frameworks/caffe/ultraface_rfb_320.prototxt")
    graph = read(path).model.graph
    assert isinstance(graph, ir.Graph)
    names = {node.name for node in graph}
    assert {"245", "boxes", "scores"} <= names
    assert len(names) == len(graph) == path.read_text(encoding="utf-8").count("\nlayer {")
