"""Operators spelled out in models that came quantized."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.errors import ModelError
from converter_lite.formats.mindspore_lite.planning import adapt_plan
from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.quantization.plan import NodeMode
from converter_lite.quantization.planned_graph import settle_planned
from converter_lite.quantization.qdq.build import qdq_model
from tests.formats.paddle.test_grid_ends import GRAPHS, PAIR, START, paired, weighted
from tests.support import normal, run

FUNCTIONS = frozenset({"Atan", "LogSoftmax", "Celu"})

BODIES = {
    "integers": f"{START} {PAIR.format('c', 'step')} y = Celu(c_q)",
    "a pair between floats": f"{START} e = Exp(c) {PAIR.format('e', 'step')} y = Atan(e_q)",
    "the same, read as it is, too": f"{START} e = Exp(c) {PAIR.format('e', 'step')} a = Atan(e_q) y = Add(a, e)",
    "a layer behind it": f"{START} {PAIR.format('c', 'step')} e = Celu(c_q) {PAIR.format('e', 'step')} y = Conv(e_q, v)",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_what_is_spelled_out_reads_the_grids_of_the_model(body: str) -> None:
    given = 2 * normal(1, 4, 6, 6)
    (expected,) = run(paired(weighted(body)), {"x": given}).values()
    settled, done = settle_planned(read_qdq(paired(weighted(body))), FUNCTIONS)
    assert done.changes
    kinds = Counter(node.op_type for node in settled.model.graph)
    assert not kinds.keys() & {"Atan", "Celu"}
    assert settled.plan.nodes.keys() == {node.name for node in settled.model.graph}
    (found,) = run(qdq_model(settled), {"x": given}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_step_for_each_channel_of_what_may_have_any_number_of_axes_is_refused() -> None:
    quantized = read_qdq(paired(weighted(GRAPHS["a step for each channel"])))
    for node in quantized.model.graph:
        node.outputs[0].shape = None
    with pytest.raises(ModelError, match="its number of axes is not known"):
        adapt_plan(quantized)


def test_nodes_that_the_plan_quantizes_stay() -> None:
    quantized = read_qdq(paired(weighted(BODIES["integers"])))
    for node in quantized.model.graph:
        quantized.plan.quantize(node, NodeMode.INTEGER)
    settled, done = settle_planned(quantized, FUNCTIONS)
    assert [(node.domain, node.op_type) for node in settled.model.graph] == [("", "Conv"), ("", "Celu")]
    assert not done.changes


def test_a_rule_that_would_lose_a_grid_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def joins(model: ir.Model) -> int:
        (node,) = (node for node in model.graph if node.op_type == "Atan")
        source = node.inputs[0].producer() if node.inputs[0] is not None else None
        assert source is not None
        node.replace_input_with(0, source.inputs[0])
        model.graph.remove(source, safe=True)
        return 1

    monkeypatch.setattr("converter_lite.passes.pipeline.SPELLED_OUT", {"Atan": joins})
    settled, done = settle_planned(read_qdq(paired(weighted(BODIES["a pair between floats"]))), FUNCTIONS)
    assert [node.op_type for node in settled.model.graph] == ["Conv", "Exp", "Atan"]
    assert "joins" not in dict(done.changes)
