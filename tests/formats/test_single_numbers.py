"""Models that take or give single numbers, in formats whose smallest tensor is a row of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.workshop import SUCCESS, command
from tests.support import build_proto, normal

MODELS = {
    "a mean times a number": "g (float[2,3] x) => (float y) { m = ReduceMean<keepdims=0>(x) y = Mul(m, k) }",
    "a largest element": "g (float[2,3] x) => (float y) { y = ReduceMax<keepdims=0>(x) }",
    "a score": "g (float[1,3] x) => (float y) { p = MatMul(x, w) s = Squeeze(p) t = Sigmoid(s) y = Add(t, k) }",
    "a factor that is given": "g (float[2,3] x, float f) => (float[2,3] y) { y = Mul(x, f) }",
    "both": "g (float[2,3] x, float f) => (float y, float z) { m = ReduceMean<keepdims=0>(x) y = Mul(m, f) z = Neg(f) }",
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("save_type", ["MINDIR_LITE", "NAIVE_BUFFER", "PADDLE", "ONNX"])
def test_single_numbers_are_compared_with_rows_of_one(name: str, save_type: str, tmp_path: Path) -> None:
    constants = {"k": np.float32(4), "w": normal(3, 1)}
    text = MODELS[name]
    onnx.save(
        build_proto(text, **{key: array for key, array in constants.items() if f" {key})" in text}), tmp_path / "m.onnx"
    )
    flags = [f"--modelFile={tmp_path / 'm.onnx'}", f"--outputFile={tmp_path / 'out'}", f"--saveType={save_type}"]
    outcome = command("--fmk=ONNX", *flags)
    assert outcome.last_line == SUCCESS, outcome.said
