from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.formats.onnx.reader import read_onnx
from converter_lite.runtime import blocks
from converter_lite.runtime.blocks import BlockSession, run_each
from converter_lite.runtime.context import RunContext
from converter_lite.runtime.engine import DEFAULT_ENGINE
from converter_lite.runtime.serializing import open_session
from tests.support import build_proto, normal

GRAPH = """
g (float[N,8] x, bool flag) => (float[N,8] y, float[N,8] early) {
    a = MatMul(x, w0)
    early = Relu(a)
    chosen = If(flag) <
        then_branch = t () => (float[N,8] p) { p = Add(early, w1) },
        else_branch = e () => (float[N,8] q) { q = Identity(x) }
    >
    b = MatMul(chosen, w0)
    c = MatMul(b, w2)
    y = Add(c, x)
}
"""
"""One weight serves two blocks, a branch reads a value of an earlier block, an output comes from the middle."""


@pytest.mark.parametrize("values", [1, 128, 10_000])
def test_blocks_of_any_size_give_what_the_whole_model_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_VALUES", values)
    onnx.save(build_proto(GRAPH, w0=normal(8, 8), w1=normal(8), w2=normal(8, 8, seed=2)), tmp_path / "m.onnx")
    session = BlockSession(read_onnx(tmp_path / "m.onnx"), RunContext())
    assert len(session._blocks) == {1: 4, 128: 2, 10_000: 1}[values]
    feed = {"x": normal(3, 8, seed=3), "flag": np.array(True)}
    expected = DEFAULT_ENGINE.session(tmp_path / "m.onnx").run(feed)
    given = session.run(feed)
    assert given.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(given[name], array, rtol=1e-5, atol=1e-6)


def test_constants_that_are_outputs_have_their_values(tmp_path: Path) -> None:
    text = "g (float[N,8] x) => (float[N,8] y, float[8] w, float[8] e) { y = Mul(x, w) }"
    onnx.save(build_proto(text, w=normal(8), e=normal(8, seed=2)), tmp_path / "m.onnx")
    feed = {"x": normal(3, 8, seed=3)}
    expected = DEFAULT_ENGINE.session(tmp_path / "m.onnx").run(feed)
    given = BlockSession(read_onnx(tmp_path / "m.onnx"), RunContext()).run(feed)
    for name, array in expected.items():
        np.testing.assert_allclose(given[name], array, rtol=1e-6)


def test_samples_that_run_together_load_every_block_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_VALUES", 128)
    onnx.save(build_proto(GRAPH, w0=normal(8, 8), w1=normal(8), w2=normal(8, 8, seed=2)), tmp_path / "m.onnx")
    session = BlockSession(read_onnx(tmp_path / "m.onnx"), RunContext())
    feeds = [{"x": normal(3, 8, seed=seed), "flag": np.array(seed == 3)} for seed in (3, 4)]
    expected = [session.run(feed) for feed in feeds]
    loaded = []
    monkeypatch.setattr(blocks, "open_session", lambda *a, **k: loaded.append(open_session(*a, **k)) or loaded[-1])
    given = list(run_each(session, iter(feeds)))
    assert len(loaded) == 2
    for one, other in zip(given, expected, strict=True):
        assert one.keys() == other.keys()
        for name, array in other.items():
            np.testing.assert_array_equal(one[name], array)
