"""Sizes for dimensions that a model leaves open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from converter_lite.data.open_sizes import OpenSizes, other_sizes, told_lengths, unrolled_lengths
from tests.cli.workshop import SUCCESS, command
from tests.support import build, build_proto, normal

PRODUCT = "g (float[T,F] x) => (float[T,5] y) { r = Relu(x) y = MatMul(r, w) }"
LINE = """g (float[N,3,H,W] x) => (float[N,8,V] y) {
    c = Conv<strides=[16,8]>(x, w) s = Squeeze(c, two) y = Relu(s) }"""
WINDOW = """g (int64[1,T] x, float[1,2,P,4] past) => (int64[1,T] y, float[4] row) {
    y = Neg(x) size = Shape(past) places = Gather(size, two) row = Gather(w, places) }"""
TOKEN = """g (int64[1,T] x, float[1,2,P,4] past) => (float[1,2,P,4] y, float[4] row) {
    y = Relu(past) size = Shape(x) places = Gather(size, one) row = Gather(w, places) }"""
STEPS = "g (float[1,T,2] x) => (float[1,2] y) {{ {} }}"
LAYERS = "g (float[N,F] x) => (float[N,M] y) {{ {} }}"


def unrolled(places: Sequence[int]) -> str:
    """The sum of some positions along the second axis."""
    reads = " ".join(f"p{place} = Gather<axis=1>(x, i{place})" for place in places)
    return f"{reads} y = Sum({', '.join(f'p{place}' for place in places)})"


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


@pytest.mark.parametrize(("places", "expected"), [(range(20), (20,)), (range(3), ()), ([0, 1, 2, 3, 5], ())])
def test_positions_that_are_read_one_by_one_are_steps(places: Sequence[int], expected: tuple[int, ...]) -> None:
    model = build(STEPS.format(unrolled(places)), **{f"i{place}": np.array(place) for place in places})
    assert unrolled_lengths(model) == expected


@pytest.mark.parametrize("features", [24, 64])
def test_each_choice_is_tried_once(features: int) -> None:
    model = build(LAYERS.format("y = MatMul(x, w)"), w=normal(features, 7))
    choices = list(other_sizes(model))
    assert choices[0] == OpenSizes(features)
    assert len(set(choices)) == len(choices)


@pytest.mark.parametrize(
    ("text", "weights", "shape"),
    [
        (PRODUCT, {"w": normal(33, 5)}, "x [1, 33]"),
        (STEPS.format(unrolled(range(20))), {f"i{place}": np.array(place) for place in range(20)}, "x [1, 20, 2]"),
        (LINE, {"w": normal(8, 3, 48, 8), "two": np.array([2])}, "x [1, 3, 48, 48]"),
        (WINDOW, {"w": normal(9, 4), "two": np.array(2)}, "x [1, 16]; past [1, 2, 1, 4]"),
        (TOKEN, {"w": normal(9, 4), "one": np.array(1)}, "x [1, 1]; past [1, 2, 64, 4]"),
    ],
    ids=["features", "steps", "a line of text", "a window", "a token"],
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
