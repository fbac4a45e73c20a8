from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from converter_lite.formats import permutation as pm

SHAPES = st.lists(st.sampled_from([1, 1, 2, 3, 4, 6]), min_size=1, max_size=4)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(SHAPES, st.randoms(use_true_random=False), st.integers(0, 3))
def test_a_reshape_without_moving_bytes_gives_the_promised_order(shape: list[int], random: object, cut: int) -> None:
    x = np.arange(int(np.prod(shape))).reshape(shape)
    perm = list(range(len(shape)))
    random.shuffle(perm)  # type: ignore[attr-defined]
    after = shape[:cut] + ([int(np.prod(shape[cut:]))] if shape[cut:] else [])
    order = pm.reshaped(shape, after, tuple(perm))
    if order is None:
        return
    stored = x.transpose(perm).reshape(pm.permute(after, order))
    np.testing.assert_array_equal(stored, x.reshape(after).transpose(order))


def test_pooled_channels_flatten_in_place() -> None:
    assert pm.reshaped((1, 8, 1, 1), (1, 8), pm.NHWC) == (0, 1)


def test_flattening_an_image_moves_bytes() -> None:
    assert pm.reshaped((1, 8, 3, 3), (1, 72), pm.NHWC) is None


def test_merging_height_and_width_keeps_channels_last() -> None:
    assert pm.reshaped((1, 8, 3, 5), (1, 8, 15), pm.NHWC) == pm.NWC


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.permutations(range(4)), st.permutations(range(4)))
def test_composed_orders_are_orders_after_each_other(first: list[int], second: list[int]) -> None:
    x = np.arange(120).reshape(2, 3, 4, 5)
    both = x.transpose(first).transpose(second)
    np.testing.assert_array_equal(both, x.transpose(pm.compose(tuple(first), tuple(second))))
    np.testing.assert_array_equal(x, x.transpose(first).transpose(pm.invert(tuple(first))))
