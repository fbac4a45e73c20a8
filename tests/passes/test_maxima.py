"""Places of maxima, spelled out."""

from __future__ import annotations

import numpy as np
import pytest

from converter_lite.passes.spelled_out.maxima import spell_out_places_of_maxima, spell_out_unpooling
from tests.support import assert_applies, assert_refuses, build, operators

TEXT = """g (float[2,3,{size}] x) => (float[2,3,{pooled}] y, int64[2,3,{pooled}] z) {{
    y, places = MaxPool<kernel_shape=[{kernel}]{attributes}>(x)
    z = Identity(places)
}}"""


@pytest.mark.parametrize(
    ("size", "pooled", "kernel"), [("6,4", "3,2", "2,2"), ("7,5", "3,2", "2,2"), ("6,9", "2,4", "3,2")]
)
def test_places_of_maxima_are_looked_up(size: str, pooled: str, kernel: str) -> None:
    text = TEXT.format(size=size, pooled=pooled, kernel=kernel, attributes=f", strides=[{kernel}]")
    model = build(text)
    shape = (2, 3, *map(int, size.split(",")))
    feed = {"x": np.random.default_rng(0).integers(-3, 3, shape).astype(np.float32)}  # with equal elements
    assert_applies(spell_out_places_of_maxima, model, 1, feed)
    assert operators(model)["ReduceMax"] == 2
    assert all(len(node.outputs) == 1 for node in model.graph)


@pytest.mark.parametrize(
    "attributes",
    ["", ", strides=[2,2], pads=[1,0,1,0]", ", strides=[2,2], dilations=[2,1]", ", strides=[2,2], ceil_mode=1"],
)
def test_other_windows_stay(attributes: str) -> None:
    text = TEXT.format(size="7,5", pooled="M,N", kernel="2,2", attributes=attributes)
    assert_refuses(spell_out_places_of_maxima, build(text))


def test_a_pool_whose_places_nobody_reads_stays() -> None:
    text = "g (float[1,2,4,4] x) => (float[1,2,2,2] y) { y, places = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) }"
    assert_refuses(spell_out_places_of_maxima, build(text))


@pytest.mark.parametrize(
    ("size", "kernel", "strides"), [("4,4", "2,2", "2,2"), ("6,8", "3,2", "3,2"), ("6,6", "2,2", "2,2")]
)
def test_what_is_put_at_places_is_scattered(size: str, kernel: str, strides: str) -> None:
    window = f"<kernel_shape=[{kernel}], strides=[{strides}]>"
    text = f"g (float[2,3,{size}] x) => (float[2,3,M,N] z) {{ y, p = MaxPool{window}(x) z = MaxUnpool{window}(y, p) }}"
    model = build(text)
    assert_applies(spell_out_unpooling, model, 1)
    assert operators(model)["MaxUnpool"] == 0


def test_unpooling_to_a_given_shape_stays() -> None:
    window = "<kernel_shape=[2,2], strides=[2,2]>"
    text = (
        f"g (float[1,1,4,4] x) => (float[1,1,5,5] z) {{ y, p = MaxPool{window}(x) z = MaxUnpool{window}(y, p, size) }}"
    )
    assert_refuses(spell_out_unpooling, build(text, size=np.array([1, 1, 5, 5])))
