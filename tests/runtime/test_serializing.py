"""Graphs on their way to an engine, as one message or with their constants beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.passes.shapes import infer_shapes
from converter_lite.runtime import serializing as loading
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import message, open_session
from tests.support import build, normal, random_feed

MODEL = "g (float[2,64] x) => (float[2,8] y) { h = MatMul(x, w) i = Relu(h) j = MatMul(i, v) y = Add(j, b) }"


def model() -> ir.Model:
    return build(MODEL, w=normal(64, 32), v=normal(32, 8, seed=1), b=normal(8, seed=2))


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BESIDE_FROM", 1)
    monkeypatch.setattr(loading, "DETACHED_FROM", 100)


def test_a_small_graph_is_one_message() -> None:
    made = message(model())
    assert not made.tensors
    assert {tensor.name for tensor in onnx.load_from_string(made.content).graph.initializer} == {"w", "v", "b"}


@pytest.mark.usefixtures("small_limits")
def test_constants_of_a_large_graph_are_handed_over_as_they_lie_in_memory() -> None:
    large = model()
    for value in large.graph.initializers.values():
        value.const_value = ir.Tensor(g.constant(value), name=value.name)
    made = message(large)
    assert set(made.tensors) == {"w", "v"}
    assert len(made.content) < 1000
    for name, array in made.tensors.items():
        kept = g.constant(large.graph.initializers[name])
        assert kept is not None
        assert np.shares_memory(array, kept)


@pytest.mark.usefixtures("small_limits")
def test_a_large_graph_computes_what_it_would_as_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = random_feed(model())
    large = open_session(DEFAULT_ENGINE, model()).run(feed)["y"]
    monkeypatch.undo()
    np.testing.assert_array_equal(large, open_session(DEFAULT_ENGINE, model()).run(feed)["y"])


@pytest.mark.usefixtures("small_limits")
@pytest.mark.parametrize("name", ["", None, "value"])
def test_constants_go_by_the_names_of_their_values(name: str | None) -> None:
    """A tensor that was the attribute of a Constant node has no name of its own, or that of the attribute."""
    large = model()
    for value in large.graph.initializers.values():
        value.const_value = ir.Tensor(g.constant(value), name=name)
    feed = random_feed(large)
    found = open_session(DEFAULT_ENGINE, large).run(feed)["y"]
    np.testing.assert_array_equal(found, open_session(DEFAULT_ENGINE, model()).run(feed)["y"])


@pytest.mark.usefixtures("small_limits")
def test_constants_that_nothing_reads_are_left_out() -> None:
    large = model()
    first, *others = large.graph
    large.graph.outputs[0] = first.outputs[0]
    for node in reversed(others):
        large.graph.remove(node, safe=True)
    assert set(message(large).tensors) == {"w"}
    assert open_session(DEFAULT_ENGINE, large).run(random_feed(model()))["h"].shape == (2, 32)


@pytest.mark.usefixtures("small_limits")
def test_constants_that_only_a_branch_reads_stay_in_the_message() -> None:
    text = """g (float[2,64] x, bool c) => (float[2,32] y) { h = MatMul(x, w) y = If(c) <
        then_branch = a () => (float[2,32] t) { t = MatMul(x, v) },
        else_branch = b () => (float[2,32] e) { e = MatMul(x, w) }> }"""
    large = build(text, w=normal(64, 32), v=normal(64, 32, seed=1))
    assert set(message(large).tensors) == {"w"}
    feed = {"x": normal(2, 64), "c": np.array(True)}
    np.testing.assert_allclose(
        open_session(DEFAULT_ENGINE, large).run(feed)["y"], feed["x"] @ normal(64, 32, seed=1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.usefixtures("small_limits")
def test_constants_in_a_file_stay_there(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    ir.save(model(), path, external_data="model.data", size_threshold_bytes=0)
    large = ir.load(path)
    feed = random_feed(large)
    found = open_session(DEFAULT_ENGINE, large).run(feed)["y"]
    assert isinstance(large.graph.initializers["w"].const_value, ir.ExternalTensor)
    np.testing.assert_array_equal(found, DEFAULT_ENGINE.session(path).run(feed)["y"])


@pytest.mark.usefixtures("small_limits")
def test_types_that_no_array_has_stay_in_the_message() -> None:
    integers = ir.Tensor(np.zeros((64, 8), ir.DataType.INT4.numpy()), dtype=ir.DataType.INT4, name="q")
    large = build(
        "g (float[1,64] x) => (float[1,8] y) { d = DequantizeLinear(q, s) y = MatMul(x, d) }",
        opset=21,
        ir_version=10,
        q=np.zeros((64, 8), np.int8),
        s=np.float32(0.5).reshape(()),
    )
    large.graph.initializers["q"].const_value = integers
    large.graph.initializers["q"].dtype = ir.DataType.INT4
    assert not message(large).tensors
    assert open_session(DEFAULT_ENGINE, large).run({"x": np.ones((1, 64), np.float32)})["y"].shape == (1, 8)


@pytest.mark.usefixtures("small_limits")
def test_graphs_that_differ_in_a_constant_beside_the_message_have_other_digests() -> None:
    other = model()
    other.graph.initializers["w"].const_value = ir.Tensor(normal(64, 32, seed=9), name="w")
    assert message(model()).digest() == message(model()).digest() != message(other).digest()
    assert message(model()).content == message(other).content


def test_a_detector_that_finds_nothing_runs() -> None:
    """With names for the sizes that it computes, onnxruntime lets the Reshape infer a size beside an empty one."""
    text = """g (float[N,4] boxes) => (float[n,m] y)
    { b = Greater(boxes, c) i = NonZero(b) j = Transpose<perm=[1,0]>(i) x = Cast<to=1>(j) f = Concat<axis=1>(x, x)
      u = Unsqueeze(x, last) v = Concat<axis=2>(u, u) s = Shape(f) r = Gather(s, zero) k = Gather(s, one)
      r1 = Unsqueeze(r, axis) k1 = Unsqueeze(k, axis) t = Concat<axis=0>(r1, k1) y = Reshape(v, t) }"""
    constants = {"zero": np.array(0), "one": np.array(1), "axis": np.array([0]), "last": np.array([2])}
    model = build(text, c=np.float32(0), **constants)
    infer_shapes(model)
    found = open_session(DEFAULT_ENGINE, model).run({"boxes": np.full((3, 4), -1, np.float32)})
    assert found["y"].shape == (0, 4)


@pytest.mark.parametrize("quantizes", [False, True])
def test_weights_that_are_only_stored_as_integers_are_dequantized_at_load(
    monkeypatch: pytest.MonkeyPatch, *, quantizes: bool
) -> None:
    """In a graph that quantizes activations too, the runtime has to see the pairs to compute with integers."""
    pair = "  q = QuantizeLinear(x, activation, zero)\n  dq = DequantizeLinear(q, activation, zero)\n"
    model = build(
        f"""g (float[2, 4] x) => (float[2, 3] y)
<int8[4, 3] w, float s, int8 z, float activation, uint8 zero> {{
{pair if quantizes else ""}  dw = DequantizeLinear(w, s, z)
  y = MatMul({"dq" if quantizes else "x"}, dw)
}}""",
        w=np.arange(-6, 6, dtype=np.int8).reshape(4, 3),
        s=np.array(0.5, np.float32),
        z=np.array(1, np.int8),
        activation=np.array(0.25, np.float32),
        zero=np.array(128, np.uint8),
    )
    given: list[object] = []
    plain = type(DEFAULT_ENGINE).session

    def session(self: object, model: bytes, **options: object) -> object:
        given.append(options["folded"])
        return plain(self, model, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(DEFAULT_ENGINE), "session", session)
    x = np.array([[1.0, -2.0, 0.5, 3.0], [0.0, 1.0, 2.0, -1.0]], np.float32)
    found = open_session(DEFAULT_ENGINE, model).run({"x": x})["y"]
    np.testing.assert_allclose(found, x @ ((np.arange(-6, 6).reshape(4, 3) - 1) * 0.5).astype(np.float32), rtol=1e-6)
    assert given == [not quantizes]
