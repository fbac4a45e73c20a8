"""LSTMs of integers that others wrote (DynamicQuantizeLSTM), in the plan and in files for devices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.mindspore_lite.exporter.writer import write as write_ms
from converter_lite.formats.mindspore_lite.planning import adapt_plan as adapt_ms
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.paddle.planning import adapt_plan as adapt_paddle
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.graph import assign_names
from converter_lite.passes.shapes import infer_shapes
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from tests.formats.paddle.writing import write as write_nb
from tests.support import normal, run, sqnr

HIDDEN = 64


def recurrent(scales: int) -> ir.Model:
    """A layer of one direction with this many scales for each weight."""
    proto = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
        g (float[5,1,6] x) => (float[5,1,1,{HIDDEN}] y) {{
            y = com.microsoft.DynamicQuantizeLSTM<hidden_size = {HIDDEN}>(x, w, r, b, , , , , sw, zw, sr, zr) }}"""
    )
    generator = np.random.default_rng(0)
    shape = (1,) if scales == 1 else (1, scales)
    arrays = {
        "w": generator.integers(-127, 128, (1, 6, 4 * HIDDEN)).astype(np.int8),
        "r": generator.integers(-127, 128, (1, HIDDEN, 4 * HIDDEN)).astype(np.int8),
        "b": generator.uniform(-0.1, 0.1, (1, 8 * HIDDEN)).astype(np.float32),
        "sw": generator.uniform(0.001, 0.002, shape).astype(np.float32),
        "sr": generator.uniform(0.001, 0.002, shape).astype(np.float32),
        "zw": np.zeros(shape, np.int8),
        "zr": np.zeros(shape, np.int8),
    }
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    model = ir.from_proto(proto)
    assign_names(model)
    infer_shapes(model)
    return model


@pytest.mark.parametrize("scales", [1, 4 * HIDDEN])
def test_their_weights_are_in_the_plan_with_the_scales_that_they_have(scales: int) -> None:
    model = recurrent(scales)
    quantized = read_qdq(model.clone())
    (node,) = quantized.model.graph
    assert (node.op_type, node.domain, quantized.plan.mode(node)) == ("LSTM", "", NodeMode.DYNAMIC)
    assert [params.spec.axis for params in quantized.plan.weights.values()] == [None if scales == 1 else 1] * 2
    assert sqnr(model, quantized.model, [{"x": normal(5, 1, 6)}]) > 25


def paddle(quantized: QuantizedModel) -> QuantizedModel:
    return adapt_paddle(quantized, PaddlePolicy("arm"), integer=True)


@pytest.mark.parametrize(("adapt", "write"), [(adapt_ms, write_ms), (paddle, write_nb)], ids=["ms", "nb"])
def test_files_for_devices_keep_the_integers_of_one_scale(
    adapt: Callable[[QuantizedModel], QuantizedModel], write: Callable[[QuantizedModel], bytes]
) -> None:
    adapted = adapt(read_qdq(recurrent(1)))
    (decision,) = adapted.plan.nodes.values()
    assert decision.mode is NodeMode.WEIGHT
    floats = QuantizedModel(adapted.model, QuantPlan("CPU"))
    assert len(write(adapted)) < 0.4 * len(write(floats))
    feed = {"x": normal(5, 1, 6)}
    expected = run(read_qdq(recurrent(1)).model, feed)["y"]
    np.testing.assert_array_equal(run(adapted.model, feed)["y"], expected)
