"""Which inputs and outputs of which nodes the reports show."""

from __future__ import annotations

import numpy as np

from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel
from converter_lite.quantization.qdq.materialize import materialize
from converter_lite.reports.tensor_uses import tensor_uses
from tests.reports.models import activation, conv_relu, plan, weight
from tests.support import build, normal


def shown(quantized: QuantizedModel) -> list[tuple[str, str, str, str]]:
    """(node, tensor, In/Out with W for weights, tensor of the quantized graph) of every use."""
    uses = tensor_uses(quantized, materialize(quantized))
    flags = [("Out" if use.is_output else "In") + ("W" if use.is_weight else "") for use in uses]
    return [(use.node, use.tensor, flag, use.written) for use, flag in zip(uses, flags, strict=True)]


def test_a_relu_inside_its_convolution_is_shown_as_the_output_of_the_convolution() -> None:
    assert shown(conv_relu()) == [
        ("conv", "x", "In", "x_quantized"),
        ("conv", "w", "InW", ""),
        ("conv", "y", "Out", "y_quantized"),
    ]


def test_biases_are_shown_with_their_32_bits() -> None:
    model = build(
        "g (float[1,1,2,2] x) => (float[1,2,2,2] y) { [conv] y = Conv <kernel_shape = [1, 1]> (x, w, b) }",
        w=normal(2, 1, 1, 1),
        b=normal(2),
    )
    made = plan(model, conv=NodeMode.INTEGER)
    made.activations = {"x": activation(0.5, 4), "y": activation(0.25, 100)}
    made.weights = {"w": weight([0.5, 0.25]), "b": weight([0.25, 0.125], bits=32)}
    uses = tensor_uses(QuantizedModel(model, made), materialize(QuantizedModel(model, made)))
    bits = [(use.tensor, use.params.spec.bits) for use in uses if use.params is not None]
    assert bits == [("x", 8), ("w", 8), ("b", 32), ("y", 8)]


def test_a_result_that_stays_float_is_shown_as_the_quantized_graph_computes_it() -> None:
    quantized = conv_relu()
    del quantized.plan.activations["y"]
    assert shown(quantized)[-1] == ("conv", "y", "Out", "y")
    uses = tensor_uses(quantized, materialize(quantized))
    assert uses[-1].params is None


def test_an_addend_that_is_read_in_float_is_not_shown_as_an_input() -> None:
    model = build(
        "g (float[1,1,2,2] x) => (float[1,1,2,2] y) { [conv] c = Conv <kernel_shape = [1, 1]> (x, w)  [add] y = Add(c, x) }",
        w=normal(1, 1, 1, 1),
    )
    made = plan(model, conv=NodeMode.INTEGER)
    made.nodes["add"] = NodePlan("Add", NodeMode.INTEGER, float_inputs=(0,))
    made.activations = {"x": activation(0.5, 4), "y": activation(0.25, 100)}
    made.weights = {"w": weight([0.5])}
    add = [use for use in shown(QuantizedModel(model, made)) if use[0] == "add"]
    assert add == [("add", "x", "In", "x_quantized"), ("add", "y", "Out", "y_quantized")]


def test_a_tensor_that_a_node_reads_twice_is_shown_once() -> None:
    model = build("g (float[2] x) => (float[2] y) { [add] y = Add(x, x) }")
    made = plan(model, add=NodeMode.INTEGER)
    made.activations = {"x": activation(0.5, 4), "y": activation(1.0, 8)}
    assert [use[1] for use in shown(QuantizedModel(model, made))] == ["x", "y"]


def test_weight_and_dynamic_nodes_show_their_weight_and_their_float_result() -> None:
    model = build(
        "g (int64[2] i) => (float[2,4] y) { [rows] r = Gather(t, i)  [product] p = MatMul(r, w)  [soft] y = Softmax(p) }",
        t=normal(5, 3),
        w=normal(3, 4),
    )
    made = plan(model, rows=NodeMode.WEIGHT, product=NodeMode.DYNAMIC)
    made.weights = {"t": weight([0.1] * 5), "w": weight([0.1] * 4, axis=1)}
    assert shown(QuantizedModel(model, made)) == [
        ("rows", "t", "InW", ""),
        ("rows", "r", "Out", "r"),
        ("product", "w", "InW", ""),
        ("product", "p", "Out", "p"),
    ]


def test_outputs_that_are_not_real_numbers_or_left_out_are_not_shown() -> None:
    model = build(
        "g (float[4] x) => (float[4] y, int64[4] i) { [drop] d, mask = Dropout(x)  [pool] y, i = TopK(d, k) }",
        k=np.array([4], np.int64),
    )
    made = plan(model, drop=NodeMode.INTEGER, pool=NodeMode.INTEGER)
    assert [use[1] for use in shown(QuantizedModel(model, made))] == ["d", "y"]


def test_an_input_is_shown_that_optimizers_must_not_see_through_to() -> None:
    """onnxruntime's integer kernel would give another average: a Max stands before the node."""
    pool = "AveragePool<kernel_shape = [3], strides = [2], ceil_mode = 1, count_include_pad = 1>"
    model = build(f"g (float[1,1,10] x) => (float[1,1,5] y) {{ [pool] y = {pool}(x) }}")
    made = plan(model, pool=NodeMode.INTEGER)
    made.activations = {"x": activation(0.5, 4), "y": activation(0.25, 100)}
    assert shown(QuantizedModel(model, made)) == [
        ("pool", "x", "In", "x_quantized"),
        ("pool", "y", "Out", "y_quantized"),
    ]
