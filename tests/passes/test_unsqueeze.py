from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.unsqueeze import merge_unsqueezes
from tests.support import assert_applies, assert_refuses, build, operators, random_feed

CASES = {
    "both in front": ([0], [0], "float[N,3]", [0, 1]),
    "behind, then in front": ([1], [0], "float[N]", [0, 2]),
    "in front, then behind": ([0], [2], "float[N]", [0, 2]),
    "counted from the end": ([-1], [-3], "float[N,3]", [1, 3]),
    "several at once": ([0, 2], [1, 5], "float[N,3]", [0, 1, 3, 5]),
    "in any order": ([2, 0], [3, 0], "float[N,3]", [0, 1, 3, 4]),
}


@pytest.mark.parametrize("case", CASES)
def test_axes_of_two_are_those_of_one(case: str) -> None:
    inner, outer, shape, merged = CASES[case]
    rank = shape.count(",") + 1 + len(inner) + len(outer)
    result = ",".join("abcdef"[:rank])
    model = build(
        f"g ({shape} x) => (float[{result}] y) {{ a = Unsqueeze(x, i) y = Unsqueeze(a, o) }}",
        i=np.array(inner, np.int64),
        o=np.array(outer, np.int64),
    )
    assert_applies(merge_unsqueezes, model, 1, random_feed(model))
    assert [list(model.graph.initializers[n].const_value.numpy()) for n in model.graph.initializers if "axes" in n] == [  # type: ignore[union-attr]
        merged
    ]


def test_a_chain_becomes_one_and_what_others_read_stays() -> None:
    model = build(
        "g (float[N] x) => (float[1,1,1,N] y, float[1,N] a) { a = Unsqueeze(x, z) b = Unsqueeze(a, z) y = Unsqueeze(b, z) }",
        z=np.array([0], np.int64),
    )
    assert_applies(merge_unsqueezes, model, 2, random_feed(model))
    read = model.graph.outputs[0].producer()
    assert read is not None and read.inputs[0] is model.graph.inputs[0]


def test_computed_axes_and_attributes_are_refused() -> None:
    assert_refuses(
        merge_unsqueezes,
        build("g (float[N] x, int64[1] i) => (float[a,b,c] y) { a = Unsqueeze(x, i) y = Unsqueeze(a, i) }"),
    )
    old = build(
        "g (float[N] x) => (float[a,b,c] y) { a = Unsqueeze<axes=[0]>(x) y = Unsqueeze<axes=[0]>(a) }", opset=11
    )
    assert_refuses(merge_unsqueezes, old)
    assert operators(old)["Unsqueeze"] == 2
