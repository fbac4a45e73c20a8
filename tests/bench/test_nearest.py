from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench.peers import nearest
from tests.support import build_proto, normal


@pytest.mark.parametrize("bits", [4, 8])
def test_every_channel_has_its_grid_with_zero_on_it(bits: int) -> None:
    weight = normal(3, 20) * np.array([[1], [10], [0]], np.float32)
    rounded = nearest.nearest(weight, bits, 0)
    steps = (weight.max(1) - weight.min(1)) / (2**bits - 1)
    assert np.all(np.abs(rounded - weight) <= steps[:, None] * 0.51 + 1e-6)
    assert np.all(rounded[2] == 0) and len(np.unique(rounded[0])) <= 2**bits


def test_weights_are_rounded_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g (float[1,8,6,6] x) => (float[1,32,4,4] y) { c = Conv(x, w) y = Add(c, b) }"
    onnx.save(build_proto(text, w=normal(32, 8, 3, 3), b=normal(1, 32, 1, 1)), tmp_path / "m.onnx")
    given = SimpleNamespace(model=tmp_path / "m.onnx", output=tmp_path / "o.onnx", bits=4)
    monkeypatch.setattr(
        nearest, "peer_parser", lambda _: SimpleNamespace(add_argument=_ignore, parse_args=lambda **_: given)
    )
    nearest.main()
    found = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "o.onnx").graph.initializer}
    weight, bias = sorted(found.values(), key=np.size, reverse=True)[:2]
    assert max(len(np.unique(channel)) for channel in weight) <= 16
    assert len(np.unique(bias)) == 32


def _ignore(*_: object, **__: object) -> None:
    """Options are given as they are."""
