from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.quantization.upstream import find_upstream
from tests.support import attention, build, clone, normal, positive, random_feed, run

FACTORS = np.exp2(np.arange(16) % 5 - 2).astype(np.float32)


def value(model: ir.Model, name: str) -> ir.Value:
    return next(v for n in model.graph for v in n.outputs if v.name == name)


def show(model: ir.Model, name: str) -> ir.Model:
    """The model with an inner value as its output."""
    model.graph.outputs.clear()
    model.graph.outputs.append(value(model, name))
    return model


def divided(model: ir.Model, name: str, factors: np.ndarray = FACTORS) -> ir.Model:
    result = clone(model)
    upstream = find_upstream(value(result, name), factors)
    assert upstream is not None
    upstream.divide(result.graph, g.Names(result.graph))
    return result


@pytest.mark.parametrize("sizes", [("B", "S"), ("2", "6")])
def test_the_result_of_an_attention_is_divided_in_the_value_projection(sizes: tuple[str, str]) -> None:
    model = attention(*sizes)
    result = divided(model, "c")
    feed = random_feed(model, dynamic=3)
    before, after = (run(show(clone(m), "c"), feed)["c"] for m in (model, result))
    np.testing.assert_allclose(after, before / FACTORS, rtol=1e-5, atol=1e-6)
    changed = {
        n
        for n, v in result.graph.initializers.items()
        if v.const_value is not None
        and not np.array_equal(v.const_value.numpy(), model.graph.initializers[n].const_value.numpy())  # type: ignore[union-attr]
    }
    assert changed == {"wv", "bv"}
    assert len(list(result.graph)) == len(list(model.graph))


def test_nothing_changes_before_it_is_asked_for() -> None:
    model = attention()
    before = ir.to_proto(model).SerializeToString()
    assert find_upstream(value(model, "c"), FACTORS) is not None
    assert ir.to_proto(model).SerializeToString() == before


def test_a_bias_that_others_read_is_copied() -> None:
    model = build(
        "g (float[B,16] x) => (float[B,16] y, float[B,16] z) { a = MatMul(x, w) y0 = Add(a, b) y = Relu(y0) z = Add(x, b) }",
        w=normal(16, 16),
        b=normal(16),
    )
    result = divided(model, "y0")
    feed = random_feed(model)
    before, after = run(model, feed), run(result, feed)
    np.testing.assert_allclose(after["y"], before["y"] / FACTORS, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(after["z"], before["z"])


@pytest.mark.parametrize(
    "text", ["y = LayerNormalization(x, w, b)", "y = LayerNormalization(x, w)", "k = Mul(w, x) y = Add(k, b)"]
)
def test_scale_and_offset_of_a_normalization_are_divided(text: str) -> None:
    text = f"g (float[B,S,16] x) => (float[B,S,16] z) {{ {text} z = Relu(y) }}"
    model = build(text, opset=17, w=normal(16), b=normal(16, seed=1))
    result, feed = divided(model, "y"), random_feed(model)
    np.testing.assert_allclose(run(result, feed)["z"], run(model, feed)["z"] / FACTORS, rtol=1e-5, atol=1e-6)
    assert len(list(result.graph)) == len(list(model.graph))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (16,), (1, 16)])
def test_a_constant_factor_is_divided_and_grows_if_it_is_one_number(shape: tuple[int, ...]) -> None:
    text = "g (float[B,S,16] x) => (float[B,S,16] z) { t = Tanh(x) m = Mul(t, w) y = Add(b, m) z = Relu(y) }"
    model = build(text, w=positive(*shape), b=normal(16, seed=1))
    result, feed = divided(model, "y"), random_feed(model)
    np.testing.assert_allclose(run(result, feed)["z"], run(model, feed)["z"] / FACTORS, rtol=1e-5, atol=1e-6)
    factor = result.graph.initializers["w"]
    assert factor.shape == factor.const_value.shape  # type: ignore[union-attr]


def through(text: str, shape: str = "float[B,S,16]", **constants: object) -> Callable[[], ir.Model]:
    sizes = {name: np.array(sizes, np.int64) for name, sizes in constants.items()}
    return lambda: build(
        f"g ({shape} x) => (float[a,b,c] z) {{ {text} z = Relu(y) }}",
        w=normal(16, 16),
        u=normal(16, 16, seed=1),
        b=normal(16),
        rows=normal(5, 1),
        **sizes,  # type: ignore[arg-type]
    )


REFUSED: dict[str, Callable[[], ir.Model]] = {
    "an activation function": through("a = MatMul(x, w) y = Tanh(a)"),
    "an input": through("y = Add(x, b)"),
    "a factor that all channels share": through("y = Mul(x, rows)", "float[B,5,16]"),
    "a normalization over two axes": through("y = LayerNormalization<axis=1>(x, w, w)", "float[B,16,16]"),
    "a normalization by computed scales": through("s = Relu(b) y = LayerNormalization(x, s)"),
    "a constant that would grow": through("a = MatMul(x, w) y = Add(a, rows)", "float[B,5,16]"),
    "a weight that another product reads": through("a = MatMul(x, w) c = MatMul(x, w) d = Neg(c) y = Add(a, b)"),
    "a value that another node reads": through("a = MatMul(x, w) y0 = Add(a, b) y1 = Neg(y0) y = Add(y0, b)"),
    "a sum of two activations": through("a = MatMul(x, w) y = Add(a, x)"),
    "channels that are the rows of a product": through(
        "a = MatMul(x, w) t = Transpose<perm=[0,2,1]>(a) m = MatMul(x, t) y = Transpose<perm=[0,2,1]>(m)",
        "float[B,16,16]",
    ),
    "a Reshape that mixes them with positions": through(
        "a = MatMul(x, w) r = Reshape(a, s) t = Transpose<perm=[0,2,1,3]>(r) y = Reshape(t, o)",
        "float[B,4,16]",
        s=[0, 8, 4, 2],
        o=[0, 4, 16],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_mixes_channels_is_refused(case: str) -> None:
    assert find_upstream(value(REFUSED[case](), "y"), FACTORS) is None


def test_one_value_for_all_heads_is_refused() -> None:
    model = build(
        """g (float[B,S,16] x, float[B,2,S,S] p) => (float[B,S,16] z) {
            v0 = MatMul(x, w) v = Reshape(v0, s) c0 = MatMul(p, v) c1 = Transpose<perm=[0,2,1,3]>(c0)
            y = Reshape(c1, o) z = Relu(y) }""",
        w=normal(16, 8),
        s=np.array([0, 1, -1, 8], np.int64),
        o=np.array([0, 0, 16], np.int64),
    )
    assert find_upstream(value(model, "y"), FACTORS) is None


def test_a_single_channel_is_left_alone() -> None:
    model = build("g (float[B,4] x) => (float[B,1] y) { a = MatMul(x, w) y = Relu(a) }", w=normal(4, 1))
    assert find_upstream(value(model, "a"), np.ones(1, np.float32)) is None
