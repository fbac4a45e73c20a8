"""Random samples hold what the operators behind the inputs require; the models run on them and give their declared shapes."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.data.random_samples import random_samples
from converter_lite.passes.shapes import infer_shapes
from tests.support import build, normal, run

GRAPHS = {
    "axes of a reduction": "(float[3,4,5] x, int64[1] a) => (float[3,5] y) { y = ReduceSum<keepdims = 0>(x, a) }",
    "axes that stay": "(float[3,4,5] x, int64[2] a) => (float[3,1,1] y) { y = ReduceSum(x, a) }",
    "axes of Squeeze": "(float[3,1,5] x, int64[1] a) => (float[3,5] y) { y = Squeeze(x, a) }",
    "axes of Unsqueeze": "(float[3,5] x, int64[2] a) => (float[3,1,5,1] y) { y = Unsqueeze(x, a) }",
    "axis of CumSum": "(float[3,5] x, int64 a) => (float[3,5] y) { y = CumSum(x, a) }",
    "shape of Reshape": "(float[3,4] x, int64[3] a) => (float[2,2,3] y) { y = Reshape(x, a) }",
    "shape of an open result": "(float[3,4] x, int64[3] a) => (float[k,l,m] y) { y = Reshape(x, a) }",
    "shape behind Cast": "(float[3,4] x, int32[2] a) => (float[6,2] y) { b = Cast<to = 7>(a) y = Reshape(x, b) }",
    "shape of Expand": "(float[3,1] x, int64[2] a) => (float[3,4] y) { y = Expand(x, a) }",
    "repeats": "(float[3,1] x, int64[2] a) => (float[6,4] y) { y = Tile(x, a) }",
    "slice": "(float[20,10] x, int64[2] a, int64[2] b, int64[2] c, int64[2] d) => (float[20,10] y) { y = Slice(x, a, b, c, d) }",
    "parts": "(float[6,2] x, int64[2] a) => (float[2,2] y, float[4,2] z) { y, z = Split(x, a) }",
    "scales": "(float[1,1,2,2] x, float[4] a) => (float[1,1,5,6] y) { y = Resize(x, , a) }",
    "sizes": "(float[1,1,2,2] x, int64[4] a) => (float[1,1,5,6] y) { y = Resize(x, , , a) }",
    "padding": "(float[1,2,3] x, int64[6] a) => (float[1,4,6] y) { y = Pad(x, a) }",
    "number": "(float[2,9] x, int64[1] a) => (float[2,1] y, int64[2,1] z) { y, z = TopK(x, a) }",
    "row numbers": "(float[2,3] x, int64[7] a) => (float[2,7] y) { y = Gather<axis = 1>(x, a) }",
    "places": "(float[2,3] x, int64[4,2] a) => (float[4] y) { y = GatherND(x, a) }",
    "lengths": "(float[4,2] x, int64[2] a) => (float[4,2] y) { y = ReverseSequence<batch_axis = 1, time_axis = 0>(x, a) }",
    "steps in time": "(float[3,1,4] x, int32[1] a) => (float[3,1,1,2] y) { y = LSTM<hidden_size = 2>(x, w, r, , a) }",
}


@pytest.mark.parametrize("case", GRAPHS)
def test_a_model_runs_on_its_random_samples_and_gives_what_it_declares(case: str) -> None:
    constants = {"w": normal(1, 8, 4), "r": normal(1, 8, 2)} if "LSTM" in GRAPHS[case] else {}
    model = build(f"g {GRAPHS[case]}", **constants)
    infer_shapes(model)
    for feed in random_samples(model, 2):
        outputs = run(model, feed)
        for value in model.graph.outputs:
            assert value.shape is not None
            if value.shape.is_static():
                assert outputs[value.name or ""].shape == tuple(value.shape.numpy())


def test_what_was_chosen_is_said() -> None:
    model = build("g (float[N,3,5] x, int64[1] a) => (float[N,5] y) { y = ReduceSum<keepdims = 0>(x, a) }")
    (note,) = random_samples(model, 1).notes
    assert note.startswith("random samples: x [1, 3, 5]; a = [1], axes of ReduceSum_0 (ReduceSum)")
    assert random_samples(build("g (float[3,5] x) => (float[3,5] y) { y = Relu(x) }"), 1).notes == []


def test_a_number_is_the_constant_that_it_is_compared_with() -> None:
    model = build("g (int64 rate) => (bool y) { y = Equal(rate, known) }", known=np.int64(16000))
    assert next(iter(random_samples(model, 1)))["rate"] == 16000


@pytest.mark.parametrize(
    ("name", "size"), [("past + sequence", 17), ("total_sequence_length", 17), ("total", 17), ("other", 16)]
)
def test_a_size_that_is_named_after_a_sum_is_that_sum(name: str, size: int) -> None:
    model = build(
        "g (float[N,sequence,8] x, float[N,past,8] k, float[N,sum] m) => (float[N,sequence,8] y) { y = Relu(x) }"
    )
    from onnx_ir import Shape, SymbolicDim

    model.graph.inputs[2].shape = Shape([SymbolicDim("N"), SymbolicDim(name)])
    feed = next(iter(random_samples(model, 1, fixed_shapes={"k": (1, 1, 8)})))
    assert feed["m"].shape == (1, size)
