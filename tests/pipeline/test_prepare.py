"""The graph as a format requires it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir

from tests.cli.workshop import command
from tests.support import build

RECURRENT = """g (float[batch,steps,4] x, float[2,batch,4] state, float[batch,steps] weights) => (float[batch,steps,4] y) {
    h = ReduceMean<axes=[0],keepdims=0>(state) h1 = Unsqueeze(h, one) n = Add(x, h1)
    w = Unsqueeze(weights, two) y = Mul(n, w) }"""


def test_the_sizes_that_a_message_proposes_fit_each_other(tmp_path: Path) -> None:
    ir.save(build(RECURRENT, one=np.array([1]), two=np.array([2])), tmp_path / "model.onnx")
    flags = ("--fmk=ONNX", f"--modelFile={tmp_path / 'model.onnx'}", f"--outputFile={tmp_path / 'out'}")
    refused = command(*flags)
    assert refused.status == 1
    assert "x (dimension 1); state (dimension 1); weights (dimension 1)" in refused.err
    shapes = "x:1,128,4;state:2,1,4;weights:1,128"
    assert f"--inputShape={shapes};" in refused.err
    outcome = command(*flags, f"--inputShape={shapes}")
    assert outcome.status == 0, outcome.err
