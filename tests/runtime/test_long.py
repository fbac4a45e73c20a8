from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.quantization.qdq.materialize import materialize
from converter_lite.runtime import long
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import message, open_file, open_session
from tests.quantization.test_bias_correction import NETS, net
from tests.support import build_proto, full, normal, samples_of

BRANCHES = """
g (float[N,8] x, bool flag) => (float[N,8] y, float[N,8] early) {
    a = MatMul(x, w0)
    early = Relu(a)
    chosen = If(flag) <
        then_branch = t () => (float[N,8] p) { r = Add(early, w1) p = Neg(r) },
        else_branch = e () => (float[N,8] q) { q = Identity(x) }
    >
    b = MatMul(chosen, w0)
    y = Add(b, x)
}
"""
"""A branch reads a value of an earlier part and one of its own; an output comes from the middle."""


def test_parts_of_one_node_give_what_the_whole_graph_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "PART", 1)
    monkeypatch.setattr(long, "LONG", 1)
    onnx.save(build_proto(BRANCHES, w0=normal(8, 8), w1=normal(8)), tmp_path / "m.onnx")
    feed = {"x": normal(3, 8, seed=3), "flag": np.array(True)}
    expected = DEFAULT_ENGINE.session(tmp_path / "m.onnx").run(feed)
    model = read_onnx(tmp_path / "m.onnx")
    opened = (
        open_session(DEFAULT_ENGINE, model),
        open_file(DEFAULT_ENGINE, tmp_path / "m.onnx"),  # knows no types of inner values
        message(model, beside_from=0).session(DEFAULT_ENGINE),
    )
    for session in opened:
        assert isinstance(session, long.LongSession) and len(session._parts) == 5
        for _ in range(2):
            given = session.run(feed)
            assert list(given) == session.output_names == list(expected)
            for name, array in expected.items():
                np.testing.assert_allclose(given[name], array, rtol=1e-6, atol=1e-6)


def test_constants_that_are_outputs_and_inputs_with_a_default_have_their_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long, "PART", 1)
    monkeypatch.setattr(long, "LONG", 1)
    text = "g (float[N,8] x, float[8] d) => (float[N,8] y, float[8] w, float[8] e) { a = Add(x, d) b = Mul(a, w) y = Neg(b) }"
    onnx.save(build_proto(text, w=normal(8), d=normal(8, seed=1), e=normal(8, seed=2)), tmp_path / "m.onnx")
    expected = DEFAULT_ENGINE.session(tmp_path / "m.onnx").run({"x": normal(3, 8)})
    opened = (
        open_session(DEFAULT_ENGINE, read_onnx(tmp_path / "m.onnx")),
        open_file(DEFAULT_ENGINE, tmp_path / "m.onnx"),  # its input keeps the default
    )
    for session in opened:
        assert isinstance(session, long.LongSession)
        for name, array in session.run({"x": normal(3, 8)}).items():
            np.testing.assert_allclose(array, expected[name], rtol=1e-6)


@pytest.mark.parametrize("name", NETS)
def test_integers_are_computed_as_in_the_whole_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds = samples_of(net(name), 2)
    model = materialize(full(net(name), samples=feeds))
    whole = open_session(DEFAULT_ENGINE, model)
    monkeypatch.setattr(long, "PART", 1)
    monkeypatch.setattr(long, "LONG", 1)
    parts = message(model).session(DEFAULT_ENGINE)
    assert isinstance(parts, long.LongSession) and len(parts._parts) > 1
    for part in parts._parts[:-1]:
        assert "DequantizeLinear" not in _makers(model, part.outputs)
    for feed in feeds:
        expected = whole.run(feed)
        for output, array in parts.run(feed).items():
            np.testing.assert_array_equal(array, expected[output])


def _makers(model: ir.Model, names: tuple[str, ...]) -> set[str]:
    return {node.op_type for node in model.graph for value in node.outputs if value.name in names}


def test_only_long_graphs_of_tensors_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = ir.to_proto(net("chain")).graph
    assert not long.is_long(graph)
    monkeypatch.setattr(long, "LONG", len(graph.node))
    assert long.is_long(graph)
    graph.node.add(op_type="SequenceConstruct", input=[graph.output[0].name])
    assert not long.is_long(graph)


def test_parts_that_cannot_be_cut_well_end_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long, "PART", 1)
    monkeypatch.setattr(long, "LONGEST", 2)
    model = materialize(full(net("chain"), samples=samples_of(net("chain"), 2)))
    monkeypatch.setattr(long, "LONG", 1)
    session = message(model).session(DEFAULT_ENGINE)
    assert isinstance(session, long.LongSession) and max(map(len, session._groups)) == 2
