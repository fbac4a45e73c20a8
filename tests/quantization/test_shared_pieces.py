"""One session for many parts of a graph gives what a session of each gives."""

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from converter_lite import graph as g
from converter_lite.quantization import shared_pieces
from converter_lite.quantization.bias_correction import LayerFit, fit_layers
from converter_lite.quantization.piece import Piece
from converter_lite.quantization.qdq.materialize import materialize
from converter_lite.quantization.sequential import SequentialRun
from converter_lite.runtime.context import RunContext
from tests.quantization.test_bias_correction import NETS, net
from tests.support import build, full, normal, samples_of

LAYERS = 6


def deep_net() -> ir.Model:
    """Equal layers with different constants, and one of another size at the end."""
    lines = [f"r{i} = Conv<pads=[1,1,1,1]>(a{i}, w{i}, b{i}) a{i + 1} = Relu(r{i})" for i in range(LAYERS)]
    text = f"g (float[2,4,8,8] a0) => (float[2,3,8,8] y) {{ {' '.join(lines)} y = Conv(a{LAYERS}, w, b) }}"
    own: dict[str, Any] = {f"w{i}": normal(4, 4, 3, 3, seed=i) * 0.3 for i in range(LAYERS)}
    own |= {f"b{i}": normal(4, seed=50 + i) for i in range(LAYERS)}
    return build(text, **own, w=normal(3, 4, 1, 1, seed=90), b=normal(3, seed=91))


def test_layers_of_one_structure_share_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    model = deep_net()
    feeds = samples_of(model, 4)
    expected = fit_layers(full(model, samples=feeds), feeds, LayerFit(), RunContext())
    opened: list[ir.Model] = []
    load = Piece

    def counted(part: ir.Model, *others: Any, **flags: bool) -> Piece:
        opened.append(part)
        return load(part, *others, **flags)

    monkeypatch.setattr(shared_pieces, "Piece", counted)
    monkeypatch.setattr(shared_pieces, "SHARED_FROM", 1)
    shifts = fit_layers(full(model, samples=feeds), feeds, LayerFit(), RunContext(threads=2))
    assert len(opened) == 4  # the first layer, one of the others, what they share, the last layer
    for node, shift in expected.items():
        np.testing.assert_allclose(shifts[node], shift, atol=2e-2 * np.abs(shift).max() + 1e-5)


@pytest.mark.parametrize("target", ["CPU", "DSP", "ARM"])
@pytest.mark.parametrize("name", [*NETS, "deep"])
def test_a_session_that_is_given_constants_computes_what_one_that_holds_them_does(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = deep_net() if name == "deep" else net(name)
    feeds = samples_of(model, 3)
    graph = materialize(full(model, target, samples=feeds))
    layers = [node.outputs[0] for node in graph.graph if node.op_type in ("Conv", "Gemm")]
    plain = SequentialRun(graph, feeds, RunContext())
    expected = [plain.means(value, later=layers[i + 1 :]) for i, value in enumerate(layers)]
    monkeypatch.setattr(shared_pieces, "SHARED_FROM", 0)
    shared = SequentialRun(graph, feeds, RunContext())
    for i, value in enumerate(layers):
        found = shared.means(value, later=layers[i + 1 :])
        step = 0.05 * np.abs(expected[i]).max()  # an element on the border between two integers may fall to either side
        np.testing.assert_allclose(found, expected[i], atol=step)


def test_parts_with_other_attributes_or_sizes_of_constants_do_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_pieces, "SHARED_FROM", 0)
    model = build(
        "g (float[1,4] x) => (float[1,4] y) {"
        " a = LeakyRelu<alpha=0.1>(x) b = LeakyRelu<alpha=0.2>(a) c = Reshape(b, one) d = Reshape(c, two) y = Identity(d) }",
        one=np.array([2, 2]),
        two=np.array([1, 4]),
    )
    x = normal(1, 4)
    run = SequentialRun(model, [{"x": x}], RunContext())
    values = {value.name: value for node in model.graph for value in node.outputs}
    found = {name: next(run.map(values[name], lambda _, array: array, later=set(values.values()))) for name in "abcdy"}
    np.testing.assert_allclose(found["a"], np.where(x < 0, 0.1 * x, x), rtol=1e-3)
    np.testing.assert_allclose(found["b"], np.where(x < 0, 0.02 * x, x), rtol=1e-3)
    assert found["c"].shape == (2, 2)
    assert found["d"].shape == found["y"].shape == (1, 4)
    assert g.constant(model.graph.initializers["one"]) is not None
