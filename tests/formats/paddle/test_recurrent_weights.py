"""Weights of recurrent layers as integers in ``.nb`` files, which a look-up that nothing reads lets the runtime dequantize."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import TargetError
from converter_lite.formats.paddle.exporter.build import NbOptions, refuse_unwritable
from converter_lite.formats.paddle.inference_model.policy import InferencePolicy
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.policy import PaddlePolicy, PaddleStorage
from converter_lite.quantization.plan import NodeMode, QuantizedModel, QuantPlan
from tests.formats.paddle.plans import plan_full, plan_weights
from tests.formats.paddle.writing import write
from tests.support import build, normal, random_feed, run

GATES = {"LSTM": 4, "GRU": 3}


def test_a_refused_form_says_up_to_how_many_steps_it_is_written_out() -> None:
    text = """g (float[65,2,10] x) => (float[1,2,8] c) { y, h, c = LSTM<hidden_size=8>(x, w, r) }"""
    with pytest.raises(TargetError, match="has at most 64 steps"):
        refuse_unwritable(build(text, opset=14, w=normal(1, 32, 10), r=normal(1, 32, 8)), "arm")


def recurrent(kind: str, *, both: bool = True, hidden: int = 24) -> ir.Model:
    """A layer with gates in ONNX' order, as a model of a framework has it."""
    count, flags = 1 + both, ", linear_before_reset=1" if kind == "GRU" else ""
    direction = "bidirectional" if both else "forward"
    rows = GATES[kind] * hidden
    text = f"""g (float[6,2,10] x) => (float[6,{count},2,{hidden}] y)
        {{ y = {kind}<hidden_size={hidden}, direction="{direction}"{flags}>(x, w, r, b) }}"""
    weights = {"w": normal(count, rows, 10) * 0.2, "r": normal(count, rows, hidden, seed=2) * 0.2}
    return build(text, opset=14, b=normal(count, 2 * rows, seed=3) * 0.1, **weights)


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("kind", GATES)
def test_weights_are_integers_with_a_scale_per_column(kind: str, bits: int, both: bool) -> None:
    model = recurrent(kind, both=both)
    quantized = plan_weights(model, target="arm", bits=bits)
    assert {name: params.spec.axis for name, params in quantized.plan.weights.items()} == {"w": 2, "r": 2}
    file = parse(write(quantized, options=NbOptions("arm")))
    kinds = Counter(array.dtype.name for array in file.parameters.values() if array.ndim == 2)
    matrices = 4 if both else 2
    assert kinds == {f"int{bits}": matrices, "int64": matrices}
    operators = [op.type for op in file.program.blocks[0].operators]
    assert operators.count("lookup_table") == matrices
    assert operators.index("rnn") > max(i for i, op in enumerate(operators) if op == "lookup_table")
    feed, again = random_feed(model), read(write(quantized, options=NbOptions("arm")))
    reals = model.clone()
    for name, params in quantized.plan.weights.items():
        rounded = params.dequantize(quantized.integers(name))
        reals.graph.initializers[name].const_value = ir.Tensor(rounded.astype(np.float32), name=name)
    np.testing.assert_allclose(run(again.model, feed)["y"], run(reals, feed)["y"], atol=1e-6)


@pytest.mark.parametrize("target", ["arm", "x86"])
def test_full_quantization_stores_them_too(target: str) -> None:
    model = recurrent("LSTM")
    quantized = plan_full(model, random_feed(model), target=target)
    assert [node.mode for node in quantized.plan.nodes.values()] == [NodeMode.WEIGHT]


def test_a_float_file_has_no_look_up() -> None:
    file = parse(write(QuantizedModel(recurrent("GRU"), QuantPlan("arm")), options=NbOptions("arm")))
    assert "lookup_table" not in {op.type for op in file.program.blocks[0].operators}


def test_small_ones_and_those_of_paddle_inference_stay_float() -> None:
    (small,) = recurrent("LSTM", hidden=1, both=False).graph
    assert "fewer than 64 elements" in PaddleStorage(policy=PaddlePolicy("arm")).refusal(small)
    (node,) = recurrent("LSTM").graph
    assert PaddlePolicy("arm").capability(node).stored == ""
    assert InferencePolicy(weights_only=True).capability(node).stored == "weights of recurrent layers stay float"


def test_one_tensor_may_be_the_weight_of_the_input_and_of_the_state() -> None:
    """The state's has more units for ARM."""
    text = "g (float[5,2,6] x) => (float[5,1,2,6] y) { y = LSTM<hidden_size=6>(x, w, w) }"
    model = build(text, opset=14, w=normal(1, 24, 6) * 0.3)
    feed, again = random_feed(model), read(write(QuantizedModel(model, QuantPlan("arm")), options=NbOptions("arm")))
    np.testing.assert_allclose(run(again.model, feed)["y"], run(model, feed)["y"], atol=1e-6)


def test_weights_that_are_computed_stay_float() -> None:
    text = "g (float[6,2,10] x, float[1,96,10] w) => (float[6,1,2,24] y) { y = LSTM<hidden_size=24>(x, w, r) }"
    (node,) = build(text, opset=14, r=normal(1, 96, 24)).graph
    assert PaddlePolicy("arm").capability(node).stored == "its weight is not constant"
