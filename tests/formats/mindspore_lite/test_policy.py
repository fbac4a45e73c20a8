"""What the integer kernels of the runtimes are used for."""

from __future__ import annotations

import pytest

from converter_lite.formats.mindspore_lite.planning import adapt_plan
from converter_lite.formats.mindspore_lite.policy import MS_CPU
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.quantization.placement import decide_nodes
from tests.support import build, full, normal, written

TEXT = "g (float[1,8,6,6] x) => (float[1,8,a,b] y) {{ c = Conv(x, w) d = Conv(x, v) {0} y = Conv(e, u) }}"


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("e = Add(c, d)", "an Add of integers saves MindSpore Lite no time, and costs accuracy"),
        ("e = Mul(c, d)", "a Mul of integers saves MindSpore Lite little, and costs accuracy"),
        ("e = Sigmoid(c)", "the integer Sigmoid of MindSpore Lite gives other numbers"),
        ("e = Softmax<axis=1>(c)", "MindSpore Lite takes much longer for a Softmax of integers"),
        ("e = HardSwish(c)", "CPU has no integer kernel for HardSwish"),
        ("e = MaxPool<kernel_shape=[2,2]>(c)", ""),
    ],
)
def test_an_operator_that_stays_float_between_integers_says_why(node: str, why: str) -> None:
    model = build(TEXT.format(node), opset=14, **{name: normal(8, 8, 1, 1) for name in "wvu"})
    plan = decide_nodes(model, MS_CPU, frozenset())
    (made,) = (n for n in model.graph if n.outputs[0].name == "e")
    assert plan.nodes[made.name or ""].reason == why
    assert all(not plan.nodes[n.name or ""].reason for n in model.graph if n.op_type == "Conv")


def test_an_add_of_a_model_that_is_quantized_already_says_why_it_becomes_float() -> None:
    model = build(TEXT.format("e = Add(c, d)"), opset=14, **{name: normal(8, 8, 1, 1) for name in "wvu"})
    integers = written(full(model))
    (add,) = (node for node in integers.graph if node.op_type == "Add")
    adapted = adapt_plan(read_qdq(integers))
    assert adapted.plan.nodes[add.name or ""].reason == MS_CPU.unused["Add"]
