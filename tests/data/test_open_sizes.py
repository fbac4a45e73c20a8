"""Sizes for dimensions that a model leaves open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.data.open_sizes import OpenSizes, other_sizes, told_lengths
from tests.cli.workshop import SUCCESS, command
from tests.support import build, build_proto, normal

PRODUCT = "g (float[T,F] x) => (float[T,5] y) { r = Relu(x) y = MatMul(r, w) }"
LINE = """g (float[N,3,H,W] x) => (float[N,8,V] y) {
    c = Conv<strides=[16,8]>(x, w) s = Squeeze(c, two) y = Relu(s) }"""
WINDOW = """g (int64[1,T] x, float[1,2,P,4] past) => (int64[1,T] y, float[4] row) {
    y = Neg(x) size = Shape(past) places = Gather(size, two) row = Gather(w, places) }"""
TOKEN = """g (int64[1,T] x, float[1,2,P,4] past) => (float[1,2,P,4] y, float[4] row) {
    y = Relu(past) size = Shape(x) places = Gather(size, one) row = Gather(w, places) }"""
LAYERS = "g (float[N,F] x) => (float[N,M] y) {{ {} }}"


@pytest.mark.parametrize(
    ("nodes", "weights", "expected"),
    [
        ("y = MatMul(x, w)", {"w": (24, 7)}, (24,)),
        ("y = Gemm(x, w)", {"w": (24, 7)}, (24,)),
        ("a = Gemm<transB=1>(x, w) y = Gemm(a, v)", {"w": (7, 24), "v": (9, 2)}, (24, 9)),
        ("y = Add(x, w)", {"w": (24, 7)}, ()),
    ],
)
def test_weights_tell_how_many_features_they_read(
    nodes: str, weights: dict[str, tuple[int, ...]], expected: tuple[int, ...]
) -> None:
    model = build(LAYERS.format(nodes), **{name: normal(*shape) for name, shape in weights.items()})
    assert told_lengths(model) == expected


def test_each_choice_is_tried_once() -> None:
    model = build(LAYERS.format("y = MatMul(x, w)"), w=normal(24, 7))
    choices = list(other_sizes(model))
    assert choices[0] == OpenSizes(24)
    assert len(set(choices)) == len(choices)


@pytest.mark.parametrize(
    ("text", "weights", "shape"),
    [
        (PRODUCT, {"w": normal(33, 5)}, "x [1, 33]"),
        (LINE, {"w": normal(8, 3, 48, 8), "two": np.array([2])}, "x [1, 3, 48, 48]"),
        (WINDOW, {"w": normal(9, 4), "two": np.array(2)}, "x [1, 16]; past [1, 2, 1, 4]"),
        (TOKEN, {"w": normal(9, 4), "one": np.array(1)}, "x [1, 1]; past [1, 2, 64, 4]"),
    ],
    ids=["features", "a line of text", "a window", "a token"],
)
def test_a_model_is_proven_with_sizes_that_it_runs_on(
    text: str, weights: dict[str, np.ndarray], shape: str, tmp_path: Path
) -> None:
    onnx.save(build_proto(text, **weights), tmp_path / "m.onnx")
    outcome = command(
        "--fmk=ONNX", f"--modelFile={tmp_path / 'm.onnx'}", f"--outputFile={tmp_path / 'o'}", "--saveType=ONNX"
    )
    assert outcome.last_line == SUCCESS, outcome.said
    assert f"random samples: {shape}" in outcome.said
