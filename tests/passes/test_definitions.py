"""Operators that ONNX defines by others."""

import numpy as np
import pytest

from converter_lite.formats.requirements import DEVICE_INLINED
from converter_lite.graph import find_nodes
from converter_lite.passes.definitions import inline_definitions
from converter_lite.passes.pipeline import optimize
from tests.support import assert_same_outputs, build, clone, operators, random_feed, since

NEW = since("onnxruntime", 1, 24, reason="it has no Attention")
HEADS = "float[1,4,6,8] q, float[1,2,5,8] k, float[1,2,5,8] v"

CASES = {
    "CastLike": ("g (float[3] x, float[1] t) => (float[3] y) { a = Neg(x) y = CastLike(a, t) }", 19),
    "Shrink": ("g (float[9] x) => (float[9] y) { y = Shrink<lambd = 0.5, bias = 0.1>(x) }", 18),
    "CenterCropPad": ("g (float[4,9] x) => (float[6,5] y) { y = CenterCropPad(x, size) }", 18),
    "MeanVarianceNormalization": (
        "g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = MeanVarianceNormalization(x) }",
        13,
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_definition_computes_what_its_operator_does(kind: str) -> None:
    text, version = CASES[kind]
    model = build(text, opset=version, size=np.array([6, 5])) if "size" in text else build(text, opset=version)
    plain = clone(model)
    assert inline_definitions(model, frozenset({kind})) == 1
    assert kind not in operators(model)
    optimize(model)
    assert_same_outputs(plain, model, random_feed(plain))


@NEW
@pytest.mark.parametrize("attributes", ["", "<is_causal = 1, scale = 0.5>", "<softcap = 2.0>"])
def test_attention_is_products_and_a_softmax(attributes: str) -> None:
    model = build(
        f"g ({HEADS}) => (float[1,4,6,8] y) {{ y = Attention{attributes}(q, k, v) }}", opset=23, ir_version=10
    )
    plain = clone(model)
    assert inline_definitions(model, DEVICE_INLINED) > 0
    optimize(model)
    found = operators(model)
    assert not DEVICE_INLINED & found.keys()
    assert (found["MatMul"], found["Softmax"]) == (2, 1)
    assert "Shape" not in found
    assert_same_outputs(plain, model, random_feed(plain))


def test_the_nodes_of_a_definition_are_found_by_the_name_of_their_node() -> None:
    model = build("g (float[9] x) => (float[9] y) { y = Shrink(x) }", opset=18)
    model.graph[0].name = "soft"
    inline_definitions(model, frozenset({"Shrink"}))
    assert len(find_nodes(model.graph, "soft")) == len(model.graph) > 1


def test_a_normalization_is_spelled_out_for_its_mean_and_deviation() -> None:
    text = "g (float[2,3,4] x) => (float[2,3,4] y, float[2,3,1] m) {{ y{} = LayerNormalization(x, s) {} }}"
    scale = np.array([1, 2, 0.5, 1], np.float32)
    model = build(text.format(", m, d", ""), opset=17, s=scale)
    plain = clone(model)
    assert inline_definitions(model, DEVICE_INLINED) == 1
    optimize(model)
    assert_same_outputs(plain, model, random_feed(plain))
    alone = build(text.format("", "m = ReduceMean<axes=[2]>(x)"), opset=17, s=scale)
    assert inline_definitions(alone, DEVICE_INLINED) == 0


def test_other_operators_stay() -> None:
    model = build("g (float[9] x) => (float[9] y) { a = Shrink(x) y = Relu(a) }")
    assert inline_definitions(model, frozenset({"CastLike"})) == 0
    assert operators(model) == {"Shrink": 1, "Relu": 1}
