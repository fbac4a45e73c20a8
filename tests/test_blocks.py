from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite import blocks
from converter_lite.blocks import BlockSession
from converter_lite.engine import DEFAULT_ENGINE
from converter_lite.frontends.onnx import read_onnx
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
    session = BlockSession(read_onnx(tmp_path / "m.onnx"), engine=DEFAULT_ENGINE, threads=1)
    assert len(session._blocks) == {1: 4, 128: 2, 10_000: 1}[values]
    feed = {"x": normal(3, 8, seed=3), "flag": np.array(True)}
    expected = DEFAULT_ENGINE.session(tmp_path / "m.onnx").run(feed)
    given = session.run(feed)
    assert given.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(given[name], array, rtol=1e-5, atol=1e-6)
