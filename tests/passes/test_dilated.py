"""Pools whose windows have gaps, spelled out."""

from __future__ import annotations

import pytest

from converter_lite.passes.spelled_out.dilated import spell_out_dilated_pools
from tests.support import assert_applies, assert_refuses, build, operators

TEXT = (
    "g (float[2,3,{size}] x) => (float[2,3,{pooled}] y) {{ y = MaxPool<kernel_shape=[{kernel}], dilations={rest}>(x) }}"
)


@pytest.mark.parametrize(
    ("size", "pooled", "kernel", "rest"),
    [
        ("9,8", "5,4", "3,3", "[2,2]"),
        ("9,8", "9,8", "3,3", "[2,2], pads=[2,2,2,2]"),
        ("9,8", "4,8", "3,2", "[2,1], strides=[2,1], pads=[1,0,2,1]"),
        ("9,9", "4,4", "2,2", "[3,2], strides=[2,2], ceil_mode=1"),
        ("9,8", "7,3", "2,3", '[2,2], strides=[1,2], auto_pad="VALID"'),
        ("12", "8", "3", "[2]"),
        ("5,6,7", "3,2,5", "2,3,3", "[2,2,1]"),
    ],
)
def test_what_a_place_of_every_window_reads_is_gathered(size: str, pooled: str, kernel: str, rest: str) -> None:
    model = build(TEXT.format(size=size, pooled=pooled, kernel=kernel, rest=rest))
    assert_applies(spell_out_dilated_pools, model, 1)
    assert operators(model)["MaxPool"] == 0


@pytest.mark.parametrize(
    ("size", "pooled", "rest"),
    [
        ("9,8", "8,7", "[1,1]"),
        ("9,N", "7,M", "[2,2]"),
        ("1,8", "1,6", "[2,2], pads=[1,0,1,0]"),
        ("9,8", "9,8", '[2,2], auto_pad="SAME_LOWER"'),
    ],
    ids=["no-gaps", "unknown", "beside-the-picture", "same"],
)
def test_other_pools_stay(size: str, pooled: str, rest: str) -> None:
    assert_refuses(spell_out_dilated_pools, build(TEXT.format(size=size, pooled=pooled, kernel="2,2", rest=rest)))


def test_a_pool_that_gives_indices_stays() -> None:
    window = "<kernel_shape=[2,2], dilations=[2,2]>"
    text = f"g (float[1,2,6,6] x) => (float[1,2,4,4] y, int64[1,2,4,4] p) {{ y, p = MaxPool{window}(x) }}"
    assert_refuses(spell_out_dilated_pools, build(text))
