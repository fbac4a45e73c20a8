"""Computed places that may be below zero count from the front."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.spelled_out.indexing import spell_out_negative_indices
from tests.support import assert_applies, assert_refuses, build, random_feed

HEAD = "g (float[3,5,4] x, int64[2,2] i) => (float[a,b,c,d] y) "
GATHER = "y = Gather<axis=1>(x, k)"


@pytest.mark.parametrize(
    "computed",
    [
        "k = Sub(i, n)",
        "k = Neg(i)",
        "m = Neg(i) k = Add(m, n)",
        "m = Sub(i, n) k = Mod<fmod=1>(m, n)",
        "m = Sub(i, n) k, p = TopK(m, two)",
        "k = OneHot(i, n, ends)",
    ],
)
def test_what_may_be_below_zero_is_counted(computed: str) -> None:
    model = build(f"{HEAD} {{ {computed} {GATHER} }}", n=np.array(2), two=np.array([2]), ends=np.array([-1, 2]))
    assert_applies(spell_out_negative_indices, model, 1, {**random_feed(model), "i": np.array([[0, 2], [1, 2]])})


@pytest.mark.parametrize("stored", [True, False])
def test_a_single_number_stays_one(stored: bool) -> None:
    body = "y = Gather<axis=1>(x, n)" if stored else f"k = Sub(i, n) {GATHER}"
    model = build(f"g (float[3,5,4] x, int64 i) => (float[3,4] y) {{ {body} }}", n=np.array(-1))
    assert_applies(spell_out_negative_indices, model, 1, {**random_feed(model), "i": np.array(-3)})


@pytest.mark.parametrize(
    "computed",
    [
        "k = Identity(i)",
        "k = Add(i, n)",
        "m = Sub(i, n) k = Abs(m)",
        "m = Sub(i, n) k = Mod(m, n)",
        "m = Sub(i, n) k = Max(m, zero)",
        "m = Sub(i, n) k = Clip(m, zero)",
        "a = Transpose<perm=[0,2,1]>(x) t = ArgMax<axis=1,keepdims=0>(a) k = Add(t, n)",
        "s = Shape(x) k = Mul(s, n)",
        "m = Sub(i, n) v, k = TopK(m, two)",
    ],
)
def test_what_cannot_be_below_zero_stays(computed: str) -> None:
    assert_refuses(
        spell_out_negative_indices, build(f"{HEAD} {{ {computed} {GATHER} }}", n=np.array(2), zero=np.array(0))
    )


@pytest.mark.parametrize(
    ("operator", "places", "result"),
    [("GatherElements<axis=-1>", [[[-1, 2]]], "1,1,2"), ("GatherND", [[-1, 2], [0, -5]], "2,4")],
)
def test_inputs_that_are_no_look_up_are_counted(operator: str, places: list[list[int]], result: str) -> None:
    sizes = ",".join(map(str, np.shape(places)))
    model = build(f"g (float[3,5,4] x, int64[{sizes}] i) => (float[{result}] y) {{ y = {operator}(x, i) }}")
    assert_applies(spell_out_negative_indices, model, 1, {**random_feed(model), "i": np.array(places)})
