"""Pairs of QuantizeLinear and DequantizeLinear between layers that compute with floats in ``.nb`` and Paddle files."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.qdq import read_qdq
from converter_lite.formats.paddle.exporter.build import NbOptions
from converter_lite.formats.paddle.nb.parse import parse
from converter_lite.formats.paddle.nb.reader import read
from converter_lite.formats.paddle.planning import adapt_plan, adaptation_notes
from converter_lite.formats.paddle.policy import PaddlePolicy
from converter_lite.formats.paddle.proof import proof_model
from converter_lite.quantization.plan import QuantizedModel
from converter_lite.runtime.engine import DEFAULT_ENGINE
from tests.formats.paddle.models import random
from tests.formats.paddle.writing import write
from tests.support import build, run

STEP, WIDE = 0.01, 0.1
"""Steps of grids that cut numbers off, and of those that hold all."""

PAIR = "{0}_i = QuantizeLinear({0}, {1}, zero) {0}_q = DequantizeLinear({0}_i, {1}, zero)"
BY_CHANNEL = "{0}_i = QuantizeLinear<axis=1>({0}, steps, zeros) {0}_q = DequantizeLinear<axis=1>({0}_i, steps, zeros)"
START = f"{PAIR.format('x', 'wide')} c = Conv(x_q, w)"

GRAPHS = {
    "a result of integers": f"{START} {PAIR.format('c', 'step')} y = Abs(c_q)",
    "a result that integers are made of, too": f"{START} {PAIR.format('c', 'step')} d = Conv(c_q, v) y = Add(c_q, d)",
    "floats": f"{START} n = Neg(c) {PAIR.format('n', 'step')} y = Mul(n_q, c)",
    "an output": f"{START} {PAIR.format('c', 'step')} y = Identity(c_q)",
    "an input": f"{PAIR.format('x', 'step')} n = Abs(x_q) y = Conv(n, w)",
    "an output that integers are made of": (
        f"{START.replace('c = ', 'y = ')} {PAIR.format('y', 'step')} d = Conv(y_q, v) unused = Abs(d)"
    ),
    "a result that floats read as it is": f"{START} {PAIR.format('c', 'step')} d = Conv(c_q, v) y = Add(c, d)",
    "a step for each channel": f"{START} {BY_CHANNEL.format('c')} n = Neg(c_q) {BY_CHANNEL.format('n')} y = Conv(n_q, v)",
}


def paired(body: str) -> ir.Model:
    """A model in which weights are integers."""
    constants = {name: random(4, 4, 1, 1) / 3 for name in ("w", "v")}
    return build(
        f"g (float[1,4,6,6] x) => (float[1,4,6,6] y) {{ {body} }}",
        **{f"{name}_i": np.rint(array / 0.01).astype(np.int8) for name, array in constants.items()},
        wide=np.float32(WIDE),
        step=np.float32(STEP),
        fine=np.float32(0.01),
        steps=np.float32([0.005, 0.01, 0.02, 0.03]),
        zeros=np.zeros(4, np.int8),
        zero=np.int8(0),
    )


def weighted(body: str) -> str:
    """The nodes with those in front that dequantize the weights that are read."""
    found = [f"{name} = DequantizeLinear({name}_i, fine, zero)" for name in ("w", "v") if f", {name})" in body]
    return " ".join([*found, body])


def adapted(graph: str, target: str) -> QuantizedModel:
    return adapt_plan(read_qdq(paired(weighted(graph))), PaddlePolicy(target), integer=target == "arm")


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("target", ["arm", "x86"])
def test_what_a_pair_cuts_off_is_cut_off_between_floats(graph: str, target: str) -> None:
    given = 4 * random(1, 4, 6, 6)
    (expected,) = run(paired(weighted(graph)), {"x": given}).values()
    data = write(adapted(graph, target), options=NbOptions(target))
    made = proof_model(read(data), paired(weighted(graph)), ends_at_127=True)
    (found,) = DEFAULT_ENGINE.session(made, threads=1).run({"x": given}).values()
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("graph", "clips"),
    [
        (f"{START} s = Sigmoid(c) {PAIR.format('s', 'step')} y = Mul(s_q, c)", 0),
        (f"{START} n = Abs(c) {PAIR.format('n', 'step')} y = Conv(n_q, v)", 0),
        (
            f"{START} n = Neg(c) {PAIR.format('n', 'step')} m = MaxPool<kernel_shape=[1,1]>(n_q) {PAIR.format('m', 'step')} "
            "y = Conv(m_q, v)",
            0,
        ),
        (GRAPHS["a result that floats read as it is"], 0),
        (GRAPHS["a result that integers are made of, too"], 1),
    ],
)
def test_nothing_stands_where_nothing_can_be_cut_off(graph: str, clips: int) -> None:
    kinds = Counter(op.type for op in parse(write(adapted(graph, "arm"))).program.main.operators)
    assert (kinds["clip"], kinds["floor"]) == (clips, 0)


def test_a_layer_whose_data_floats_read_as_well_is_not_said_to_compute_in_float() -> None:
    graph = GRAPHS["a result that integers are made of, too"]
    source, policy = read_qdq(paired(weighted(graph))), PaddlePolicy("arm")
    assert not list(adaptation_notes(source, adapt_plan(source, policy, integer=True), policy))


def test_the_proof_reads_what_an_integer_kernel_gives_as_floats_without_the_grid_of_integers_made_of_it() -> None:
    graph = GRAPHS["a result that floats read as it is"]
    quantized = read(write(adapted(graph, "arm")))
    ((node, value),) = [(n, v) for n in quantized.model.graph if n.op_type == "Add" for v in n.inputs[:1]]
    assert value is not None
    assert value.name in quantized.plan.activations
    assert quantized.plan.nodes[str(node.name)].grid_inputs == ()
    given = 4 * random(1, 4, 6, 6)
    made = proof_model(quantized, paired(weighted(graph)), ends_at_127=True)
    (expected,) = run(paired(weighted(graph)), {"x": given}).values()
    (found,) = DEFAULT_ENGINE.session(made, threads=1).run({"x": given}).values()
    assert np.abs(found - expected).max() < 2 * STEP
